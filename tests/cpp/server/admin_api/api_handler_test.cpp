#include "cpp/server/admin_api/api_handler.hpp"

#include <array>
#include <atomic>

#include "cpp/server/housekeeping.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/cpp/server/admin_api/api_fixture.hpp"

namespace tmesh::server {
namespace {

constexpr std::array kMembers = {"name", "wait"};
constexpr std::array kFilters = {"status"};
std::atomic<int> g_runs = 0;
std::atomic<int> g_locks_to_lose = 0;

ApiResult who(ApiCall& call) {
  std::string data;
  json::Writer out(data);
  out.begin_object().member("user", call.caller.username).member("session", call.session_id);
  out.member("path", call.path.empty() ? "" : call.path.front());
  out.member("status", call.query_value("status").value_or("-"));
  out.member("links", call.live.size()).member("node", call.node_id).end_object();
  return ApiReply{.data = data};
}
// Disables bob: a change of rights.
ApiResult disable(ApiCall& call) {
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
ApiResult fails_late(ApiCall& call) {
  (void)disable(call);
  return api_error(409, "after the fact");
}
ApiResult nothing(ApiCall&) {
  ++g_runs;
  return ApiReply{};
}
ApiResult leaks(ApiCall&) {
  return ApiReply{.data = R"({"secret":"s3cret"})", .has_secret = true};
}
ApiResult breaks(ApiCall&) {
  return api_error(Error{TMESH_E_IO, TMESH_SCOPE_STREAM, "disk 7 is on fire"});
}
ApiResult makes(ApiCall& call) {
  std::string data;
  json::Writer(data)
      .begin_object()
      .member("password", call.password->password.reveal())
      .member("hash", call.password->hash)
      .end_object();
  return ApiReply{.data = data, .replay = "{}", .has_secret = true};
}
ApiResult changes(ApiCall& call) {
  if (call.password->verified_hash != call.caller.password_hash) return api_error(409, "changed meanwhile");
  if (auto done = storage::UserRepository::set_password_hash(call.change->tx(), call.caller.id,
                                                             call.password->hash, call.change->now());
      !done) {
    return api_error(done.error());
  }
  return ApiReply{};
}
void closes(ApiLive& live, const ApiCall& call, ApiResult& result) {
  (void)live.close_agent_link(call.path[0], call.path[1], 1);
  result->data = R"({"closed":true})";
}

constexpr std::array kPasswords = {"currentPassword", "newPassword"};
constexpr ApiRoute kTable[] = {
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

struct HandlerTest : test::ApiFixture {
  HandlerTest() {
    g_runs = 0;
    g_locks_to_lose = 0;
  }
  void start() {
    serve({kTable});
    admin = log_in(rows.alice);
    user = log_in(rows.bob);
  }
  std::string scalar(const char* sql) { return test::scalar(*rows.db, sql); }
  std::string bob_is_disabled() { return scalar("SELECT disabled FROM users WHERE username = 'bob'"); }
  bool wait_until_asked(std::size_t count) {
    return run_until([&] { return lane->asked >= count; });
  }
  std::string admin, user;
};

TEST_F(HandlerTest, AnswersAreEnvelopes) {
  start();
  const test::Answer answer = ask("GET", "/api/v1/who?status=all", admin);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with(R"({"code":200,"msg":"OK","data":{)"));
  EXPECT_EQ(answer.data("user"), "alice");
  EXPECT_EQ(answer.data("status"), "all");
  EXPECT_TRUE(answer.has("Content-Type: application/json\r\n"));
  EXPECT_TRUE(answer.has("Cache-Control: no-store\r\n"));
  const test::Answer refused = ask("GET", "/api/v1/nowhere", admin);
  EXPECT_EQ(refused.body, R"({"code":404,"msg":"Not Found","data":{"error":"no such path"}})");
}

TEST_F(HandlerTest, WithoutALiveSessionNothingIsDone) {
  start();
  for (const std::string& token :
       {std::string(), std::string("x"), std::string(rows.client.secret.reveal())}) {
    const test::Answer answer = ask("POST", "/api/v1/nothing", token, "{}");
    EXPECT_EQ(answer.status, 401);
    EXPECT_TRUE(answer.has("WWW-Authenticate: Bearer realm=\"tunnelmesh\"\r\n"));
  }
  rows.set("users", rows.bob.id, "disabled", 1);
  EXPECT_EQ(ask("GET", "/api/v1/who", user).status, 401);
  EXPECT_EQ(g_runs, 0);
}

TEST_F(HandlerTest, RolesAreChecked) {
  start();
  EXPECT_EQ(ask("GET", "/api/v1/who", user).status, 200);
  EXPECT_EQ(ask("GET", "/api/v1/admin", admin).status, 200);
  const test::Answer answer = ask("GET", "/api/v1/admin", user);
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.error(), "only administrators may do this");
  EXPECT_EQ(ask("POST", "/api/v1/disable", user, "{}").status, 403);
  EXPECT_EQ(bob_is_disabled(), "0");
}

TEST_F(HandlerTest, ARouteForAnyoneNeedsNoToken) {
  start();
  EXPECT_EQ(ask("GET", "/api/v1/open", "").data("user"), "");
}

TEST_F(HandlerTest, OtherMethodsAreRefusedWithTheRightOnes) {
  start();
  const test::Answer answer = ask("POST", "/api/v1/who", admin, "{}");
  EXPECT_EQ(answer.status, 405);
  EXPECT_TRUE(answer.has("Allow: GET, HEAD, OPTIONS\r\n"));
  EXPECT_EQ(ask("GET", "/api/v1/auth/login", "").status, 405);
}

TEST_F(HandlerTest, OptionsAreToldAndHeadHasNoBody) {
  start();
  const test::Answer options = ask("OPTIONS", "/api/v1/who", "");
  EXPECT_EQ(options.status, 204);
  EXPECT_TRUE(options.has("Allow: GET, HEAD, OPTIONS\r\n"));
  EXPECT_FALSE(options.has("Access-Control"));
  net::RawClient& client = send(text_of("HEAD", "/api/v1/who", admin));
  ASSERT_TRUE(run_until([&] { return client.pump().received.find("\r\n\r\n") != std::string::npos; }));
  EXPECT_EQ(client.received.substr(9, 3), "200");
  EXPECT_TRUE(client.received.ends_with("\r\n\r\n"));
  EXPECT_EQ(ask("OPTIONS", "/api/v1/nowhere", "").status, 404);
}

TEST_F(HandlerTest, QueriesAndBodiesAreChecked) {
  start();
  EXPECT_EQ(ask("GET", "/api/v1/who?limits=1", admin).error(),
            "the query parameter \"limits\" is not known; did you mean \"limit\"?");
  EXPECT_EQ(ask("GET", "/api/v1/who?a=%zz", admin).status, 400);
  EXPECT_EQ(ask("GET", "/api/v1/who/%ff", admin).status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", "Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{\"name\":}").status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, R"({"nam":1})").error(),
            "the member \"nam\" is not known; did you mean \"name\"?");
  EXPECT_EQ(ask("GET", "/api/v1/who", admin, "{}").status, 400);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", "Idempotency-Key: \t\r\n").status, 400);
  EXPECT_EQ(g_runs, 0);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, R"({"name":"x"})").status, 200);
}

TEST_F(HandlerTest, OnlyTheAllowedHostsAreServed) {
  settings.allowed_hosts = {"mesh.example"};
  start();
  EXPECT_EQ(ask("GET", "/api/v1/who", admin).status, 421);
  net::RawClient& client =
      send("GET /api/v1/who HTTP/1.1\r\nHost: Mesh.Example\r\nAuthorization: Bearer " + admin + "\r\n\r\n");
  EXPECT_EQ(answer_of(client).status, 200);
}

TEST_F(HandlerTest, AChangeOfRightsIsToldBeforeItsAnswer) {
  start();
  net::RawClient& client = send(text_of("POST", "/api/v1/disable", admin, "{}"));
  ASSERT_TRUE(run_until([&] { return events.rights_changed == 1; }));
  EXPECT_EQ(answer_of(client).status, 201);
  EXPECT_EQ(bob_is_disabled(), "1");
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}").status, 200);
  EXPECT_EQ(events.rights_changed, 1) << "a change of no rights empties no cache";
}

TEST_F(HandlerTest, AFailedEndpointLeavesNothing) {
  start();
  const std::string revision = scalar("SELECT revision FROM authorization_revision");
  const test::Answer answer = ask("POST", "/api/v1/late", admin, "", "Idempotency-Key: k\r\n");
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.error(), "after the fact");
  EXPECT_EQ(bob_is_disabled(), "0");
  EXPECT_EQ(scalar("SELECT revision FROM authorization_revision"), revision);
  EXPECT_EQ(scalar("SELECT COUNT(*) FROM idempotency_keys"), "0");
  EXPECT_EQ(events.rights_changed, 0);
}

TEST_F(HandlerTest, LostLocksAreTriedAgainAndThenGivenUp) {
  start();
  g_locks_to_lose = 2;
  EXPECT_EQ(ask("POST", "/api/v1/disable", admin, "{}").status, 201);
  EXPECT_EQ(g_runs, 3);
  rows.set("users", rows.bob.id, "disabled", 0);
  g_locks_to_lose = 100;
  const test::Answer answer = ask("POST", "/api/v1/disable", admin, "{}");
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.has("Retry-After: 1\r\n"));
  EXPECT_EQ(g_runs, 6);
  EXPECT_EQ(bob_is_disabled(), "0");
}

TEST_F(HandlerTest, WhatTheSystemSaysStaysHere) {
  start();
  const test::Answer answer = ask("POST", "/api/v1/breaks", admin);
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.error(), "the server could not do this; its log says why");
}

TEST_F(HandlerTest, ASessionThatEndsBeforeTheTransactionChangesNothing) {
  start();
  lane->before_run = nullptr;
  lane->hold(true);
  net::RawClient& client = send(text_of("POST", "/api/v1/nothing", user, "{}"));
  ASSERT_TRUE(wait_until_asked(1));
  rows.set("users", rows.bob.id, "deleted_at", "2027-01-01T00:00:00Z");
  lane->hold(false);
  EXPECT_EQ(answer_of(client).status, 401);
  EXPECT_EQ(g_runs, 0);
}

TEST_F(HandlerTest, LiveLinksAreGivenAndClosedAfterTheCommit) {
  settings.node_id = "node-1";
  start();
  live.links.resize(2);
  const test::Answer seen = ask("GET", "/api/v1/who/agent%2D1", admin);
  EXPECT_EQ(live.asked_for, "agent-1");
  EXPECT_EQ(seen.data("links"), "2");
  EXPECT_EQ(seen.data("path"), "agent-1");
  EXPECT_EQ(seen.data("node"), "node-1");
  EXPECT_EQ(ask("DELETE", "/api/v1/agents/a/connections/c1", admin).data("closed"), "true");
  EXPECT_EQ(live.closed, std::vector<std::string>{"c1"});
}

TEST_F(HandlerTest, RequestsOfOneConnectionAreAnsweredInOrder) {
  start();
  const std::string one = text_of("GET", "/api/v1/who", admin);
  net::RawClient& client = send(one + one + text_of("GET", "/api/v1/nowhere", admin));
  ASSERT_TRUE(run_until([&] { return client.pump().received.find("404 Not Found") != std::string::npos; }));
  EXPECT_EQ(handler->requests_count(), 0u);
}

// ---- passwords ----

TEST_F(HandlerTest, ANewPasswordIsMadeOutsideOfTheTransaction) {
  start();
  const test::Answer answer = ask("POST", "/api/v1/makes", admin);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.data("password").size(), 32u);
  EXPECT_TRUE(verify_password(answer.data("hash"), answer.data("password")));
  EXPECT_EQ(lane->asked, 2u);
  // Who may not do it costs no hash.
  EXPECT_EQ(ask("POST", "/api/v1/makes", user).status, 403);
  EXPECT_EQ(ask("POST", "/api/v1/makes", "x").status, 401);
  EXPECT_EQ(handler->passwords().asked_count(), 1u);
}

TEST_F(HandlerTest, ASessionThatEndsWhileAPasswordIsHashedChangesNothing) {
  start();
  static int runs;
  runs = 0;
  lane->before_run = [](storage::Db& db) {
    if (++runs == 2) test::run_sql(db, "UPDATE api_tokens SET revoked_at = '2020-01-01T00:00:00Z'");
  };
  EXPECT_EQ(ask("POST", "/api/v1/makes", admin).status, 401);
  EXPECT_EQ(runs, 2);
}

TEST_F(HandlerTest, APasswordIsChangedWithTheCurrentOne) {
  set_password(rows.bob, kPassword);
  start();
  const auto body = [](std::string_view current, std::string_view wanted) {
    return R"({"currentPassword":")" + std::string(current) + R"(","newPassword":")" + std::string(wanted) +
           "\"}";
  };
  const auto change = [&](std::string_view current, std::string_view wanted) {
    return ask("PUT", "/api/v1/auth/password", user, body(current, wanted));
  };
  EXPECT_EQ(change("another one", "a new password").error(), "currentPassword: is wrong");
  EXPECT_EQ(change(kPassword, "short").status, 400);
  EXPECT_EQ(ask("PUT", "/api/v1/auth/password", user, R"({"newPassword":"a new password"})").error(),
            "currentPassword: a text is required");
  EXPECT_EQ(change(kPassword, "a new password").status, 200);
  EXPECT_TRUE(
      verify_password(scalar("SELECT password_hash FROM users WHERE username = 'bob'"), "a new password"));
}

TEST_F(HandlerTest, AStolenTokenDoesNotFindThePasswordOut) {
  set_password(rows.bob, kPassword);
  settings.login_throttle.failures_max = 2;
  start();
  const std::string wrong = R"({"currentPassword":"not this one","newPassword":"a new password"})";
  for (int i = 0; i < 2; ++i) EXPECT_EQ(ask("PUT", "/api/v1/auth/password", user, wrong).status, 403);
  const test::Answer answer = ask("PUT", "/api/v1/auth/password", user, wrong);
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("Retry-After: 600\r\n"));
}

TEST_F(HandlerTest, ABodyWithPasswordsLeavesNoDigest) {
  set_password(rows.bob, kPassword);
  start();
  const std::string body =
      R"({"currentPassword":")" + std::string(kPassword) + R"(","newPassword":"a new password"})";
  EXPECT_EQ(ask("PUT", "/api/v1/auth/password", user, body, "Idempotency-Key: k\r\n").status, 200);
  EXPECT_EQ(scalar("SELECT COUNT(*) FROM idempotency_keys"), "0");
}

// ---- Idempotency-Key ----

TEST_F(HandlerTest, TheSameRequestUnderAKeyIsDoneOnce) {
  start();
  const char* key = "Idempotency-Key: abc\r\n";
  const test::Answer first = ask("POST", "/api/v1/disable", admin, "{}", key);
  EXPECT_EQ(first.status, 201);
  EXPECT_EQ(first.data("secret"), "s3cret");
  EXPECT_EQ(first.data("replayed"), "(none)");
  const test::Answer again = ask("POST", "/api/v1/disable", admin, "{}", key);
  EXPECT_EQ(again.status, 201);
  EXPECT_EQ(again.data("id"), "1");
  EXPECT_EQ(again.data("replayed"), "true");
  EXPECT_TRUE(again.has("Idempotency-Replayed: true\r\n"));
  EXPECT_EQ(again.body.find("s3cret"), std::string::npos);
  EXPECT_EQ(g_runs, 1);
  EXPECT_EQ(events.rights_changed, 1);
}

TEST_F(HandlerTest, AKeyForAnotherRequestIsAConflict) {
  start();
  const char* key = "Idempotency-Key: abc\r\n";
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", key).status, 200);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{ }", key).status, 409);
  EXPECT_EQ(ask("POST", "/api/v1/disable", admin, "{}", key).status, 409);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, R"({"name":"x"})", key).error(),
            "the Idempotency-Key was used for another request");
  EXPECT_EQ(g_runs, 1);
  EXPECT_EQ(bob_is_disabled(), "0");
}

TEST_F(HandlerTest, AKeyIsItsUsersOwn) {
  start();
  const char* key = "Idempotency-Key: abc\r\n";
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", key).status, 200);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", user, R"({"name":"x"})", key).status, 200);
  EXPECT_EQ(g_runs, 2);
}

TEST_F(HandlerTest, AKeyThatFailedMayBeUsedAgain) {
  start();
  const char* key = "Idempotency-Key: abc\r\n";
  EXPECT_EQ(ask("POST", "/api/v1/late", admin, "", key).status, 409);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", key).status, 200);
}

TEST_F(HandlerTest, AKeyIsForgottenAfterADay) {
  start();
  const char* key = "Idempotency-Key: abc\r\n";
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", key).status, 200);
  timers.set_wall(rows.time.now_us + kIdempotencyKept_us - 1);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", key).data("replayed"), "(none)");  // data is null
  EXPECT_EQ(g_runs, 1);
  timers.set_wall(rows.time.now_us + kIdempotencyKept_us);
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, R"({"name":"other"})", key).status, 200);
  EXPECT_EQ(g_runs, 2);
}

TEST_F(HandlerTest, ExpiredKeysArePurgedInBatches) {
  start();
  for (int i = 0; i < housekeeping_rows_max + 5; ++i) {
    const std::string id = "api-" + std::to_string(i);
    const storage::Param params[] = {id};
    test::run_sql(*rows.db,
                  "INSERT INTO idempotency_keys VALUES (?, 'u', '{}', 200, '2020-01-01T00:00:00Z', "
                  "'2020-01-02T00:00:00Z')",
                  params);
  }
  test::run_sql(*rows.db,
                "INSERT INTO idempotency_keys VALUES ('old', 'u', '{}', 200, '2020-01-01T00:00:00Z', NULL)");
  EXPECT_EQ(ask("POST", "/api/v1/nothing", admin, "{}", "Idempotency-Key: new\r\n").status, 200);
  timers.advance(ApiHandler::kHousekeepingInterval_us);
  ASSERT_TRUE(run_until([&] { return scalar("SELECT COUNT(*) FROM idempotency_keys") == "7"; }));
  ASSERT_TRUE(run_until([&] { return timers.count() == 1; }));
  timers.advance(ApiHandler::kNextBatch_us);
  ASSERT_TRUE(run_until([&] { return scalar("SELECT COUNT(*) FROM idempotency_keys") == "2"; }));
}

TEST_F(HandlerTest, AReplyWithASecretAndNoReplayIsKeptEmpty) {
  start();
  EXPECT_EQ(ask("POST", "/api/v1/leaks", admin, "", "Idempotency-Key: k\r\n").data("secret"), "s3cret");
  EXPECT_EQ(scalar("SELECT COUNT(*) FROM idempotency_keys WHERE response LIKE '%s3cret%'"), "0");
  const test::Answer again = ask("POST", "/api/v1/leaks", admin, "", "Idempotency-Key: k\r\n");
  EXPECT_EQ(again.data("replayed"), "true");
  EXPECT_EQ(again.data("secret"), "(none)");
}

// ---- budgets and clients that go ----

TEST_F(HandlerTest, ACommitIsToldAlsoWhenNobodyWaitsForTheAnswer) {
  start();
  lane->hold(true);
  net::RawClient& client = send(text_of("POST", "/api/v1/disable", admin, "{}"));
  ASSERT_TRUE(wait_until_asked(1));
  client.reset();
  ASSERT_TRUE(run_until([&] { return http_server->connection_count() == 0; }));
  lane->hold(false);
  ASSERT_TRUE(run_until([&] { return events.rights_changed == 1; }));
  EXPECT_EQ(bob_is_disabled(), "1");
  EXPECT_TRUE(run_until([&] { return handler->requests_count() == 0; }));
}

TEST_F(HandlerTest, AWaitingRequestGoesWithItsClient) {
  start();
  lane->hold(true);
  net::RawClient& first = send(text_of("GET", "/api/v1/who", admin));
  ASSERT_TRUE(wait_until_asked(1));
  net::RawClient& second = send(text_of("POST", "/api/v1/disable", admin, "{}"));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 2; }));
  second.reset();
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 1; }));
  lane->hold(false);
  EXPECT_EQ(answer_of(first).status, 200);
  EXPECT_EQ(bob_is_disabled(), "0");
}

TEST_F(HandlerTest, BeyondTheBudgetRequestsAreTurnedAway) {
  settings.requests = {.running_max = 1, .waiting_max = 2, .per_address_max = 100};
  start();
  lane->hold(true);
  std::vector<net::RawClient*> admitted;
  for (int i = 0; i < 3; ++i) admitted.push_back(&send(text_of("GET", "/api/v1/who", admin)));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 3; }));
  const test::Answer answer = ask("GET", "/api/v1/who", admin);
  EXPECT_EQ(answer.status, 503);
  EXPECT_TRUE(answer.has("Retry-After: 1\r\n"));
  EXPECT_EQ(lane->asked, 1u) << "only running_max may hold the lane";
  lane->hold(false);
  for (net::RawClient* client : admitted) EXPECT_EQ(answer_of(*client).status, 200);
}

TEST_F(HandlerTest, OneAddressDoesNotFillTheQueue) {
  settings.requests = {.running_max = 1, .waiting_max = 100, .per_address_max = 2};
  settings.trusted_proxies = {*parse_cidr("127.0.0.1")};
  start();
  lane->hold(true);
  const auto from = [&](const char* address) {
    return text_of("GET", "/api/v1/who", admin, "", std::string("X-Forwarded-For: ") + address + "\r\n");
  };
  for (int i = 0; i < 2; ++i) send(from("192.0.2.1"));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 2; }));
  EXPECT_EQ(answer_of(send(from("192.0.2.1"))).status, 503);
  net::RawClient& other = send(from("192.0.2.2"));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 3; }));
  lane->hold(false);
  EXPECT_EQ(answer_of(other).status, 200);
}

TEST_F(HandlerTest, ATurnThatDoesNotComeIsA503) {
  start();
  lane->hold(true);
  net::RawClient& first = send(text_of("GET", "/api/v1/who", admin));
  ASSERT_TRUE(wait_until_asked(1));
  net::RawClient& second = send(text_of("POST", "/api/v1/disable", admin, "{}"));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 2; }));
  timers.advance(ApiHandler::kTurnTimeout_us);
  EXPECT_EQ(answer_of(second).status, 503);
  lane->hold(false);
  EXPECT_EQ(answer_of(first).status, 200);
  EXPECT_EQ(bob_is_disabled(), "0");
}

TEST_F(HandlerTest, WhatTakesTooLongIsAnsweredAndItsCommitIsToldAllTheSame) {
  start();
  lane->hold(true);
  net::RawClient& client = send(text_of("POST", "/api/v1/disable", admin, "{}"));
  ASSERT_TRUE(wait_until_asked(1));
  timers.advance(ApiHandler::kTimeout_us);
  EXPECT_EQ(answer_of(client).status, 503);
  EXPECT_EQ(handler->requests_count(), 1u);
  lane->hold(false);
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 0; }));
  EXPECT_EQ(events.rights_changed, 1);
}

TEST_F(HandlerTest, AFullLaneIsA503) {
  start();
  lane->refuses = true;
  EXPECT_EQ(ask("GET", "/api/v1/who", admin).status, 503);
  EXPECT_EQ(handler->requests_count(), 0u);
}

TEST_F(HandlerTest, TheServerMayEndWhileRequestsAreUnderWay) {
  start();
  lane->hold(true);
  for (int i = 0; i < 5; ++i) send(text_of("POST", "/api/v1/disable", admin, "{}"));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 5; }));
  http_server->close();
  EXPECT_EQ(handler->requests_count(), 1u);
  handler.reset();
  lane->hold(false);
}

}  // namespace
}  // namespace tmesh::server
