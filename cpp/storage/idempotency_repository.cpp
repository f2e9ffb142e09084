#include "cpp/storage/idempotency_repository.hpp"

#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

#define IDEMPOTENCY_COLUMNS "idempotency_key, user_id, response, status_code, created_at, expires_at"

IdempotencyRecord read(RowReader& row) {
  IdempotencyRecord record;
  record.key = row.text();
  record.user_id = row.optional_text();
  record.response = row.text();
  record.status_code = row.integer();
  record.created_at = row.text();
  record.expires_at = row.optional_text();
  return record;
}

}  // namespace

Result<std::optional<IdempotencyRecord>> IdempotencyRepository::find(std::string_view key) {
  const Param params[] = {key};
  std::string sql = "SELECT " IDEMPOTENCY_COLUMNS " FROM idempotency_keys WHERE idempotency_key = ?";
  if (db_.driver() == Driver::mysql) sql += " LOCK IN SHARE MODE";
  return query_one<IdempotencyRecord>(db_, sql, params, read);
}

Result<void> IdempotencyRepository::insert(Transaction& tx, const IdempotencyRecord& record) {
  const Param params[] = {record.key,        Param::nullable(record.user_id),
                          record.response,   record.status_code,
                          record.created_at, Param::nullable(record.expires_at)};
  return change_one(
      tx.db(), "INSERT INTO idempotency_keys (" IDEMPOTENCY_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?)", params);
}

Result<void> IdempotencyRepository::replace(Transaction& tx, const IdempotencyRecord& record) {
  const Param params[] = {
      Param::nullable(record.user_id),    record.response, record.status_code, record.created_at,
      Param::nullable(record.expires_at), record.key};
  return change_one(tx.db(),
                    "UPDATE idempotency_keys SET user_id = ?, response = ?, status_code = ?, created_at = ?, "
                    "expires_at = ? WHERE idempotency_key = ?",
                    params);
}

Result<int64_t> IdempotencyRepository::purge(Transaction& tx, std::string_view now, int limit) {
  const Param which[] = {now, limit};
  // In two steps: MySQL does not delete by a limited sub-query of the same table.
  Result<std::vector<std::string>> keys = query_all<std::string>(
      tx.db(),
      "SELECT idempotency_key FROM idempotency_keys WHERE expires_at IS NOT NULL AND expires_at <= ? "
      "ORDER BY idempotency_key LIMIT ?",
      which, [](RowReader& row) { return row.text(); });
  if (!keys) return std::unexpected(keys.error());
  for (const std::string& key : *keys) {
    const Param params[] = {key, now};
    Result<uint64_t> gone =
        tx.db().execute("DELETE FROM idempotency_keys WHERE idempotency_key = ? AND expires_at <= ?", params);
    if (!gone) return std::unexpected(gone.error());
  }
  return static_cast<int64_t>(keys->size());
}

}  // namespace tmesh::storage
