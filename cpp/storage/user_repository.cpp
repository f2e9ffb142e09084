#include "cpp/storage/user_repository.hpp"

#include <string>
#include <utility>
#include <vector>

#include "cpp/base/parse.hpp"
#include "cpp/storage/page.hpp"

namespace tmesh::storage {
namespace {

#define USER_COLUMNS "id, username, role, password_hash, disabled, deleted_at, created_at, updated_at"
#define NOT_DELETED "(deleted_at IS NULL OR deleted_at = '')"

UserRecord read(RowReader& row) {
  UserRecord user;
  user.id = row.text();
  user.username = row.text();
  user.role = row.text();
  user.password_hash = row.text();
  user.is_disabled = row.boolean();
  user.deleted_at = row.optional_text();
  user.created_at = row.text();
  user.updated_at = row.text();
  return user;
}

Result<void> change_rights(Transaction& tx, std::string_view sql, Params params, std::string_view now) {
  if (Result<void> done = change_one(tx.db(), sql, params); !done) return done;
  return bump_revision(tx, now);
}

}  // namespace

Result<std::optional<UserRecord>> UserRepository::find(std::string_view id) {
  const Param params[] = {id};
  return query_one<UserRecord>(db_, "SELECT " USER_COLUMNS " FROM users WHERE id = ?" + std::string(lock_),
                               params, read);
}

Result<std::optional<UserRecord>> UserRepository::find_by_username(std::string_view username) {
  const Param params[] = {username};
  Result<std::vector<UserRecord>> found = query_all<UserRecord>(
      db_, "SELECT " USER_COLUMNS " FROM users WHERE username = ?" + std::string(lock_), params, read);
  if (!found) return std::unexpected(found.error());
  for (UserRecord& user : *found) {
    if (user.username == username) return std::move(user);
  }
  return std::nullopt;
}

Result<bool> UserRepository::is_username_taken(std::string_view username, std::string_view except_id) {
  const std::string lower = ascii_lower(username);
  const Param params[] = {lower, except_id};
  Result<std::vector<std::string>> found =
      query_all<std::string>(db_, "SELECT id FROM users WHERE LOWER(username) = ? AND id <> ? LIMIT 1",
                             params, [](RowReader& row) { return row.text(); });
  if (!found) return std::unexpected(found.error());
  return !found->empty();
}

Result<Page<UserRecord>> UserRepository::list(const PageRequest& request, UserFilter filter) {
  std::string sql = "SELECT " USER_COLUMNS " FROM users WHERE ";
  if (filter == UserFilter::active) sql += NOT_DELETED " AND ";
  if (filter == UserFilter::deleted) sql += "deleted_at <> '' AND ";
  sql += "id > ? ORDER BY id LIMIT ?";
  return query_page<UserRecord>(db_, sql, {}, request, read);
}

Result<int64_t> UserRepository::count(std::string_view condition) {
  std::string sql = "SELECT COUNT(*) FROM users WHERE role = 'admin' AND ";
  sql += condition;
  sql += lock_;
  Result<std::optional<int64_t>> found =
      query_one<int64_t>(db_, sql, {}, [](RowReader& row) { return row.integer(); });
  if (!found) return std::unexpected(found.error());
  return found->value_or(0);
}

Result<int64_t> UserRepository::count_active_admins() {
  return count("disabled = 0 AND " NOT_DELETED);
}
Result<int64_t> UserRepository::count_admins() {
  return count(NOT_DELETED);
}

Result<void> UserRepository::create(Transaction& tx, const UserRecord& user) {
  const Param params[] = {user.id,          user.username,
                          user.role,        user.password_hash,
                          user.is_disabled, Param::nullable(user.deleted_at),
                          user.created_at,  user.updated_at};
  return change_one(tx.db(), "INSERT INTO users (" USER_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)", params);
}

Result<void> UserRepository::set_password_hash(Transaction& tx, std::string_view id, std::string_view hash,
                                               std::string_view now) {
  const Param params[] = {hash, now, id};
  return change_one(tx.db(), "UPDATE users SET password_hash = ?, updated_at = ? WHERE id = ?", params);
}

Result<void> UserRepository::set_username(Transaction& tx, std::string_view id, std::string_view username,
                                          std::string_view now) {
  const Param params[] = {username, now, id};
  return change_one(tx.db(), "UPDATE users SET username = ?, updated_at = ? WHERE id = ?", params);
}

Result<void> UserRepository::set_role(Transaction& tx, std::string_view id, std::string_view role,
                                      std::string_view now) {
  const Param params[] = {role, now, id};
  return change_one(tx.db(), "UPDATE users SET role = ?, updated_at = ? WHERE id = ?", params);
}

Result<void> UserRepository::set_disabled(Transaction& tx, std::string_view id, bool is_disabled,
                                          std::string_view now) {
  const Param params[] = {is_disabled, now, id};
  return change_rights(tx, "UPDATE users SET disabled = ?, updated_at = ? WHERE id = ?", params, now);
}

Result<void> UserRepository::mark_deleted(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, now, id};
  return change_rights(tx, "UPDATE users SET deleted_at = ?, updated_at = ? WHERE id = ? AND " NOT_DELETED,
                       params, now);
}

Result<void> UserRepository::restore(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, id};
  return change_rights(tx,
                       "UPDATE users SET deleted_at = NULL, updated_at = ? WHERE id = ? AND deleted_at <> ''",
                       params, now);
}

}  // namespace tmesh::storage
