#include "cpp/storage/session_repository.hpp"

#include <string>
#include <vector>

#include "cpp/storage/keyed_delete.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

#define SESSION_COLUMNS "id, user_id, token_hash, expires_at, revoked_at, created_at"
#define NOT_REVOKED "(revoked_at IS NULL OR revoked_at = '')"

SessionRecord read(RowReader& row) {
  SessionRecord session;
  session.id = row.text();
  session.user_id = row.text();
  session.token_hash = row.text();
  session.expires_at = row.optional_text();
  session.revoked_at = row.optional_text();
  session.created_at = row.text();
  return session;
}

}  // namespace

Result<std::optional<SessionRecord>> SessionRepository::find_by_hash(std::string_view hex,
                                                                     std::string_view base64url) {
  const Param params[] = {hex, base64url};
  return query_one<SessionRecord>(
      db_, "SELECT " SESSION_COLUMNS " FROM api_tokens WHERE token_hash = ? OR token_hash = ?", params, read);
}

Result<void> SessionRepository::create(Transaction& tx, const SessionRecord& session) {
  const Param params[] = {session.id,
                          session.user_id,
                          session.token_hash,
                          Param::nullable(session.expires_at),
                          Param::nullable(session.revoked_at),
                          session.created_at};
  return change_one(tx.db(), "INSERT INTO api_tokens (" SESSION_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?)",
                    params);
}

Result<uint64_t> SessionRepository::revoke(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, id};
  return tx.db().execute("UPDATE api_tokens SET revoked_at = ? WHERE id = ? AND " NOT_REVOKED, params);
}

Result<uint64_t> SessionRepository::revoke_all_of_user(Transaction& tx, std::string_view user_id,
                                                       std::string_view now) {
  const Param params[] = {now, user_id};
  return tx.db().execute("UPDATE api_tokens SET revoked_at = ? WHERE user_id = ? AND " NOT_REVOKED, params);
}

Result<uint64_t> SessionRepository::revoke_oldest(Transaction& tx, std::string_view user_id, int kept,
                                                  std::string_view now) {
  std::string sql = "SELECT id FROM api_tokens WHERE user_id = ? AND " NOT_REVOKED
                    " AND (expires_at IS NULL OR expires_at = '' OR expires_at > ?) "
                    "ORDER BY created_at DESC, id DESC LIMIT 1000 OFFSET ?";
  sql += tx.db().lock_suffix();
  const Param params[] = {user_id, now, kept};
  Result<std::vector<std::string>> ids =
      query_all<std::string>(tx.db(), sql, params, [](RowReader& row) { return row.text(); });
  if (!ids) return std::unexpected(ids.error());
  uint64_t ended = 0;
  for (const std::string& id : *ids) {
    Result<uint64_t> done = revoke(tx, id, now);
    if (!done) return done;
    ended += *done;
  }
  return ended;
}

Result<uint64_t> SessionRepository::purge(Transaction& tx, std::string_view before, int rows_max) {
  return delete_by_key(tx,
                       "SELECT id FROM api_tokens WHERE (revoked_at <> '' AND revoked_at < ?) "
                       "OR (expires_at <> '' AND expires_at < ?) LIMIT ?",
                       {before, before}, rows_max, "DELETE FROM api_tokens WHERE id = ?");
}

}  // namespace tmesh::storage
