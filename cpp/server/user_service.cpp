#include "cpp/server/user_service.hpp"

#include <algorithm>

#include "cpp/server/ids.hpp"
#include "cpp/storage/session_repository.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {
namespace {

using storage::UserRepository;

bool is_username_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

Result<void> check_role(std::string_view role) {
  if (role != "admin" && role != "user") return fail(TMESH_E_INVALID, "a role is admin or user");
  return {};
}

Result<void> check_not_deleted(const storage::UserRecord& user) {
  if (!user.deleted_at.empty()) return fail(TMESH_E_STATE, "the user is deleted; restore it first");
  return {};
}

}  // namespace

Result<void> check_username(std::string_view username) {
  if (username.size() < 3 || username.size() > 64 || !std::ranges::all_of(username, is_username_char)) {
    return fail(TMESH_E_INVALID, "a user name has 3 to 64 letters, digits, '.', '_' or '-'");
  }
  return {};
}

Result<std::optional<storage::UserRecord>> UserService::find(std::string_view id) const {
  return UserRepository(scope_.tx()).find(id);
}

Result<void> UserService::check_free(std::string_view username, std::string_view except_id) const {
  const Result<bool> taken = UserRepository(scope_.db()).is_username_taken(username, except_id);
  if (!taken) return std::unexpected(taken.error());
  if (*taken) {
    return fail(
        TMESH_E_STATE,
        "the user name is taken (upper and lower case are the same; names of deleted users stay taken)");
  }
  return {};
}

Result<void> UserService::keep_an_admin(const storage::UserRecord& user) const {
  if (user.role != "admin" || user.is_disabled || !user.deleted_at.empty()) return {};
  const Result<int64_t> admins = UserRepository(scope_.tx()).count_active_admins();
  if (!admins) return std::unexpected(admins.error());
  if (*admins <= 1) return fail(TMESH_E_STATE, "this is the last administrator");
  return {};
}

Result<void> UserService::end_sessions(const storage::UserRecord& user) const {
  const Result<uint64_t> ended =
      storage::SessionRepository::revoke_all_of_user(scope_.tx(), user.id, scope_.now());
  if (!ended) return std::unexpected(ended.error());
  return {};
}

Result<storage::UserRecord> UserService::create(std::string_view username, std::string_view role,
                                                std::string_view password_hash) {
  if (Result<void> good = check_username(username); !good) return std::unexpected(good.error());
  if (Result<void> good = check_role(role); !good) return std::unexpected(good.error());
  if (Result<void> good = check_free(username, ""); !good) return std::unexpected(good.error());
  storage::UserRecord user;
  user.id = new_id("user");
  user.username = username;
  user.role = role;
  user.password_hash = password_hash;
  user.created_at = scope_.now();
  user.updated_at = scope_.now();
  if (Result<void> done = UserRepository::create(scope_.tx(), user); !done)
    return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("user.create", "user", user.id); !done)
    return std::unexpected(done.error());
  return user;
}

Result<storage::UserRecord> UserService::create_first_admin(std::string_view username,
                                                            std::string_view password_hash) {
  const Result<int64_t> admins = UserRepository(scope_.tx()).count_admins();
  if (!admins) return std::unexpected(admins.error());
  if (*admins > 0) return fail(TMESH_E_STATE, "there is an administrator already");
  return create(username, "admin", password_hash);
}

Result<void> UserService::set_disabled(storage::UserRecord& user, bool is_disabled) {
  if (Result<void> good = check_not_deleted(user); !good) return good;
  if (user.is_disabled == is_disabled) return {};
  if (is_disabled) {
    if (Result<void> good = keep_an_admin(user); !good) return good;
    if (Result<void> done = end_sessions(user); !done) return done;
  }
  if (Result<void> done = UserRepository::set_disabled(scope_.tx(), user.id, is_disabled, scope_.now());
      !done)
    return done;
  user.is_disabled = is_disabled;
  user.updated_at = scope_.now();
  return scope_.audit(is_disabled ? "user.disable" : "user.enable", "user", user.id);
}

Result<void> UserService::remove(storage::UserRecord& user) {
  if (!user.deleted_at.empty()) return fail(TMESH_E_STATE, "the user is deleted already");
  if (Result<void> good = keep_an_admin(user); !good) return good;
  if (Result<void> done = end_sessions(user); !done) return done;
  if (Result<void> done = UserRepository::mark_deleted(scope_.tx(), user.id, scope_.now()); !done)
    return done;
  user.deleted_at = scope_.now();
  user.updated_at = scope_.now();
  return scope_.audit("user.delete", "user", user.id);
}

Result<void> UserService::restore(storage::UserRecord& user) {
  if (user.deleted_at.empty()) return fail(TMESH_E_STATE, "the user is not deleted");
  if (Result<void> done = UserRepository::restore(scope_.tx(), user.id, scope_.now()); !done) return done;
  user.deleted_at.clear();
  user.updated_at = scope_.now();
  return scope_.audit("user.restore", "user", user.id);
}

Result<void> UserService::set_role(storage::UserRecord& user, std::string_view role) {
  if (Result<void> good = check_role(role); !good) return good;
  if (Result<void> good = check_not_deleted(user); !good) return good;
  if (user.role == role) return {};
  if (Result<void> good = keep_an_admin(user); !good) return good;
  if (Result<void> done = UserRepository::set_role(scope_.tx(), user.id, role, scope_.now()); !done)
    return done;
  user.role = role;
  user.updated_at = scope_.now();
  return scope_.audit("user.update", "user", user.id,
                      role == "admin" ? R"({"role":"admin"})" : R"({"role":"user"})");
}

Result<void> UserService::rename(storage::UserRecord& user, std::string_view username) {
  if (Result<void> good = check_username(username); !good) return good;
  if (Result<void> good = check_not_deleted(user); !good) return good;
  if (user.username == username) return {};
  if (Result<void> good = check_free(username, user.id); !good) return good;
  if (Result<void> done = UserRepository::set_username(scope_.tx(), user.id, username, scope_.now()); !done)
    return done;
  user.username = username;
  user.updated_at = scope_.now();
  // A checked name needs no escaping.
  return scope_.audit("user.update", "user", user.id, R"({"username":")" + user.username + "\"}");
}

Result<void> UserService::set_password_hash(storage::UserRecord& user, std::string_view hash,
                                            const char* action) {
  if (Result<void> done = UserRepository::set_password_hash(scope_.tx(), user.id, hash, scope_.now()); !done)
    return done;
  user.password_hash = hash;
  user.updated_at = scope_.now();
  return scope_.audit(action, "user", user.id);
}

Result<void> UserService::change_password(storage::UserRecord& user, std::string_view password_hash) {
  if (Result<void> good = check_not_deleted(user); !good) return good;
  return set_password_hash(user, password_hash, "user.change_password");
}

Result<void> UserService::reset_password(storage::UserRecord& user, std::string_view password_hash) {
  if (Result<void> good = check_not_deleted(user); !good) return good;
  if (Result<void> done = end_sessions(user); !done) return done;
  return set_password_hash(user, password_hash, "user.reset_password");
}

}  // namespace tmesh::server
