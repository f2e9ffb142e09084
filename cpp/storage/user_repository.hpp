// Table `users`. Stateless; the database is borrowed. `now` is a timestamp text.
// Errors are those of db.hpp; a change of a row that is not there is TMESH_E_STATE.
#pragma once

#include <optional>
#include <string_view>

#include "cpp/storage/records.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::storage {

class UserRepository {
 public:
  explicit UserRepository(Db& db) : db_(db) {}

  // Deleted users are found too: deletion is a mark, and their names stay taken.
  Result<std::optional<UserRecord>> find(std::string_view id);
  Result<std::optional<UserRecord>> find_by_username(std::string_view username);
  Result<Page<UserRecord>> list(const PageRequest& request);
  // Administrators that are neither disabled nor deleted.
  Result<int64_t> count_active_admins();

  // No step of the revision: a user without agents and tokens has no rights.
  static Result<void> create(Transaction& tx, const UserRecord& user);
  static Result<void> set_password_hash(Transaction& tx, std::string_view id, std::string_view hash,
                                        std::string_view now);

  // Each of these steps the revision.
  static Result<void> set_disabled(Transaction& tx, std::string_view id, bool is_disabled,
                                   std::string_view now);
  static Result<void> mark_deleted(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> restore(Transaction& tx, std::string_view id, std::string_view now);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
