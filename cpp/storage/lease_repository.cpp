#include "cpp/storage/lease_repository.hpp"

#include <algorithm>

#include "cpp/storage/id_list.hpp"
#include "cpp/storage/id_text.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

#define LEASE_COLUMNS                                                                        \
  "agent_id, connection_id, node_id, instance_id, server_node_id, epoch, connection_epoch, " \
  "active_streams, health_score, acquired_at, expires_at, updated_at"

LeaseRecord read(const Db& db, RowReader& row) {
  LeaseRecord lease;
  lease.agent_id = plain_id(db, row.text());
  lease.connection_id = plain_id(db, row.text());
  lease.node_id = plain_id(db, row.text());
  lease.instance_id = plain_id(db, row.text());
  lease.server_node_id = plain_id(db, row.text());
  lease.epoch = row.integer();
  lease.connection_epoch = row.integer();
  lease.active_streams = row.integer();
  lease.health_score = row.integer();
  lease.acquired_at = row.text();
  lease.expires_at = row.text();
  lease.updated_at = row.text();
  return lease;
}

// The statement of renew() for its full number of keys.
std::string renew_sql() {
  std::string sql =
      "UPDATE agent_connection_leases SET expires_at = ?, updated_at = ? WHERE server_node_id = ? AND (";
  for (std::size_t i = 0; i < LeaseRepository::renew_max; ++i) {
    if (i > 0) sql += " OR ";
    sql += "(agent_id = ? AND connection_id = ? AND connection_epoch = ?)";
  }
  return sql + ")";
}

struct PrimaryKey {
  std::string agent_id;  // as stored
  std::string connection_id;
};

// Rows are found first and removed by their primary key: what finds them has no index, and
// a DELETE over all rows would lock those of other servers.
Result<std::size_t> remove_found(Transaction& tx, std::string_view where, std::vector<Param> params,
                                 int limit) {
  Db& db = tx.db();
  std::vector<Param> select = params;
  select.emplace_back(limit);
  Result<std::vector<PrimaryKey>> found = query_all<PrimaryKey>(
      db,
      "SELECT agent_id, connection_id FROM agent_connection_leases WHERE " + std::string(where) + " LIMIT ?",
      select, [](RowReader& row) {
        std::string agent_id = row.text();
        return PrimaryKey{std::move(agent_id), row.text()};
      });
  if (!found) return std::unexpected(found.error());
  std::size_t removed = 0;
  for (const PrimaryKey& key : *found) {
    std::vector<Param> remove = {key.agent_id, key.connection_id};
    remove.insert(remove.end(), params.begin(), params.end());
    Result<uint64_t> done =
        db.execute("DELETE FROM agent_connection_leases WHERE agent_id = ? AND connection_id = ? AND " +
                       std::string(where),
                   remove);
    if (!done) return std::unexpected(done.error());
    removed += *done;
  }
  return removed;
}

}  // namespace

Result<std::vector<LeaseRecord>> LeaseRepository::of_agent(std::string_view agent_id) {
  const std::string id = stored_id(db_, agent_id);
  const Param params[] = {id, of_agent_max};
  return query_all<LeaseRecord>(db_,
                                "SELECT " LEASE_COLUMNS
                                " FROM agent_connection_leases WHERE agent_id = ? "
                                "ORDER BY connection_id LIMIT ?",
                                params, [this](RowReader& row) { return read(db_, row); });
}

Result<std::vector<std::string>> LeaseRepository::online(std::span<const std::string> agent_ids,
                                                         std::string_view now) {
  if (agent_ids.empty()) return std::vector<std::string>();
  if (agent_ids.size() > ids_max) return fail(TMESH_E_TOO_LARGE, "too many agents are asked about at once");
  const IdList list(db_, agent_ids);
  std::vector<Param> params = {now};
  list.append_to(params);
  Result<std::vector<std::string>> found = query_all<std::string>(
      db_,
      "SELECT DISTINCT agent_id FROM agent_connection_leases WHERE expires_at > ? AND agent_id IN (" +
          list.places() + ")",
      params, [this](RowReader& row) { return plain_id(db_, row.text()); });
  if (found) std::ranges::sort(*found);
  return found;
}

Result<std::vector<LeaseTotals>> LeaseRepository::totals(std::span<const std::string> server_node_ids,
                                                         std::string_view now) {
  if (server_node_ids.empty()) return std::vector<LeaseTotals>();
  if (server_node_ids.size() > ids_max)
    return fail(TMESH_E_TOO_LARGE, "too many servers are asked about at once");
  const IdList list(db_, server_node_ids);
  std::vector<Param> params = {now};
  list.append_to(params);
  return query_all<LeaseTotals>(
      db_,
      "SELECT server_node_id, COUNT(*), CAST(SUM(active_streams) AS SIGNED), MIN(health_score) "
      "FROM agent_connection_leases WHERE expires_at > ? AND server_node_id IN (" +
          list.places() + ") GROUP BY server_node_id ORDER BY server_node_id",
      params, [this](RowReader& row) {
        LeaseTotals totals;
        totals.server_node_id = plain_id(db_, row.text());
        totals.connections_count = row.integer();
        totals.streams_count = row.integer();
        totals.health_score = row.integer();
        return totals;
      });
}

Result<bool> LeaseRepository::acquire(Transaction& tx, const LeaseRecord& lease, std::string_view now) {
  Db& db = tx.db();
  const std::string agent = stored_id(db, lease.agent_id);
  const std::string connection = stored_id(db, lease.connection_id);
  const std::string node = stored_id(db, lease.node_id);
  const std::string instance = stored_id(db, lease.instance_id);
  const std::string server = stored_id(db, lease.server_node_id);
  const Param taken[] = {node,
                         instance,
                         server,
                         lease.epoch,
                         lease.connection_epoch,
                         lease.active_streams,
                         lease.health_score,
                         lease.acquired_at,
                         lease.expires_at,
                         now,
                         agent,
                         connection,
                         lease.connection_epoch,
                         server,
                         now};
  Result<uint64_t> replaced = db.execute(
      "UPDATE agent_connection_leases SET node_id = ?, instance_id = ?, server_node_id = ?, epoch = ?, "
      "connection_epoch = ?, active_streams = ?, health_score = ?, acquired_at = ?, expires_at = ?, "
      "updated_at = ? WHERE agent_id = ? AND connection_id = ? AND "
      "(connection_epoch < ? OR server_node_id = ? OR expires_at <= ?)",
      taken);
  if (!replaced) return std::unexpected(replaced.error());
  if (*replaced > 0) return true;
  const Param row[] = {agent,
                       connection,
                       node,
                       instance,
                       server,
                       lease.epoch,
                       lease.connection_epoch,
                       lease.active_streams,
                       lease.health_score,
                       lease.acquired_at,
                       lease.expires_at,
                       now};
  Result<uint64_t> added = db.execute("INSERT INTO agent_connection_leases (" LEASE_COLUMNS
                                      ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                      row);
  if (added) return true;
  if (added.error().code == TMESH_E_STATE) return false;
  return std::unexpected(added.error());
}

Result<std::size_t> LeaseRepository::renew(Transaction& tx, std::span<const LeaseKey> keys,
                                           std::string_view server_node_id, std::string_view expires_at,
                                           std::string_view now) {
  static const std::string sql = renew_sql();
  if (keys.empty()) return std::size_t{0};
  if (keys.size() > renew_max) return fail(TMESH_E_TOO_LARGE, "too many leases are renewed at once");
  Db& db = tx.db();
  const std::string server = stored_id(db, server_node_id);
  std::vector<std::string> texts;
  texts.reserve(2 * keys.size());
  for (const LeaseKey& key : keys) {
    texts.push_back(stored_id(db, key.agent_id));
    texts.push_back(stored_id(db, key.connection_id));
  }
  std::vector<Param> params = {expires_at, now, server};
  // The last key fills what is left of the statement's places.
  for (std::size_t i = 0; i < renew_max; ++i) {
    const std::size_t at = std::min(i, keys.size() - 1);
    params.emplace_back(texts[2 * at]);
    params.emplace_back(texts[2 * at + 1]);
    params.emplace_back(keys[at].connection_epoch);
  }
  Result<uint64_t> matched = db.execute(sql, params);
  if (!matched) return std::unexpected(matched.error());
  return static_cast<std::size_t>(*matched);
}

Result<bool> LeaseRepository::renew_with_load(Transaction& tx, const LeaseRecord& lease,
                                              std::string_view now) {
  Db& db = tx.db();
  const std::string agent = stored_id(db, lease.agent_id);
  const std::string connection = stored_id(db, lease.connection_id);
  const std::string server = stored_id(db, lease.server_node_id);
  const Param params[] = {lease.active_streams,
                          lease.health_score,
                          lease.expires_at,
                          now,
                          agent,
                          connection,
                          lease.connection_epoch,
                          server};
  Result<uint64_t> matched = db.execute(
      "UPDATE agent_connection_leases SET active_streams = ?, health_score = ?, expires_at = ?, "
      "updated_at = ? WHERE agent_id = ? AND connection_id = ? AND connection_epoch = ? AND "
      "server_node_id = ?",
      params);
  if (!matched) return std::unexpected(matched.error());
  return *matched > 0;
}

Result<bool> LeaseRepository::release(Transaction& tx, const LeaseKey& key, std::string_view server_node_id) {
  Db& db = tx.db();
  const std::string agent = stored_id(db, key.agent_id);
  const std::string connection = stored_id(db, key.connection_id);
  const std::string server = stored_id(db, server_node_id);
  const Param params[] = {agent, connection, key.connection_epoch, server};
  Result<uint64_t> removed = db.execute(
      "DELETE FROM agent_connection_leases WHERE agent_id = ? AND connection_id = ? AND "
      "connection_epoch = ? AND server_node_id = ?",
      params);
  if (!removed) return std::unexpected(removed.error());
  return *removed > 0;
}

Result<std::size_t> LeaseRepository::remove_of_node(Transaction& tx, std::string_view server_node_id,
                                                    int64_t epoch, int limit) {
  const std::string server = stored_id(tx.db(), server_node_id);
  return remove_found(tx, "server_node_id = ? AND epoch < ?", {server, epoch}, limit);
}

Result<std::size_t> LeaseRepository::remove_expired(Transaction& tx, std::string_view before, int limit) {
  return remove_found(tx, "expires_at <= ?", {before}, limit);
}

}  // namespace tmesh::storage
