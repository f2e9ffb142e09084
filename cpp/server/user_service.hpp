// Changes to users, each with its audit entry, for the command line and the HTTP API
// alike.
//
// Works inside the caller's change and commits nothing: several changes can be one
// unit. Checks what its callers' users type. Passwords are hashed before the change
// begins (password.hpp); only hashes get here, and none into an audit entry.
#pragma once

#include <optional>
#include <string_view>

#include "cpp/base/result.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// 3 to 64 of letters, digits, '.', '_', '-'. TMESH_E_INVALID.
Result<void> check_username(std::string_view username);

class UserService {
 public:
  UserService(const ChangeScope& scope) : scope_(scope) {}

  // The row to change, as it stays until the change is over.
  Result<std::optional<storage::UserRecord>> find(std::string_view id) const;

  // Errors of all that follow: TMESH_E_INVALID and TMESH_E_STATE say what is wrong with the
  // request (malformed; name taken; deleted; the last administrator); the rest as db.hpp.
  // Each changes `user`, a row that find() gave, along with the database.
  Result<storage::UserRecord> create(std::string_view username, std::string_view role,
                                     std::string_view password_hash);
  // TMESH_E_STATE: an administrator exists already, even a disabled one.
  Result<storage::UserRecord> create_first_admin(std::string_view username, std::string_view password_hash);
  // Disabling ends the user's sessions. A user who is as wanted stays as it is.
  Result<void> set_disabled(storage::UserRecord& user, bool is_disabled);
  // Marks the user as deleted and ends the sessions. TMESH_E_STATE: deleted already.
  Result<void> remove(storage::UserRecord& user);
  // TMESH_E_STATE: not deleted. Disabled stays disabled.
  Result<void> restore(storage::UserRecord& user);
  Result<void> set_role(storage::UserRecord& user, std::string_view role);
  Result<void> rename(storage::UserRecord& user, std::string_view username);
  // By the user, who proved to know the old one: other sessions go on.
  Result<void> change_password(storage::UserRecord& user, std::string_view password_hash);
  // By somebody else, because the password is lost or known to others: ends all sessions.
  Result<void> reset_password(storage::UserRecord& user, std::string_view password_hash);

 private:
  // The user must not be the last administrator that can log in.
  Result<void> keep_an_admin(const storage::UserRecord& user) const;
  Result<void> check_free(std::string_view username, std::string_view except_id) const;
  Result<void> end_sessions(const storage::UserRecord& user) const;
  Result<void> set_password_hash(storage::UserRecord& user, std::string_view hash, const char* action);

  const ChangeScope& scope_;
};

}  // namespace tmesh::server
