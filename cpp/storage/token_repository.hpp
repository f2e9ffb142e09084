// Table `service_tokens`. Holds hashes, never secrets. Stateless; the database is
// borrowed. `now` is a timestamp text. Errors are those of db.hpp; a change of a row
// that is not there (or, where said, not live) is TMESH_E_STATE.
#pragma once

#include <optional>
#include <string_view>

#include "cpp/storage/records.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::storage {

class TokenRepository {
 public:
  explicit TokenRepository(Db& db) : db_(db) {}

  Result<std::optional<TokenRecord>> find(std::string_view id);
  // The row whose hash equals one of the two spellings of a digest.
  Result<std::optional<TokenRecord>> find_by_hash(std::string_view hex, std::string_view base64url);
  // `owner_user_id` empty: everybody's.
  Result<Page<TokenRecord>> list(const PageRequest& request, std::string_view owner_user_id = {});

  // Notes of use change no rights: no step of the revision.
  static Result<void> touch_last_used(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> touch_secret_read(Transaction& tx, std::string_view id, std::string_view now);

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
};

}  // namespace tmesh::storage
