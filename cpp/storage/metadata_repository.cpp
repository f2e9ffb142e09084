#include "cpp/storage/metadata_repository.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpp/storage/id_text.hpp"
#include "cpp/storage/records.hpp"
#include "cpp/storage/rows.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::storage {
namespace {

#define METADATA_COLUMNS                                                                   \
  "agent_id, instance_id, node_id, epoch, revision, metadata, reported_at, last_seen_at, " \
  "expires_at, stale, updated_at"

MetadataRecord read(const Db& db, RowReader& row) {
  MetadataRecord report;
  report.agent_id = plain_id(db, row.text());
  report.instance_id = plain_id(db, row.text());
  report.node_id = plain_id(db, row.text());
  report.epoch = row.integer();
  report.revision = row.integer();
  report.metadata = row.text();
  report.reported_at = row.text();
  report.last_seen_at = row.text();
  report.expires_at = row.optional_text();
  report.is_stale = row.boolean();
  report.updated_at = row.text();
  return report;
}

// Text order is wrong within a second, and a wrong "newer" would keep an old report.
bool is_before(const std::string& a, const std::string& b) {
  const std::optional<int64_t> left = parse_timestamp(a);
  const std::optional<int64_t> right = parse_timestamp(b);
  return left && right ? *left < *right : a < b;
}

bool is_superseded(const MetadataRecord& stored, const MetadataRecord& report, const std::string& now) {
  if (stored.is_stale) return true;
  if (!stored.expires_at.empty() && !is_before(now, stored.expires_at)) return true;
  if (std::pair(report.epoch, report.revision) >= std::pair(stored.epoch, stored.revision)) return true;
  return is_before(stored.reported_at, report.reported_at);
}

struct StoredKey {
  std::string agent_id;  // as stored
  std::string instance_id;
};

StoredKey stored_key(const Db& db, const MetadataKey& key) {
  return {stored_id(db, key.agent_id), stored_id(db, key.instance_id)};
}

// The statement of touch() for its full number of keys.
std::string touch_sql() {
  std::string sql = "UPDATE agent_instance_metadata SET last_seen_at = ?, expires_at = ?, stale = 0 WHERE ";
  for (std::size_t i = 0; i < MetadataRepository::touch_max; ++i) {
    if (i > 0) sql += " OR ";
    sql += "(agent_id = ? AND instance_id = ? AND epoch = ? AND revision = ?)";
  }
  return sql;
}

// What leaves with its process: fenced, and not while a lease of the process lives.
Result<bool> leave(Transaction& tx, std::string_view change, std::vector<Param> params,
                   const MetadataKey& key, std::string_view now) {
  const StoredKey at = stored_key(tx.db(), key);
  for (const Param& param : std::initializer_list<Param>{at.agent_id, at.instance_id, key.epoch, key.revision,
                                                         at.agent_id, at.instance_id, now}) {
    params.push_back(param);
  }
  Result<uint64_t> matched = tx.db().execute(
      std::string(change) +
          " WHERE agent_id = ? AND instance_id = ? AND epoch = ? AND revision = ? AND NOT EXISTS "
          "(SELECT 1 FROM agent_connection_leases l WHERE l.agent_id = ? AND l.instance_id = ? AND "
          "l.expires_at > ?)",
      params);
  if (!matched) return std::unexpected(matched.error());
  return *matched > 0;
}

// As for leases: found first, changed by primary key, and under the same condition again.
Result<std::size_t> change_found(Transaction& tx, std::string_view change,
                                 const std::vector<Param>& change_params, std::string_view where,
                                 std::vector<Param> params, int limit) {
  Db& db = tx.db();
  std::vector<Param> select = params;
  select.emplace_back(limit);
  Result<std::vector<StoredKey>> found = query_all<StoredKey>(
      db,
      "SELECT agent_id, instance_id FROM agent_instance_metadata WHERE " + std::string(where) + " LIMIT ?",
      select, [](RowReader& row) {
        std::string agent_id = row.text();
        return StoredKey{std::move(agent_id), row.text()};
      });
  if (!found) return std::unexpected(found.error());
  std::size_t changed = 0;
  for (const StoredKey& key : *found) {
    std::vector<Param> all = change_params;
    all.emplace_back(key.agent_id);
    all.emplace_back(key.instance_id);
    all.insert(all.end(), params.begin(), params.end());
    Result<uint64_t> done = db.execute(
        std::string(change) + " WHERE agent_id = ? AND instance_id = ? AND " + std::string(where), all);
    if (!done) return std::unexpected(done.error());
    changed += *done;
  }
  return changed;
}

}  // namespace

Result<std::vector<MetadataRecord>> MetadataRepository::of_agent(std::string_view agent_id) {
  const std::string id = stored_id(db_, agent_id);
  const Param params[] = {id, of_agent_max};
  return query_all<MetadataRecord>(db_,
                                   "SELECT " METADATA_COLUMNS
                                   " FROM agent_instance_metadata WHERE agent_id = ? "
                                   "ORDER BY stale, last_seen_at DESC, instance_id LIMIT ?",
                                   params, [this](RowReader& row) { return read(db_, row); });
}

Result<bool> MetadataRepository::upsert(Transaction& tx, const MetadataRecord& report, std::string_view now) {
  Db& db = tx.db();
  const StoredKey key{stored_id(db, report.agent_id), stored_id(db, report.instance_id)};
  const std::string node = stored_id(db, report.node_id);
  const Param find[] = {key.agent_id, key.instance_id};
  Result<std::optional<MetadataRecord>> stored = query_one<MetadataRecord>(
      db,
      "SELECT " METADATA_COLUMNS " FROM agent_instance_metadata WHERE agent_id = ? AND instance_id = ?" +
          std::string(db.lock_suffix()),
      find, [&db](RowReader& row) { return read(db, row); });
  if (!stored) return std::unexpected(stored.error());
  const std::string at(now);
  if (const MetadataRecord* row = row_of(*stored)) {
    if (!is_superseded(*row, report, at)) return false;
    const Param params[] = {node,
                            report.epoch,
                            report.revision,
                            report.metadata,
                            report.reported_at,
                            now,
                            Param::nullable(report.expires_at),
                            now,
                            key.agent_id,
                            key.instance_id};
    Result<void> done =
        change_one(db,
                   "UPDATE agent_instance_metadata SET node_id = ?, epoch = ?, revision = ?, metadata = ?, "
                   "reported_at = ?, last_seen_at = ?, expires_at = ?, stale = 0, updated_at = ? "
                   "WHERE agent_id = ? AND instance_id = ?",
                   params);
    if (!done) return std::unexpected(done.error());
    return true;
  }
  const Param params[] = {key.agent_id,
                          key.instance_id,
                          node,
                          report.epoch,
                          report.revision,
                          report.metadata,
                          report.reported_at,
                          now,
                          Param::nullable(report.expires_at),
                          0,
                          now};
  Result<void> done = change_one(db,
                                 "INSERT INTO agent_instance_metadata (" METADATA_COLUMNS
                                 ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                 params);
  if (!done) return std::unexpected(done.error());
  return true;
}

Result<std::size_t> MetadataRepository::touch(Transaction& tx, std::span<const MetadataKey> keys,
                                              std::string_view expires_at, std::string_view now) {
  static const std::string sql = touch_sql();
  if (keys.empty()) return std::size_t{0};
  if (keys.size() > touch_max) return fail(TMESH_E_TOO_LARGE, "too many reports are touched at once");
  std::vector<StoredKey> stored;
  stored.reserve(keys.size());
  for (const MetadataKey& key : keys) stored.push_back(stored_key(tx.db(), key));
  std::vector<Param> params = {now, Param::nullable(expires_at)};
  // The last key fills what is left of the statement's places.
  for (std::size_t i = 0; i < touch_max; ++i) {
    const std::size_t at = std::min(i, keys.size() - 1);
    params.emplace_back(stored[at].agent_id);
    params.emplace_back(stored[at].instance_id);
    params.emplace_back(keys[at].epoch);
    params.emplace_back(keys[at].revision);
  }
  Result<uint64_t> matched = tx.db().execute(sql, params);
  if (!matched) return std::unexpected(matched.error());
  return static_cast<std::size_t>(*matched);
}

Result<bool> MetadataRepository::mark_stale(Transaction& tx, const MetadataKey& key, std::string_view now) {
  return leave(tx, "UPDATE agent_instance_metadata SET stale = 1, updated_at = ?", {now}, key, now);
}

Result<bool> MetadataRepository::remove(Transaction& tx, const MetadataKey& key, std::string_view now) {
  return leave(tx, "DELETE FROM agent_instance_metadata", {}, key, now);
}

Result<MetadataRepository::Swept> MetadataRepository::sweep(Transaction& tx, std::string_view now,
                                                            std::string_view kept_since, int limit) {
  Swept swept;
  Result<std::size_t> marked =
      change_found(tx, "UPDATE agent_instance_metadata SET stale = 1, updated_at = ?", {now},
                   "stale = 0 AND expires_at IS NOT NULL AND expires_at <= ?", {now}, limit);
  if (!marked) return std::unexpected(marked.error());
  swept.marked_count = *marked;
  Result<std::size_t> removed =
      change_found(tx, "DELETE FROM agent_instance_metadata", {},
                   "stale = 1 AND (updated_at < ? OR NOT EXISTS "
                   "(SELECT 1 FROM agents a WHERE a.id = agent_instance_metadata.agent_id))",
                   {kept_since}, limit);
  if (!removed) return std::unexpected(removed.error());
  swept.removed_count = *removed;
  return swept;
}

}  // namespace tmesh::storage
