// An ApiHandler over a table whose endpoints do one thing each.
#pragma once

#include <array>
#include <atomic>
#include <string>

#include "cpp/storage/user_repository.hpp"
#include "tests/cpp/server/admin_api/api_fixture.hpp"

namespace tmesh::server::handler_routes {

inline constexpr std::array kMembers = {"name", "wait"};
inline constexpr std::array kFilters = {"status"};
inline std::atomic<int> g_runs = 0;
inline std::atomic<int> g_locks_to_lose = 0;

inline ApiResult who(ApiCall& call) {
  std::string data;
  json::Writer out(data);
  out.begin_object().member("user", call.caller.username).member("session", call.session_id);
  out.member("path", call.path.empty() ? "" : call.path.front());
  out.member("status", call.query_value("status").value_or("-"));
  out.member("links", call.live.size()).member("node", call.node_id).end_object();
  return ApiReply{.data = data};
}
// Disables bob: a change of rights.
inline ApiResult disable(ApiCall& call) {
  ++g_runs;
  const auto user = storage::UserRepository(call.db).find_by_username("bob");
  if (!user || !*user) return api_error(404, "no bob");
  if (auto done =
          storage::UserRepository::set_disabled(call.change->tx(), (*user)->id, true, call.change->now());
      !done) {
    return api_error(done.error());
  }
  if (g_locks_to_lose > 0) {
    --g_locks_to_lose;
    return api_error(Error{TMESH_E_TIMEOUT, TMESH_SCOPE_STREAM, "lost"});
  }
  return ApiReply{
      .status = 201, .data = R"({"secret":"s3cret"})", .replay = R"({"id":"1"})", .has_secret = true};
}
inline ApiResult fails_late(ApiCall& call) {
  (void)disable(call);
  return api_error(409, "after the fact");
}
inline ApiResult nothing(ApiCall&) {
  ++g_runs;
  return ApiReply{};
}
inline ApiResult leaks(ApiCall&) {
  return ApiReply{.data = R"({"secret":"s3cret"})", .has_secret = true};
}
inline ApiResult breaks(ApiCall&) {
  return api_error(Error{TMESH_E_IO, TMESH_SCOPE_STREAM, "disk 7 is on fire"});
}
inline ApiResult makes(ApiCall& call) {
  std::string data;
  json::Writer(data)
      .begin_object()
      .member("password", call.password->password.reveal())
      .member("hash", call.password->hash)
      .end_object();
  return ApiReply{.data = data, .replay = "{}", .has_secret = true};
}
inline ApiResult changes(ApiCall& call) {
  if (call.password->verified_hash != call.caller.password_hash) return api_error(409, "changed meanwhile");
  if (auto done = storage::UserRepository::set_password_hash(call.change->tx(), call.caller.id,
                                                             call.password->hash, call.change->now());
      !done) {
    return api_error(done.error());
  }
  return ApiReply{};
}
inline void closes(ApiLive& live, const ApiCall& call, ApiResult& result) {
  (void)live.close_agent_link(call.path[0], call.path[1], 1);
  result->data = R"({"closed":true})";
}

inline constexpr std::array kPasswords = {"currentPassword", "newPassword"};
inline constexpr ApiRoute kTable[] = {
    {.method = http::Method::get,
     .path = "/who",
     .who = ApiWho::user,
     .run = who,
     .query_names = kFilters,
     .is_list = true},
    {.method = http::Method::get, .path = "/who/{id}", .who = ApiWho::user, .run = who, .needs_live = true},
    {.method = http::Method::get, .path = "/admin", .run = who},
    {.method = http::Method::get, .path = "/open", .who = ApiWho::anyone, .run = who},
    {.method = http::Method::post, .path = "/disable", .run = disable, .body_members = kMembers},
    {.method = http::Method::post, .path = "/late", .run = fails_late},
    {.method = http::Method::post,
     .path = "/nothing",
     .who = ApiWho::user,
     .run = nothing,
     .body_members = kMembers},
    {.method = http::Method::post, .path = "/leaks", .run = leaks},
    {.method = http::Method::post, .path = "/breaks", .run = breaks},
    {.method = http::Method::post, .path = "/makes", .run = makes, .makes_password = true},
    {.method = http::Method::put,
     .path = "/auth/password",
     .who = ApiWho::user,
     .run = changes,
     .body_members = kPasswords,
     .changes_password = true},
    {.method = http::Method::del, .path = "/agents/{id}/connections/{cid}", .run = nothing, .after = closes},
};

}  // namespace tmesh::server::handler_routes

namespace tmesh::test {

struct HandlerFixture : ApiFixture {
  HandlerFixture() {
    server::handler_routes::g_runs = 0;
    server::handler_routes::g_locks_to_lose = 0;
  }
  void start() {
    serve({server::handler_routes::kTable});
    admin = log_in(rows.alice);
    user = log_in(rows.bob);
  }
  std::string scalar(const char* sql) { return tmesh::test::scalar(*rows.db, sql); }
  std::string bob_is_disabled() { return scalar("SELECT disabled FROM users WHERE username = 'bob'"); }
  bool wait_until_asked(std::size_t count) {
    return run_until([&] { return lane->asked >= count; });
  }
  std::string admin, user;
};

}  // namespace tmesh::test
