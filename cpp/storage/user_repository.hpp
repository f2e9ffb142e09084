// Table `users`. Stateless; the database is borrowed. `now` is a timestamp text.
// Errors are those of db.hpp; a change of a row that is not there is TMESH_E_STATE.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/storage/records.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::storage {

enum class UserFilter : uint8_t { active, deleted, all };  // disabled users are active

class UserRepository {
 public:
  explicit UserRepository(Db& db) : db_(db) {}
  // What it reads stays as it is until the transaction ends; for changes that depend on it.
  explicit UserRepository(Transaction& tx) : db_(tx.db()), lock_(tx.db().lock_suffix()) {}

  // Deleted users are found too: deletion is a mark, and their names stay taken.
  Result<std::optional<UserRecord>> find(std::string_view id);
  // Byte by byte, on MySQL too, whose collations may take two names for one.
  Result<std::optional<UserRecord>> find_by_username(std::string_view username);
  // Whether another user than `except_id`, deleted ones included, has this name or one that
  // differs only in the case of ASCII letters, which MySQL's index takes for the same.
  // Never locks.
  Result<bool> is_username_taken(std::string_view username, std::string_view except_id = {});
  Result<Page<UserRecord>> list(const PageRequest& request, UserFilter filter = UserFilter::all);
  // Administrators that are neither disabled nor deleted.
  Result<int64_t> count_active_admins();
  // Administrators that are not deleted.
  Result<int64_t> count_admins();

  // No step of the revision: a user without agents and tokens has no rights, and neither
  // password nor name nor role decides about a stream.
  static Result<void> create(Transaction& tx, const UserRecord& user);
  static Result<void> set_password_hash(Transaction& tx, std::string_view id, std::string_view hash,
                                        std::string_view now);
  static Result<void> set_username(Transaction& tx, std::string_view id, std::string_view username,
                                   std::string_view now);
  static Result<void> set_role(Transaction& tx, std::string_view id, std::string_view role,
                               std::string_view now);

  // Each of these steps the revision.
  static Result<void> set_disabled(Transaction& tx, std::string_view id, bool is_disabled,
                                   std::string_view now);
  static Result<void> mark_deleted(Transaction& tx, std::string_view id, std::string_view now);
  static Result<void> restore(Transaction& tx, std::string_view id, std::string_view now);

 private:
  Result<int64_t> count(std::string_view condition);

  Db& db_;
  std::string_view lock_;
};

}  // namespace tmesh::storage
