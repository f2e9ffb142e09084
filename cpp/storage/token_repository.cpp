#include "cpp/storage/token_repository.hpp"

#include <string>

#include "cpp/storage/page.hpp"

namespace tmesh::storage {
namespace {

#define TOKEN_COLUMNS                                                                               \
  "id, token_type, owner_user_id, agent_id, node_id, token_prefix, token_hash, scope, expires_at, " \
  "revoked_at, last_used_at, created_at, updated_at"

TokenRecord read(RowReader& row) {
  TokenRecord token;
  token.id = row.text();
  token.token_type = row.text();
  token.owner_user_id = row.optional_text();
  token.agent_id = row.optional_text();
  token.node_id = row.optional_text();
  token.token_prefix = row.text();
  token.token_hash = row.text();
  token.scope = row.text();
  token.expires_at = row.optional_text();
  token.revoked_at = row.optional_text();
  token.last_used_at = row.optional_text();
  token.created_at = row.text();
  token.updated_at = row.text();
  return token;
}

Result<void> change_rights(Transaction& tx, std::string_view sql, Params params, std::string_view now) {
  if (Result<void> done = change_one(tx.db(), sql, params); !done) return done;
  return bump_revision(tx, now);
}

Result<void> insert(Transaction& tx, const TokenRecord& token) {
  const Param params[] = {token.id,
                          token.token_type,
                          Param::nullable(token.owner_user_id),
                          Param::nullable(token.agent_id),
                          Param::nullable(token.node_id),
                          token.token_prefix,
                          token.token_hash,
                          token.scope,
                          Param::nullable(token.expires_at),
                          Param::nullable(token.revoked_at),
                          Param::nullable(token.last_used_at),
                          token.created_at,
                          token.updated_at};
  return change_one(tx.db(),
                    "INSERT INTO service_tokens (" TOKEN_COLUMNS
                    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    params);
}

Result<void> mark_revoked(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, now, id};
  return change_one(tx.db(),
                    "UPDATE service_tokens SET revoked_at = ?, updated_at = ? "
                    "WHERE id = ? AND (revoked_at IS NULL OR revoked_at = '')",
                    params);
}

}  // namespace

Result<std::optional<TokenRecord>> TokenRepository::find(std::string_view id) {
  const Param params[] = {id};
  return query_one<TokenRecord>(
      db_, "SELECT " TOKEN_COLUMNS " FROM service_tokens WHERE id = ?" + std::string(lock_), params, read);
}

Result<std::optional<TokenRecord>> TokenRepository::find_by_hash(std::string_view hex,
                                                                 std::string_view base64url) {
  const Param params[] = {hex, base64url};
  return query_one<TokenRecord>(
      db_, "SELECT " TOKEN_COLUMNS " FROM service_tokens WHERE token_hash = ? OR token_hash = ?", params,
      read);
}

Result<Page<TokenRecord>> TokenRepository::list(const PageRequest& request, std::string_view owner_user_id) {
  if (owner_user_id.empty()) {
    return query_page<TokenRecord>(
        db_, "SELECT " TOKEN_COLUMNS " FROM service_tokens WHERE id > ? ORDER BY id LIMIT ?", {}, request,
        read);
  }
  return query_page<TokenRecord>(
      db_,
      "SELECT " TOKEN_COLUMNS
      " FROM service_tokens WHERE (owner_user_id = ? OR ((owner_user_id IS NULL OR owner_user_id = '') "
      "AND agent_id IN (SELECT id FROM agents WHERE owner_user_id = ?))) AND id > ? ORDER BY id LIMIT ?",
      {owner_user_id, owner_user_id}, request, read);
}

Result<int64_t> TokenRepository::count_of_owner(std::string_view owner_user_id) {
  const Param params[] = {owner_user_id};
  return query_count(db_,
                     "SELECT COUNT(*) FROM service_tokens WHERE owner_user_id = ? AND (revoked_at IS NULL OR "
                     "revoked_at = '')" +
                         std::string(lock_),
                     params);
}

Result<std::optional<SealedSecretRecord>> TokenRepository::sealed_secret(std::string_view id) {
  const Param params[] = {id};
  return query_one<SealedSecretRecord>(
      db_,
      "SELECT secret_ciphertext, secret_nonce, secret_key_id, secret_version FROM service_tokens "
      "WHERE id = ? AND secret_ciphertext <> ''",
      params, [](RowReader& row) {
        SealedSecretRecord sealed;
        sealed.ciphertext = row.text();
        sealed.nonce = row.text();
        sealed.key_id = row.text();
        sealed.version = row.integer();
        return sealed;
      });
}

Result<void> TokenRepository::set_sealed_secret(Transaction& tx, std::string_view id,
                                                const SealedSecretRecord& sealed) {
  const Param params[] = {sealed.ciphertext, sealed.nonce, sealed.key_id, sealed.version, id};
  return change_one(tx.db(),
                    "UPDATE service_tokens SET secret_ciphertext = ?, secret_nonce = ?, secret_key_id = ?, "
                    "secret_version = ? WHERE id = ?",
                    params);
}

Result<void> TokenRepository::touch_last_used(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, id};
  return change_one(tx.db(), "UPDATE service_tokens SET last_used_at = ? WHERE id = ?", params);
}

Result<void> TokenRepository::touch_secret_read(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, id};
  return change_one(tx.db(), "UPDATE service_tokens SET secret_last_read_at = ? WHERE id = ?", params);
}

Result<void> TokenRepository::create(Transaction& tx, const TokenRecord& token) {
  if (Result<void> done = insert(tx, token); !done) return done;
  return bump_revision(tx, token.created_at);
}

Result<void> TokenRepository::set_scope(Transaction& tx, std::string_view id, std::string_view scope,
                                        std::string_view now) {
  const Param params[] = {scope, now, id};
  return change_rights(tx, "UPDATE service_tokens SET scope = ?, updated_at = ? WHERE id = ?", params, now);
}

Result<void> TokenRepository::set_expiry(Transaction& tx, std::string_view id, std::string_view expires_at,
                                         std::string_view now) {
  const Param params[] = {Param::nullable(expires_at), now, id};
  return change_rights(tx, "UPDATE service_tokens SET expires_at = ?, updated_at = ? WHERE id = ?", params,
                       now);
}

Result<void> TokenRepository::revoke(Transaction& tx, std::string_view id, std::string_view now) {
  if (Result<void> done = mark_revoked(tx, id, now); !done) return done;
  return bump_revision(tx, now);
}

Result<void> TokenRepository::rotate(Transaction& tx, std::string_view old_id,
                                     const TokenRecord& replacement) {
  if (Result<void> done = mark_revoked(tx, old_id, replacement.created_at); !done) return done;
  if (Result<void> done = insert(tx, replacement); !done) return done;
  return bump_revision(tx, replacement.created_at);
}

}  // namespace tmesh::storage
