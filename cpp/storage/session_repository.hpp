// Table `api_tokens`: the management sessions. Holds hashes, never secrets. Stateless;
// the database is borrowed. `now` is a timestamp text. Errors are those of db.hpp.
// Sessions are no rights on streams: nothing here steps the revision.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::storage {

class SessionRepository {
 public:
  explicit SessionRepository(Db& db) : db_(db) {}

  // The session whose stored hash equals one of the two spellings of a digest.
  Result<std::optional<SessionRecord>> find_by_hash(std::string_view hex, std::string_view base64url);

  static Result<void> create(Transaction& tx, const SessionRecord& session);
  // Each gives the number of sessions it ended; those that are revoked already keep their time.
  static Result<uint64_t> revoke(Transaction& tx, std::string_view id, std::string_view now);
  static Result<uint64_t> revoke_all_of_user(Transaction& tx, std::string_view user_id, std::string_view now);
  // All of the user's but the newest `kept` of those that are neither revoked nor expired.
  static Result<uint64_t> revoke_oldest(Transaction& tx, std::string_view user_id, int kept,
                                        std::string_view now);
  // Removes at most `rows_max` that were revoked or expired before `before`; their number.
  static Result<uint64_t> purge(Transaction& tx, std::string_view before, int rows_max);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
