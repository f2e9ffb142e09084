#include "cpp/storage/user_repository.hpp"

#include "cpp/storage/page.hpp"

namespace tmesh::storage {
namespace {

#define USER_COLUMNS "id, username, role, password_hash, disabled, deleted_at, created_at, updated_at"

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
  return query_one<UserRecord>(db_, "SELECT " USER_COLUMNS " FROM users WHERE id = ?", params, read);
}

Result<std::optional<UserRecord>> UserRepository::find_by_username(std::string_view username) {
  const Param params[] = {username};
  return query_one<UserRecord>(db_, "SELECT " USER_COLUMNS " FROM users WHERE username = ?", params, read);
}

Result<Page<UserRecord>> UserRepository::list(const PageRequest& request) {
  return query_page<UserRecord>(db_, "SELECT " USER_COLUMNS " FROM users WHERE id > ? ORDER BY id LIMIT ?",
                                {}, request, read);
}

Result<int64_t> UserRepository::count_active_admins() {
  const auto count = [](RowReader& row) { return row.integer(); };
  Result<std::optional<int64_t>> found =
      query_one<int64_t>(db_,
                         "SELECT COUNT(*) FROM users WHERE role = 'admin' AND disabled = 0 AND (deleted_at "
                         "IS NULL OR deleted_at = '')",
                         {}, count);
  if (!found) return std::unexpected(found.error());
  return found->value_or(0);
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

Result<void> UserRepository::set_disabled(Transaction& tx, std::string_view id, bool is_disabled,
                                          std::string_view now) {
  const Param params[] = {is_disabled, now, id};
  return change_rights(tx, "UPDATE users SET disabled = ?, updated_at = ? WHERE id = ?", params, now);
}

Result<void> UserRepository::mark_deleted(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, now, id};
  return change_rights(tx,
                       "UPDATE users SET deleted_at = ?, updated_at = ? WHERE id = ? AND (deleted_at IS NULL "
                       "OR deleted_at = '')",
                       params, now);
}

Result<void> UserRepository::restore(Transaction& tx, std::string_view id, std::string_view now) {
  const Param params[] = {now, id};
  return change_rights(tx,
                       "UPDATE users SET deleted_at = NULL, updated_at = ? WHERE id = ? AND deleted_at <> ''",
                       params, now);
}

}  // namespace tmesh::storage
