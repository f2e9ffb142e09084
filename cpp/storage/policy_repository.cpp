#include "cpp/storage/policy_repository.hpp"

#include <string>

#include "cpp/storage/page.hpp"

namespace tmesh::storage {
namespace {

#define POLICY_COLUMNS \
  "id, agent_id, target_host, target_port, protocol, allowed_cidrs, allowed_ports, created_at, updated_at"

PolicyRecord read(RowReader& row) {
  PolicyRecord policy;
  policy.id = row.text();
  policy.agent_id = row.text();
  policy.target_host = row.text();
  policy.target_port = row.integer();
  policy.protocol = row.text();
  policy.allowed_cidrs = row.text();
  policy.allowed_ports = row.text();
  policy.created_at = row.text();
  policy.updated_at = row.text();
  return policy;
}

Result<void> change_rights(Transaction& tx, std::string_view sql, Params params, std::string_view now) {
  if (Result<void> done = change_one(tx.db(), sql, params); !done) return done;
  return bump_revision(tx, now);
}

}  // namespace

Result<std::optional<PolicyRecord>> PolicyRepository::find(std::string_view id) {
  const Param params[] = {id};
  return query_one<PolicyRecord>(
      db_, "SELECT " POLICY_COLUMNS " FROM agent_policies WHERE id = ?" + std::string(lock_), params, read);
}

Result<Page<PolicyRecord>> PolicyRepository::list(const PageRequest& request, std::string_view agent_id) {
  if (agent_id.empty()) {
    return query_page<PolicyRecord>(
        db_, "SELECT " POLICY_COLUMNS " FROM agent_policies WHERE id > ? ORDER BY id LIMIT ?", {}, request,
        read);
  }
  return query_page<PolicyRecord>(
      db_, "SELECT " POLICY_COLUMNS " FROM agent_policies WHERE agent_id = ? AND id > ? ORDER BY id LIMIT ?",
      {agent_id}, request, read);
}

Result<int64_t> PolicyRepository::count_of_agent(std::string_view agent_id) {
  const Param params[] = {agent_id};
  return query_count(db_, "SELECT COUNT(*) FROM agent_policies WHERE agent_id = ?" + std::string(lock_),
                     params);
}

Result<void> PolicyRepository::create(Transaction& tx, const PolicyRecord& policy) {
  const Param params[] = {policy.id,        policy.agent_id,      policy.target_host,   policy.target_port,
                          policy.protocol,  policy.allowed_cidrs, policy.allowed_ports, policy.created_at,
                          policy.updated_at};
  return change_rights(tx,
                       "INSERT INTO agent_policies (" POLICY_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                       params, policy.created_at);
}

Result<void> PolicyRepository::update(Transaction& tx, const PolicyRecord& policy) {
  const Param params[] = {policy.target_host,   policy.target_port, policy.protocol, policy.allowed_cidrs,
                          policy.allowed_ports, policy.updated_at,  policy.id};
  return change_rights(
      tx,
      "UPDATE agent_policies SET target_host = ?, target_port = ?, protocol = ?, allowed_cidrs = ?, "
      "allowed_ports = ?, updated_at = ? WHERE id = ?",
      params, policy.updated_at);
}

Result<void> PolicyRepository::remove(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {id};
  return change_rights(tx, "DELETE FROM agent_policies WHERE id = ?", params, now);
}

}  // namespace tmesh::storage
