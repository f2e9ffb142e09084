// user and admin
#include "cpp/base/random.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/server/password.hpp"
#include "cpp/server/user_service.hpp"

namespace tmesh::server {
namespace {

AdminRow describe(const storage::UserRecord& user) {
  return {{"id", user.id},
          {"username", user.username},
          {"role", user.role},
          {"disabled", user.is_disabled},
          {"deletedAt", admin_text(user.deleted_at)},
          {"createdAt", admin_text(user.created_at)},
          {"updatedAt", admin_text(user.updated_at)}};
}

struct FreshPassword {
  Secret password;
  std::string hash;
};

// Made before the transaction: hashing takes a while.
AdminFound<FreshPassword> fresh_password() {
  FreshPassword fresh{new_password(), {}};
  Result<std::string> hash = hash_password(fresh.password.reveal());
  if (!hash) return admin_failure(hash.error());
  fresh.hash = std::move(*hash);
  return fresh;
}

void print_with_password(const AdminContext& context, const storage::UserRecord& user,
                         const FreshPassword& fresh) {
  AdminRow row = describe(user);
  row.push_back({"password", std::string(fresh.password.reveal())});
  context.print(row);
  context.note("note: the password is shown only this once");
}

// `work(UserService&, UserRecord&) -> Result<void>` on the row as it is inside the change;
// gives it as it is afterwards.
template <class Work>
AdminFound<storage::UserRecord> change_user(const AdminContext& context, std::string_view id, Work work) {
  return context.change([&](UserService users) -> Result<storage::UserRecord> {
    Result<std::optional<storage::UserRecord>> found = users.find(id);
    if (!found) return std::unexpected(found.error());
    if (!*found) return fail(TMESH_E_STATE, "there is no such user");
    storage::UserRecord user = std::move(**found);
    if (Result<void> done = work(users, user); !done) return std::unexpected(done.error());
    return user;
  });
}

AdminResult create_user(const AdminContext& context) {
  const std::string_view role = context.option("role").value_or("user");
  // Before the hash, so that a typing error is said at once.
  if (Result<void> good = check_username(context.argument()); !good) return admin_failure(good.error());
  AdminFound<FreshPassword> fresh = fresh_password();
  if (!fresh) return std::unexpected(fresh.error());
  AdminFound<storage::UserRecord> made =
      context.change([&](UserService users) { return users.create(context.argument(), role, fresh->hash); });
  if (!made) return std::unexpected(made.error());
  print_with_password(context, *made, *fresh);
  return {};
}

AdminResult list_users(const AdminContext& context) {
  const std::string_view status = context.option("status").value_or("all");
  storage::UserFilter filter = storage::UserFilter::all;
  if (status == "active") {
    filter = storage::UserFilter::active;
  } else if (status == "deleted") {
    filter = storage::UserFilter::deleted;
  } else if (status != "all") {
    return admin_usage("--status is active, deleted or all");
  }
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::UserRepository(context.db).list(page, filter);
  };
  AdminFound<std::vector<storage::UserRecord>> users = context.all<storage::UserRecord>(fetch);
  if (!users) return std::unexpected(users.error());
  std::vector<AdminRow> rows;
  rows.reserve(users->size());
  for (const storage::UserRecord& user : *users) rows.push_back(describe(user));
  context.print(rows);
  return {};
}

Result<void> run_change(const AdminContext& context, UserService& users, storage::UserRecord& user) {
  const std::string& verb = context.request.verb;
  if (verb == "disable" || verb == "enable") return users.set_disabled(user, verb == "disable");
  if (verb == "delete") return users.remove(user);
  if (verb == "restore") return users.restore(user);
  if (const std::optional<std::string_view> name = context.option("username")) {
    if (Result<void> done = users.rename(user, *name); !done) return done;
  }
  if (const std::optional<std::string_view> role = context.option("role")) {
    return users.set_role(user, *role);
  }
  return {};
}

AdminResult change_and_print(const AdminContext& context, const storage::UserRecord& user) {
  if (context.request.verb == "update" && !context.option("username") && !context.option("role")) {
    return admin_usage("nothing to change: give --username or --role");
  }
  AdminFound<storage::UserRecord> changed = change_user(
      context, user.id,
      [&](UserService& users, storage::UserRecord& row) { return run_change(context, users, row); });
  if (!changed) return std::unexpected(changed.error());
  context.print(describe(*changed));
  return {};
}

AdminResult reset_password(const AdminContext& context, const storage::UserRecord& user) {
  AdminFound<FreshPassword> fresh = fresh_password();
  if (!fresh) return std::unexpected(fresh.error());
  AdminFound<storage::UserRecord> changed = change_user(
      context, user.id,
      [&](UserService& users, storage::UserRecord& row) { return users.reset_password(row, fresh->hash); });
  if (!changed) return std::unexpected(changed.error());
  print_with_password(context, *changed, *fresh);
  return {};
}

AdminResult bootstrap(const AdminContext& context) {
  AdminFound<FreshPassword> fresh = fresh_password();
  if (!fresh) return std::unexpected(fresh.error());
  const std::string username = "admin-" + random_hex(4);
  AdminFound<storage::UserRecord> made =
      context.change([&](UserService users) { return users.create_first_admin(username, fresh->hash); });
  if (!made) return std::unexpected(made.error());
  print_with_password(context, *made, *fresh);
  return {};
}

AdminResult regenerate_credentials(const AdminContext& context) {
  const std::optional<std::string_view> named = context.option("user");
  AdminFound<storage::UserRecord> admin = named ? context.user(*named) : context.only_admin("--user");
  if (!admin) return std::unexpected(admin.error());
  if (admin->role != "admin") return admin_failure("the user is no administrator: use user reset-password");
  return reset_password(context, *admin);
}

}  // namespace

AdminResult run_user_command(const AdminContext& context) {
  const std::string& verb = context.request.verb;
  if (verb == "create") return create_user(context);
  if (verb == "list") return list_users(context);
  AdminFound<storage::UserRecord> user = context.user(context.argument());
  if (!user) return std::unexpected(user.error());
  if (verb == "reset-password") return reset_password(context, *user);
  if (verb != "show") return change_and_print(context, *user);
  context.print(describe(*user));
  return {};
}

AdminResult run_admin_command(const AdminContext& context) {
  if (context.request.verb == "bootstrap") return bootstrap(context);
  return regenerate_credentials(context);
}

}  // namespace tmesh::server
