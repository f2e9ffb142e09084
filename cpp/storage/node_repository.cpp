#include "cpp/storage/node_repository.hpp"

#include "cpp/storage/page.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

#define NODE_COLUMNS                                                                                \
  "id, name, address, epoch, metadata, enabled, deleted_at, last_seen_at, expires_at, created_at, " \
  "updated_at"

NodeRecord read(RowReader& row) {
  NodeRecord node;
  node.id = row.text();
  node.name = row.text();
  node.address = row.text();
  node.epoch = row.integer();
  node.metadata = row.text();
  node.is_enabled = row.boolean();
  node.deleted_at = row.optional_text();
  node.last_seen_at = row.optional_text();
  node.expires_at = row.optional_text();
  node.created_at = row.text();
  node.updated_at = row.text();
  return node;
}

Result<std::optional<NodeRecord>> find_row(Db& db, std::string_view id, std::string_view suffix) {
  const Param params[] = {id};
  return query_one<NodeRecord>(
      db, "SELECT " NODE_COLUMNS " FROM server_nodes WHERE id = ?" + std::string(suffix), params, read);
}

Result<void> change_rights(Transaction& tx, std::string_view sql, Params params, std::string_view now) {
  if (Result<void> done = change_one(tx.db(), sql, params); !done) return done;
  return bump_revision(tx, now);
}

}  // namespace

Result<std::optional<NodeRecord>> NodeRepository::find(std::string_view id) {
  return find_row(db_, id, "");
}

Result<Page<NodeRecord>> NodeRepository::list(const PageRequest& request) {
  return query_page<NodeRecord>(
      db_, "SELECT " NODE_COLUMNS " FROM server_nodes WHERE id > ? ORDER BY id LIMIT ?", {}, request, read);
}

Result<NodeRecord> NodeRepository::start(Transaction& tx, std::string_view id, std::string_view address,
                                         std::string_view expires_at, std::string_view now) {
  Db& db = tx.db();
  Result<std::optional<NodeRecord>> found = find_row(db, id, db.lock_suffix());
  if (!found) return std::unexpected(found.error());
  NodeRecord node;
  if (const NodeRecord* row = row_of(*found)) {
    node = *row;
  } else {
    node.id = node.name = id;
    node.created_at = now;
  }
  node.address = address;
  node.epoch = node.epoch < 1 ? 1 : node.epoch + 1;
  const bool may_serve = node.is_enabled && node.deleted_at.empty();
  if (may_serve) {
    node.last_seen_at = node.updated_at = now;
    node.expires_at = expires_at;
  }
  if (!found->has_value()) {
    if (Result<void> done = restore_row(tx, node); !done) return std::unexpected(done.error());
    return node;
  }
  const Param params[] = {
      node.address,    node.epoch, Param::nullable(node.last_seen_at), Param::nullable(node.expires_at),
      node.updated_at, id};
  Result<void> done = change_one(
      db,
      "UPDATE server_nodes SET address = ?, epoch = ?, last_seen_at = ?, expires_at = ?, updated_at = ? "
      "WHERE id = ?",
      params);
  if (!done) return std::unexpected(done.error());
  return node;
}

Result<void> NodeRepository::restore_row(Transaction& tx, const NodeRecord& node) {
  const Param params[] = {node.id,
                          node.name,
                          node.address,
                          node.epoch,
                          node.metadata,
                          node.is_enabled,
                          Param::nullable(node.deleted_at),
                          Param::nullable(node.last_seen_at),
                          Param::nullable(node.expires_at),
                          node.created_at,
                          node.updated_at};
  return change_one(tx.db(),
                    "INSERT INTO server_nodes (" NODE_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    params);
}

Result<bool> NodeRepository::heartbeat(Transaction& tx, std::string_view id, int64_t epoch,
                                       std::string_view expires_at, std::string_view now) {
  const Param params[] = {now, expires_at, id, epoch};
  Result<uint64_t> matched = tx.db().execute(
      "UPDATE server_nodes SET last_seen_at = ?, expires_at = ? WHERE id = ? AND epoch = ?", params);
  if (!matched) return std::unexpected(matched.error());
  return *matched > 0;
}

Result<void> NodeRepository::rename(Transaction& tx, std::string_view id, std::string_view name,
                                    std::string_view now) {
  const Param params[] = {name, now, id};
  return change_one(tx.db(), "UPDATE server_nodes SET name = ?, updated_at = ? WHERE id = ?", params);
}

Result<void> NodeRepository::set_enabled(Transaction& tx, std::string_view id, bool is_enabled,
                                         std::string_view now) {
  const Param params[] = {is_enabled, now, id};
  return change_rights(tx, "UPDATE server_nodes SET enabled = ?, updated_at = ? WHERE id = ?", params, now);
}

Result<void> NodeRepository::mark_deleted(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, now, id};
  return change_rights(tx,
                       "UPDATE server_nodes SET deleted_at = ?, updated_at = ? WHERE id = ? AND "
                       "(deleted_at IS NULL OR deleted_at = '')",
                       params, now);
}

Result<void> NodeRepository::restore(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, id};
  return change_rights(tx,
                       "UPDATE server_nodes SET deleted_at = NULL, updated_at = ? WHERE id = ? AND "
                       "deleted_at IS NOT NULL AND deleted_at <> ''",
                       params, now);
}

}  // namespace tmesh::storage
