#include "tests/cpp/server/admin_api/handler_fixture.hpp"

namespace tmesh::server {
namespace {

using handler_routes::g_locks_to_lose;
using handler_routes::g_runs;
using HandlerTest = test::HandlerFixture;

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

TEST_F(HandlerTest, AGuessThatIsBrokenOffHasFailed) {
  set_password(rows.bob, kPassword);
  settings.login_throttle.failures_max = 1;
  start();
  const std::string wrong = R"({"currentPassword":"not this one","newPassword":"a new password"})";
  net::RawClient& client = send(text_of("PUT", "/api/v1/auth/password", user, wrong));
  ASSERT_TRUE(run_until([&] { return handler->passwords().asked_count() == 1; }));
  client.reset();
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 0; }));
  const test::Answer answer = ask("PUT", "/api/v1/auth/password", user, wrong);
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("Retry-After: 600\r\n")) << "blocked, and not only busy";
}

TEST_F(HandlerTest, ABodyWithPasswordsLeavesNoDigest) {
  set_password(rows.bob, kPassword);
  start();
  const std::string body =
      R"({"currentPassword":")" + std::string(kPassword) + R"(","newPassword":"a new password"})";
  EXPECT_EQ(ask("PUT", "/api/v1/auth/password", user, body, "Idempotency-Key: k\r\n").status, 200);
  EXPECT_EQ(scalar("SELECT COUNT(*) FROM idempotency_keys"), "0");
}

}  // namespace
}  // namespace tmesh::server
