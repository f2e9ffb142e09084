#include "tests/cpp/server/admin_api/handler_fixture.hpp"

namespace tmesh::server {
namespace {

using handler_routes::g_runs;
using HandlerTest = test::HandlerFixture;

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

TEST_F(HandlerTest, AReplyWithASecretAndNoReplayIsKeptEmpty) {
  start();
  EXPECT_EQ(ask("POST", "/api/v1/leaks", admin, "", "Idempotency-Key: k\r\n").data("secret"), "s3cret");
  EXPECT_EQ(scalar("SELECT COUNT(*) FROM idempotency_keys WHERE response LIKE '%s3cret%'"), "0");
  const test::Answer again = ask("POST", "/api/v1/leaks", admin, "", "Idempotency-Key: k\r\n");
  EXPECT_EQ(again.data("replayed"), "true");
  EXPECT_EQ(again.data("secret"), "(none)");
}

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
