// /auth/me and /auth/password: every user about themselves. (/auth/login is ApiHandler's.)
#include <array>
#include <utility>

#include "cpp/server/admin_api/api.hpp"
#include "cpp/server/user_service.hpp"

namespace tmesh::server {
namespace {

ApiResult me(ApiCall& call) {
  std::string text;
  json::Writer(text)
      .begin_object()
      .member("id", call.caller.id)
      .member("username", call.caller.username)
      .member("role", call.caller.role)
      .end_object();
  return ApiReply{200, std::move(text)};
}

ApiResult change_password(ApiCall& call) {
  UserService users(*call.change);
  auto user = users.find(call.caller.id);
  if (!user) return api_database_error(user.error());
  if (!*user || !equal_constant_time((*user)->password_hash, call.password->verified_hash)) {
    return api_error(409, "the password was changed in the meantime");
  }
  const Result<void> done = users.change_password(**user, call.password->hash);
  if (!done) return api_error(done.error());
  return ApiReply{};
}

constexpr std::array kPasswords = {"currentPassword", "newPassword"};
constexpr ApiRoute kRoutes[] = {
    {.method = http::Method::get, .path = "/auth/me", .who = ApiWho::user, .run = me},
    {.method = http::Method::put,
     .path = "/auth/password",
     .who = ApiWho::user,
     .run = change_password,
     .body_members = kPasswords,
     .changes_password = true},
};

}  // namespace

std::span<const ApiRoute> auth_routes() {
  return kRoutes;
}

}  // namespace tmesh::server
