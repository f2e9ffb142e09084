// What is asked, what counts as yes, and how long it is kept (requirement D10).
#include "cpp/client/remote_validator.hpp"

#include "tests/cpp/client/validator_fixture.hpp"
#include "tests/cpp/session/captured_log.hpp"

namespace tmesh::client {
namespace {

TEST_F(ValidatorTest, AsksWithWhatInterface52Names) {
  Ask& made = ask();
  ASSERT_TRUE(has_question(0, 1));
  EXPECT_TRUE(service.last().bytes.starts_with("POST /ask HTTP/1.1\r\n"));
  EXPECT_EQ(service.last().header("Content-Type"), "application/json");
  EXPECT_EQ(last_body(),
            R"({"protocol":"socks5","agentId":"agent-1","targetHost":"db.corp","targetPort":5432})");
  answer(made, 204);
  EXPECT_TRUE(made.is_allowed);
}

// LESSONS P-I4: whatever RFC 1929 lets a local user show arrives as it was shown.
TEST_F(ValidatorTest, CredentialsArriveAsTheyWereShown) {
  const std::pair<std::string, std::string> table[] = {
      {std::string(255, 'u'), std::string(255, 'p')},
      {"b\xc3\xa9r\xc3\xa9nice", "\xf0\x9f\x94\x91 \xe5\xaf\x86\xe7\xa0\x81"},
      {"a:b", ":c:"},
      {"user", ""},
      {"", "password"},
      {"q\"uote", "back\\slash\x01\n"},
  };
  for (const auto& [username, password] : table) {
    ValidationRequest request = question();
    request.username = username;
    request.password = password;
    EXPECT_TRUE(decide(request, 200));
    const auto body = json::parse(last_body());
    ASSERT_TRUE(body.has_value());
    EXPECT_EQ(body->root().get("username").as_string(), username);
    EXPECT_EQ(body->root().get("password").as_string(), password);
    EXPECT_EQ(body->root().size(), 6u);
  }
}

TEST_F(ValidatorTest, WhatJsonCannotCarryIsANoWithoutAQuestion) {
  ValidationRequest request = question();
  request.username = "u";
  request.password = "\xff\xfe";
  Ask& made = ask(request);
  timers.advance(0);
  EXPECT_TRUE(made.count == 1 && !made.is_allowed);
  settle();
  EXPECT_EQ(service.count(), 0u);
  EXPECT_EQ(validator->stats().errors_count, 1u);
}

TEST_F(ValidatorTest, OnlyAWholeAnswerOf2xxIsAYes) {
  for (const int status : {200, 201, 202, 204, 299}) {
    EXPECT_TRUE(decide(status)) << status;
    timers.advance(20'000'000);
  }
  for (const int status :
       {300, 301, 302, 304, 307, 400, 401, 403, 404, 407, 408, 418, 429, 500, 502, 503, 599}) {
    EXPECT_FALSE(decide(status)) << status;
    timers.advance(20'000'000);
  }
  Ask& cut = ask();
  ASSERT_TRUE(has_question(0, 23));
  service.last().reply("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nyes");
  settle();
  EXPECT_EQ(cut.count, 0);
  service.last().transport = {};
  ASSERT_TRUE(run_until([&] { return cut.count == 1; }));
  EXPECT_FALSE(cut.is_allowed);
}

TEST_F(ValidatorTest, AYesIsKeptFor15SecondsAndNeedsNoCallback) {
  ASSERT_TRUE(decide(200));
  timers.advance(14'999'999);
  EXPECT_TRUE(is_known_yes());
  timers.advance(1);
  EXPECT_FALSE(is_known_yes());
  ASSERT_TRUE(has_question(0, 2));
  EXPECT_EQ(validator->stats().hits_count, 1u);
  EXPECT_EQ(validator->stats().misses_count, 2u);
}

TEST_F(ValidatorTest, ANoIsKeptFor2SecondsAndToldFromTheLoop) {
  ASSERT_FALSE(decide(403));
  timers.advance(1'999'999);
  EXPECT_TRUE(is_known_no());
  timers.advance(1);
  EXPECT_FALSE(is_known_no());
  ASSERT_TRUE(has_question(0, 2));
  EXPECT_EQ(validator->stats().denied_count, 1u);
  EXPECT_EQ(validator->stats().errors_count, 0u);
}

// A failed storage, a proxy without its backend, "too many": none of them is an answer (LESSONS Z7).
TEST_F(ValidatorTest, ANoForWantOfAnAnswerIsKeptForOneSecondAtMost) {
  std::size_t asked = 0;
  for (const int status : {500, 503, 599, 408, 429}) {
    ASSERT_FALSE(decide(status));
    asked++;
    timers.advance(999'999);
    EXPECT_TRUE(is_known_no()) << status;
    timers.advance(1);
    EXPECT_TRUE(decide(200)) << status << ": it is asked again, and may have come back";
    asked++;
    timers.advance(20'000'000);
  }
  EXPECT_EQ(questions_count(), asked);
  EXPECT_EQ(validator->stats().errors_count, 5u);
  EXPECT_EQ(validator->stats().denied_count, 0u);
  config.remote_validation.negative_ttl_us = 500'000;
  configure();
  ASSERT_FALSE(decide(503, 1));
  timers.advance(500'000);
  EXPECT_FALSE(is_known_no()) << "and never longer than a no";
}

TEST_F(ValidatorTest, AServiceThatIsGoneIsANoUntilItIsBack) {
  uint16_t closed = 0;
  {
    test::FakeServer gone(loop());
    closed = gone.port();
  }
  const std::string dead = "http://127.0.0.1:" + std::to_string(closed) + "/";
  ValidationRequest request = question();
  request.url = dead;
  Ask& made = ask(request);
  ASSERT_TRUE(run_until([&] { return made.count == 1; }));
  EXPECT_FALSE(made.is_allowed);
  EXPECT_EQ(validator->stats().errors_count, 1u);
}

// An answer that comes drop by drop does not buy time.
TEST_F(ValidatorTest, NoAnswerWithin3SecondsIsANo) {
  Ask& made = ask();
  ASSERT_TRUE(has_question(0, 1));
  for (const char drop : std::string_view("HTTP/1.1 200 OK\r\nContent-Length: 20\r\n")) {
    service.last().reply(std::string(1, drop));
    loop().run_once();
    timers.advance(50'000);
  }
  EXPECT_EQ(made.count, 0);
  settle();
  timers.advance(3'000'000 - 37 * 50'000 - 1);
  EXPECT_EQ(made.count, 0);
  timers.advance(1);
  EXPECT_TRUE(made.count == 1 && !made.is_allowed);
  EXPECT_EQ(validator->http().connections_count(), 0u);
  EXPECT_TRUE(is_known_no());
  timers.advance(1'000'000);
  EXPECT_TRUE(decide(200, 1));
}

TEST_F(ValidatorTest, QuestionsGoThroughOneKeptConnection) {
  for (uint16_t port = 1; port <= 20; port++) {
    ValidationRequest request = question();
    request.target_port = port;
    EXPECT_TRUE(decide(request, 200));
  }
  EXPECT_EQ(service.count(), 1u);
  EXPECT_EQ(validator->kept_count(), 20u);
}

// Each part of the question decides, and none runs into the next one.
TEST_F(ValidatorTest, NoTwoQuestionsShareAnAnswer) {
  const std::string other = url + "/2";
  ValidationRequest base = question();
  base.username = "ab";
  base.password = "cd";
  std::vector<ValidationRequest> others(9, base);
  others[0].url = other;
  others[1].protocol = "http-proxy";
  others[2].agent_id = "agent-2";
  others[3].target_host = "db.corp2";
  others[4].target_port = 5433;
  others[5].username = "abc", others[5].password = "d";
  others[6].username = "ab", others[6].password = "CD";
  others[7].username = {}, others[7].password = {};
  others[8].agent_id = "agent-1d", others[8].target_host = "b.corp";
  ASSERT_TRUE(decide(base, 200));
  for (std::size_t i = 0; i < others.size(); i++) {
    EXPECT_FALSE(is_known_yes(others[i])) << i;
    ASSERT_TRUE(has_question(0, i + 2)) << i;
    service.last().reply("HTTP/1.1 403 X\r\nContent-Length: 0\r\n\r\n");
    ASSERT_TRUE(run_until([&] { return asks.back().count == 1; }));
  }
  EXPECT_TRUE(is_known_yes(base));
}

TEST_F(ValidatorTest, WithoutAnEndpointNothingIsAskedOrKept) {
  ValidationRequest request = question();
  request.url = {};
  EXPECT_TRUE(is_known_yes(request));
  settle();
  EXPECT_EQ(service.count(), 0u);
  EXPECT_EQ(timers.count(), 0u);
  EXPECT_EQ(validator->stats().hits_count + validator->stats().misses_count, 0u);
}

TEST_F(ValidatorTest, KeptAnswersAreBounded) {
  config.remote_validation.entries_max = 3;
  configure();
  for (uint16_t port = 1; port <= 10; port++) {
    ValidationRequest request = question();
    request.target_port = port;
    ASSERT_TRUE(decide(request, 200));
    EXPECT_LE(validator->kept_count(), 3u);
  }
  EXPECT_EQ(validator->kept_count(), 3u);
}

// Requirement D10 and A7, at the level that says most.
TEST_F(ValidatorTest, NothingOfAQuestionOrAnAnswerIsLogged) {
  test::CapturedLog captured;
  log::set_level(log::Level::debug);
  ValidationRequest request = question();
  request.username = "the-user";
  request.password = "the-password";
  for (const char* text :
       {"HTTP/1.1 200 the-reason\r\nContent-Length: 8\r\n\r\nthe-body",
        "HTTP/1.1 503 the-reason\r\nX: the-field\r\nContent-Length: 8\r\n\r\nthe-body",
        "HTTP/1.1 403 the-reason\r\nContent-Length: 8\r\n\r\nthe-body", "the-rubbish\r\n"}) {
    Ask& made = ask(request);
    ASSERT_TRUE(run_until([&] {
      return service.count() == 1 && service.last().bytes.ends_with("}") &&
             questions_count(0) == validator->stats().misses_count;
    }));
    service.last().reply(text);
    ASSERT_TRUE(run_until([&] { return made.count == 1; }));
    timers.advance(20'000'000);
  }
  log::set_level(log::Level::info);
  EXPECT_EQ(captured.count(" remote_validation "), 4u);
  EXPECT_EQ(captured.count("warn remote_validation_failed"), 2u);
  EXPECT_EQ(captured.count("remote_validation_works"), 1u);
  for (const char* what : {"the-", "db.corp", "5432", "127.0.0.1", "/ask", "agent-1"}) {
    EXPECT_EQ(captured.count(what), 0u) << what;
  }
}

TEST_F(ValidatorTest, AnOutageIsSaidOnce) {
  test::CapturedLog captured;
  for (int i = 0; i < 5; i++) {
    ASSERT_FALSE(decide(503));
    timers.advance(20'000'000);
  }
  EXPECT_EQ(captured.count("remote_validation_failed stage=status status=503"), 1u);
  ASSERT_FALSE(decide(403));
  EXPECT_EQ(captured.count("remote_validation_works"), 1u) << "a no is an answer";
}

}  // namespace
}  // namespace tmesh::client
