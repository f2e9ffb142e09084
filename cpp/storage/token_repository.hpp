// Table `service_tokens`. Holds hashes, and secrets only sealed. Stateless; the database is
// borrowed. `now` is a timestamp text. Errors are those of db.hpp; a change of a row
// that is not there (or, where said, not live) is TMESH_E_STATE.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/storage/records.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::storage {

class TokenRepository {
 public:
  explicit TokenRepository(Db& db) : db_(db) {}
  // What find() and the count read stays as it is until the transaction ends; for changes that
  // depend on it.
  explicit TokenRepository(Transaction& tx) : db_(tx.db()), lock_(tx.db().lock_suffix()) {}

  Result<std::optional<TokenRecord>> find(std::string_view id);
  // The row whose hash equals one of the two spellings of a digest.
  Result<std::optional<TokenRecord>> find_by_hash(std::string_view hex, std::string_view base64url);
  // `owner_user_id` empty: everybody's. An agent's token without an owner is its agent's owner's.
  Result<Page<TokenRecord>> list(const PageRequest& request, std::string_view owner_user_id = {});

  // Neither revoked nor of somebody else; expired ones too.
  Result<int64_t> count_of_owner(std::string_view owner_user_id);
  // nullopt: no such token, or its secret was not kept.
  Result<std::optional<SealedSecretRecord>> sealed_secret(std::string_view id);

  // Notes of use and what only administrators can read change no rights: no step of the
  // revision.
  static Result<void> touch_last_used(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> touch_secret_read(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> set_sealed_secret(Transaction& tx, std::string_view id,
                                        const SealedSecretRecord& sealed);

  // Each of these steps the revision, rotate() once.
  static Result<void> create(Transaction& tx, const TokenRecord& token);
  static Result<void> set_scope(Transaction& tx, std::string_view id, std::string_view scope,
                                std::string_view now);
  // `expires_at` empty: never.
  static Result<void> set_expiry(Transaction& tx, std::string_view id, std::string_view expires_at,
                                 std::string_view now);
  // A token that is already revoked is TMESH_E_STATE, for both.
  static Result<void> revoke(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> rotate(Transaction& tx, std::string_view old_id, const TokenRecord& replacement);

 private:
  Db& db_;
  std::string_view lock_;
};

}  // namespace tmesh::storage
