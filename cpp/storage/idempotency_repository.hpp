// Table `idempotency_keys`: what a change under a key was answered with, written in the
// transaction of the change. Errors are those of db.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::storage {

class IdempotencyRepository {
 public:
  explicit IdempotencyRepository(Db& db) : db_(db) {}

  // For where the row was found taken, which waited for whoever wrote it: as it is now,
  // although the transaction may have begun to read before. The lock for that is the one
  // that insert() got, so that two who wait for the same key do not undo one another.
  Result<std::optional<IdempotencyRecord>> find(std::string_view key);

  // TMESH_E_STATE: the key is taken; the transaction goes on. Waits for another transaction
  // that is about to write the same key.
  static Result<void> insert(Transaction& tx, const IdempotencyRecord& record);
  // All columns of the row of that key.
  static Result<void> replace(Transaction& tx, const IdempotencyRecord& record);
  // Deletes rows that expired before `now`, at most `limit`, and says how many. The caller
  // comes again while it is `limit`.
  static Result<int64_t> purge(Transaction& tx, std::string_view now, int limit);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
