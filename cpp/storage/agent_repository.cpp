#include "cpp/storage/agent_repository.hpp"

#include <string>

#include "cpp/storage/page.hpp"

namespace tmesh::storage {
namespace {

#define AGENT_COLUMNS "id, name, owner_user_id, capabilities, enabled, created_at, updated_at"

AgentRecord read(RowReader& row) {
  AgentRecord agent;
  agent.id = row.text();
  agent.name = row.text();
  agent.owner_user_id = row.text();
  agent.capabilities = row.text();
  agent.is_enabled = row.boolean();
  agent.created_at = row.text();
  agent.updated_at = row.text();
  return agent;
}

Result<void> change_rights(Transaction& tx, std::string_view sql, Params params, std::string_view now) {
  if (Result<void> done = change_one(tx.db(), sql, params); !done) return done;
  return bump_revision(tx, now);
}

}  // namespace

Result<std::optional<AgentRecord>> AgentRepository::find(std::string_view id) {
  const Param params[] = {id};
  return query_one<AgentRecord>(db_, "SELECT " AGENT_COLUMNS " FROM agents WHERE id = ?" + std::string(lock_),
                                params, read);
}

Result<std::vector<AgentRecord>> AgentRepository::find_by_name(std::string_view name) {
  const Param params[] = {name, name};
  return query_all<AgentRecord>(db_,
                                "SELECT " AGENT_COLUMNS " FROM agents WHERE name = ? AND " TMESH_SQL_EXACT(
                                    "name") " = ? ORDER BY id LIMIT 2",
                                params, read);
}

Result<Page<AgentRecord>> AgentRepository::list(const PageRequest& request, std::string_view owner_user_id) {
  if (owner_user_id.empty()) {
    return query_page<AgentRecord>(
        db_, "SELECT " AGENT_COLUMNS " FROM agents WHERE id > ? ORDER BY id LIMIT ?", {}, request, read);
  }
  return query_page<AgentRecord>(
      db_, "SELECT " AGENT_COLUMNS " FROM agents WHERE owner_user_id = ? AND id > ? ORDER BY id LIMIT ?",
      {owner_user_id}, request, read);
}

Result<int64_t> AgentRepository::count_of_owner(std::string_view owner_user_id) {
  const Param params[] = {owner_user_id};
  return query_count(db_, "SELECT COUNT(*) FROM agents WHERE owner_user_id = ?" + std::string(lock_), params);
}

Result<void> AgentRepository::set_capabilities(Transaction& tx, std::string_view id,
                                               std::string_view capabilities, std::string_view now) {
  const Param params[] = {capabilities, now, id};
  return change_one(tx.db(), "UPDATE agents SET capabilities = ?, updated_at = ? WHERE id = ?", params);
}

Result<void> AgentRepository::rename(Transaction& tx, std::string_view id, std::string_view name,
                                     std::string_view now) {
  const Param params[] = {name, now, id};
  return change_one(tx.db(), "UPDATE agents SET name = ?, updated_at = ? WHERE id = ?", params);
}

Result<void> AgentRepository::create(Transaction& tx, const AgentRecord& agent) {
  const Param params[] = {agent.id,         agent.name,       agent.owner_user_id, agent.capabilities,
                          agent.is_enabled, agent.created_at, agent.updated_at};
  return change_rights(tx, "INSERT INTO agents (" AGENT_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)", params,
                       agent.created_at);
}

Result<void> AgentRepository::set_enabled(Transaction& tx, std::string_view id, bool is_enabled,
                                          std::string_view now) {
  const Param params[] = {is_enabled, now, id};
  return change_rights(tx, "UPDATE agents SET enabled = ?, updated_at = ? WHERE id = ?", params, now);
}

Result<void> AgentRepository::set_owner(Transaction& tx, std::string_view id, std::string_view owner_user_id,
                                        std::string_view now) {
  const Param params[] = {owner_user_id, now, id};
  return change_rights(tx, "UPDATE agents SET owner_user_id = ?, updated_at = ? WHERE id = ?", params, now);
}

Result<void> AgentRepository::remove(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {id};
  // The agent first, as who adds a policy locks it first: the other order is a deadlock.
  if (Result<void> done = change_one(tx.db(), "DELETE FROM agents WHERE id = ?", params); !done) return done;
  Result<uint64_t> policies = tx.db().execute("DELETE FROM agent_policies WHERE agent_id = ?", params);
  if (!policies) return std::unexpected(policies.error());
  return bump_revision(tx, now);
}

}  // namespace tmesh::storage
