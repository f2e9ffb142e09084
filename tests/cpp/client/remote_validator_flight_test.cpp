// Lookups that are shared, cancelled, too many, or overtaken by another configuration; TLS.
#include <cstdlib>

#include "cpp/client/remote_validator.hpp"
#include "tests/cpp/client/validator_fixture.hpp"
#include "tests/cpp/net/tls_files.hpp"

namespace tmesh::client {
namespace {

TEST_F(ValidatorTest, ManyOfOneKeyAreOneLookup) {
  std::vector<Ask*> all;
  for (int i = 0; i < 100; i++) all.push_back(&ask());
  ASSERT_TRUE(has_question(0, 1));
  answer(*all[0], 200);
  for (const Ask* one : all) EXPECT_TRUE(one->count == 1 && one->is_allowed);
  settle();
  EXPECT_EQ(questions_count(), 1u);
  EXPECT_EQ(validator->stats().misses_count, 1u);
  EXPECT_EQ(validator->stats().coalesced_count, 99u);
}

// LESSONS Z7: waiters do not inherit the first caller's cancellation.
TEST_F(ValidatorTest, TheFirstCallerMayGoAndTheOthersAreAnswered) {
  Ask& first = ask();
  Ask& second = ask();
  ASSERT_TRUE(has_question(0, 1));
  first.ticket.cancel();
  answer(second, 200);
  EXPECT_TRUE(second.is_allowed);
  EXPECT_EQ(first.count, 0);
  EXPECT_TRUE(is_known_yes()) << "and the answer is kept";
}

TEST_F(ValidatorTest, ALookupThatNobodyWaitsForEnds) {
  Ask& only = ask();
  ASSERT_TRUE(has_question(0, 1));
  only.ticket.cancel();
  EXPECT_EQ(validator->http().requests_count(), 0u);
  EXPECT_EQ(timers.count(), 0u);
  ASSERT_TRUE(run_until([&] { return service.last().is_eof || service.last().down; }));
  Ask& denied_later = ask();
  ASSERT_TRUE(has_question(1, 1)) << "nothing was kept of it";
  answer(denied_later, 403, 1);
  Ask& known = ask();
  known.ticket.cancel();
  EXPECT_EQ(timers.count(), 1u) << "of the idle connection; none of the denial that nobody waits for";
}

TEST_F(ValidatorTest, TooManyLookupsAreANoThatIsNotKept) {
  for (std::size_t i = 0; i < RemoteValidator::kLookupsMax; i++) {
    ValidationRequest request = question();
    request.target_port = static_cast<uint16_t>(i + 1);
    ask(request);
  }
  Ask& over = ask();
  timers.advance(0);
  EXPECT_TRUE(over.count == 1 && !over.is_allowed);
  EXPECT_EQ(validator->stats().over_limit_count, 1u);
  EXPECT_EQ(validator->http().requests_count(), RemoteValidator::kLookupsMax);
  asks[0].ticket.cancel();
  Ask& again = ask();
  timers.advance(0);
  EXPECT_EQ(again.count, 0) << "there is a place, and no memory of the no";
  ValidationRequest same = question();
  same.target_port = 7;
  ask(same);
  EXPECT_EQ(validator->stats().coalesced_count, 1u) << "joining needs no place";
}

TEST_F(ValidatorTest, AKeptConnectionThatEndsJustThenIsNoAnswer) {
  ASSERT_TRUE(decide(200));
  ValidationRequest request = question();
  request.target_port = 1;
  Ask& made = ask(request);
  ASSERT_TRUE(has_question(0, 2));
  service.peer(0).transport = {};
  ASSERT_TRUE(has_question(1, 1)) << "asked once more";
  answer(made, 200, 1);
  EXPECT_TRUE(made.is_allowed);
}

TEST_F(ValidatorTest, WhatCannotBeAskedIsANoEachTime) {
  ValidationRequest request = question();
  request.url = "https://127.0.0.1:1/";  // and there are no certificates
  for (int i = 0; i < 3; i++) {
    Ask& made = ask(request);
    timers.advance(0);
    EXPECT_EQ(made.count, 1);
    EXPECT_FALSE(made.is_allowed);
  }
}

TEST_F(ValidatorTest, AnotherConfigurationForgetsEverythingAndEndsIdleConnections) {
  const auto changes = {
      +[](config::ClientConfig& c) { c.tunnels[0].auth_url += "2"; },
      +[](config::ClientConfig& c) { c.tunnels.emplace_back().auth_url = "http://127.0.0.1:1/"; },
      +[](config::ClientConfig& c) { c.socks5.username = "u"; },
      +[](config::ClientConfig& c) { c.socks5.password = Secret("p"); },
      +[](config::ClientConfig& c) { c.http_proxy.username = "u"; },
      +[](config::ClientConfig& c) { c.http_proxy.password = Secret("p"); },
      +[](config::ClientConfig& c) { c.remote_validation.positive_ttl_us = 1; },
      +[](config::ClientConfig& c) { c.remote_validation.ca_file = "/etc/x"; },
  };
  std::size_t n = 0;
  for (const auto change : changes) {
    config.remote_validation.positive_ttl_us = 15'000'000;
    configure();
    const std::size_t connection = service.count();
    ASSERT_TRUE(decide(200, connection)) << n;
    configure();
    EXPECT_TRUE(is_known_yes()) << n << ": the same again changes nothing";
    EXPECT_EQ(validator->http().idle_count(), 1u);
    change(config);
    configure();
    EXPECT_EQ(validator->http().idle_count(), 0u) << n;
    EXPECT_EQ(validator->kept_count(), 0u) << n;
    ASSERT_TRUE(run_until([&] { return service.peer(connection).is_eof; })) << n;
    n++;
  }
}

TEST_F(ValidatorTest, AnAnswerToAnOldConfigurationIsToldAndNotKept) {
  Ask& old = ask();
  ASSERT_TRUE(has_question(0, 1));
  config.socks5.password = Secret("changed");
  configure();
  Ask& fresh = ask();
  ASSERT_TRUE(has_question(1, 1)) << "nobody joins a lookup of before";
  answer(old, 200);
  EXPECT_TRUE(old.is_allowed);
  EXPECT_EQ(validator->kept_count(), 0u);
  answer(fresh, 403, 1);
  EXPECT_FALSE(fresh.is_allowed);
}

TEST_F(ValidatorTest, TheCallbackMayDestroyTheValidator) {
  Ask& lookup = ask();
  lookup.owner = &validator;
  ASSERT_TRUE(has_question(0, 1));
  answer(lookup, 200);
  EXPECT_FALSE(validator.has_value());
  validator.emplace(loop(), timers, *dialer);
  configure();
  ASSERT_FALSE(decide(403, 1));
  Ask& known = ask();
  known.owner = &validator;
  timers.advance(0);
  EXPECT_EQ(known.count, 1);
  EXPECT_FALSE(validator.has_value());
}

class TlsValidatorTest : public ValidatorTest {
 protected:
  TlsValidatorTest() : ValidatorTest(&server_tls()) {
    config.tunnels[0].auth_url = url = "https://localhost:" + std::to_string(service.port()) + "/ask";
    config.remote_validation.ca_file = net::tls_client_files().ca;
    configure();
  }
  static net::TlsContext& server_tls() {
    static net::TlsContext context = std::move(*net::TlsContext::server(net::tls_server_files()));
    return context;
  }
  bool is_denied(const ValidationRequest& request) {
    Ask& made = ask(request);
    EXPECT_TRUE(run_until([&] { return made.count == 1; }));
    return made.count == 1 && !made.is_allowed;
  }
};

TEST_F(TlsValidatorTest, AsksAServiceThatProvesItsName) {
  EXPECT_TRUE(decide(200));
  EXPECT_TRUE(is_known_yes());
}

TEST_F(TlsValidatorTest, ACertificateOfAnotherCaIsANo) {
  const std::string folder = net::tls_test_folder() + "/other";
  const std::string command = "bash " TMESH_SOURCE_DIR "/tests/support/make_ca.sh " + folder;
  ASSERT_EQ(std::system(command.c_str()), 0);
  config.remote_validation.ca_file = folder + "/ca.pem";
  configure();
  EXPECT_TRUE(is_denied(question()));
  settle();
  for (std::size_t n = 0; n < service.count(); n++) EXPECT_EQ(service.peer(n).bytes, "");
}

TEST_F(TlsValidatorTest, ACertificateForAnotherNameIsANo) {
  test::FakeDialer fake;
  validator.emplace(loop(), timers, fake);
  configure();
  const std::string other = "https://auth.example.com:" + std::to_string(service.port()) + "/ask";
  ValidationRequest request = question();
  request.url = other;
  Ask& made = ask(request);
  net::RawClient raw(service.port());
  fake.end("auth.example.com", test::FakeDialer::connected(raw.release()));
  ASSERT_TRUE(run_until([&] { return made.count == 1; }));
  EXPECT_FALSE(made.is_allowed);
  settle();
  EXPECT_EQ(service.last().bytes, "");
  validator.reset();
}

TEST_F(TlsValidatorTest, CertificatesThatCannotBeReadAreAProblem) {
  config.remote_validation.ca_file = "/nonexistent/ca.pem";
  const auto refused = RemoteValidator::make_tls(config);
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(refused.error().starts_with("client.remote_validation.ca_file: CA file /nonexistent/ca.pem"))
      << refused.error();
  config.tunnels[0].auth_url = "http://127.0.0.1:1/";
  EXPECT_TRUE(RemoteValidator::make_tls(config).has_value()) << "nobody asks for them";
}

// Renewed certificates count for the next question, also where nothing else has changed.
TEST_F(TlsValidatorTest, AReloadEndsConnectionsThatWereMadeWithOlderCertificates) {
  ASSERT_TRUE(decide(200));
  configure();
  EXPECT_TRUE(is_known_yes());
  ValidationRequest request = question();
  request.target_port = 1;
  EXPECT_TRUE(decide(request, 200, 1)) << "over a new connection";
}

// A dial that is under way borrows the certificates.
TEST_F(TlsValidatorTest, AReloadWhileItConnectsIsHarmless) {
  Ask& made = ask();
  configure();
  config.tunnels[0].auth_url = "http://127.0.0.1:1/";
  configure();
  ASSERT_TRUE(has_question(0, 1));
  answer(made, 200);
  EXPECT_TRUE(made.is_allowed);
}

// Passwords are in it: it never goes out in the clear.
TEST_F(TlsValidatorTest, AQuestionThatIsAskedOnceMoreAfterAReloadIsStillEncrypted) {
  ASSERT_TRUE(decide(200));
  ValidationRequest request = question();
  request.target_port = 1;
  Ask& made = ask(request);
  ASSERT_TRUE(has_question(0, 2));
  config.tunnels[0].auth_url = "http://127.0.0.1:1/";
  configure();
  service.peer(0).transport = {};
  ASSERT_TRUE(has_question(1, 1));
  answer(made, 200, 1);
  EXPECT_TRUE(made.is_allowed);
}

}  // namespace
}  // namespace tmesh::client
