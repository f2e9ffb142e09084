#include "cpp/storage/summary_repository.hpp"

#include <string>
#include <vector>

#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

struct Count {
  int64_t* value;
  const char* sql;  // up to the owner's condition
  bool needs_now;
  const char* owner_column;  // nullptr: of the whole installation
};

Result<int64_t> read_count(Db& db, const Count& count, std::string_view owner, std::string_view now) {
  std::vector<Param> params;
  std::string sql = count.sql;
  if (count.needs_now) params.emplace_back(now);
  if (!owner.empty()) {
    sql += std::string(" AND ") + count.owner_column + " = ?";
    params.emplace_back(owner);
  }
  Result<std::optional<int64_t>> found =
      query_one<int64_t>(db, sql, params, [](RowReader& row) { return row.integer(); });
  if (!found) return std::unexpected(found.error());
  return found->value_or(0);
}

}  // namespace

Result<Summary> read_summary(Db& db, std::string_view owner_user_id, std::string_view now) {
  Summary s;
  const Count counts[] = {
      {&s.agents_count, "SELECT COUNT(*) FROM agents WHERE 1 = 1", false, "owner_user_id"},
      {&s.agents_enabled_count, "SELECT COUNT(*) FROM agents WHERE enabled = 1", false, "owner_user_id"},
      {&s.agents_online_count,
       "SELECT COUNT(DISTINCT a.id) FROM agents a JOIN agent_connection_leases l ON l.agent_id = a.id "
       "WHERE l.expires_at > ?",
       true, "a.owner_user_id"},
      {&s.connections_count,
       "SELECT COUNT(*) FROM agents a JOIN agent_connection_leases l ON l.agent_id = a.id "
       "WHERE l.expires_at > ?",
       true, "a.owner_user_id"},
      {&s.streams_count,
       "SELECT CAST(COALESCE(SUM(l.active_streams), 0) AS SIGNED) FROM agents a "
       "JOIN agent_connection_leases l ON l.agent_id = a.id WHERE l.expires_at > ?",
       true, "a.owner_user_id"},
      {&s.policies_count,
       "SELECT COUNT(*) FROM agent_policies p JOIN agents a ON a.id = p.agent_id WHERE 1 = 1", false,
       "a.owner_user_id"},
      {&s.tokens_count, "SELECT COUNT(*) FROM service_tokens WHERE 1 = 1", false, "owner_user_id"},
      {&s.tokens_live_count,
       "SELECT COUNT(*) FROM service_tokens WHERE (revoked_at IS NULL OR revoked_at = '') AND "
       "(expires_at IS NULL OR expires_at = '' OR expires_at > ?)",
       true, "owner_user_id"},
      {&s.users_count, "SELECT COUNT(*) FROM users WHERE (deleted_at IS NULL OR deleted_at = '')", false,
       nullptr},
      {&s.users_disabled_count,
       "SELECT COUNT(*) FROM users WHERE (deleted_at IS NULL OR deleted_at = '') AND disabled = 1", false,
       nullptr},
      {&s.nodes_count, "SELECT COUNT(*) FROM server_nodes WHERE (deleted_at IS NULL OR deleted_at = '')",
       false, nullptr},
      {&s.nodes_online_count,
       "SELECT COUNT(*) FROM server_nodes WHERE (deleted_at IS NULL OR deleted_at = '') AND enabled = 1 AND "
       "expires_at > ?",
       true, nullptr},
  };
  for (const Count& count : counts) {
    if (!owner_user_id.empty() && count.owner_column == nullptr) continue;
    Result<int64_t> value = read_count(db, count, owner_user_id, now);
    if (!value) return std::unexpected(value.error());
    *count.value = *value;
  }
  return s;
}

}  // namespace tmesh::storage
