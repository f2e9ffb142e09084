#include <array>
#include <ctime>

#include "tests/cpp/server/admin_api/api_fixture.hpp"

namespace tmesh::server {
namespace {

ApiResult me(ApiCall& call) {
  return ApiReply{.data = "\"" + call.caller.username + "\""};
}
constexpr ApiRoute kTable[] = {
    {.method = http::Method::get, .path = "/auth/me", .who = ApiWho::user, .run = me}};

struct LoginTest : test::ApiFixture {
  LoginTest() { set_password(rows.alice, kPassword); }
  void start() { serve({kTable}); }

  static std::string body(std::string_view name, std::string_view password) {
    std::string text;
    json::Writer(text).begin_object().member("username", name).member("password", password).end_object();
    return text;
  }
  net::RawClient& send_login(std::string_view name, std::string_view password, std::string_view more = {}) {
    return send(text_of("POST", "/api/v1/auth/login", "", body(name, password), more));
  }
  test::Answer try_login(std::string_view name, std::string_view password, std::string_view more = {}) {
    return answer_of(send_login(name, password, more));
  }
  static std::string from(const char* address) { return std::string("X-Forwarded-For: ") + address + "\r\n"; }
  void trust_loopback() { settings.trusted_proxies = {*parse_cidr("127.0.0.1")}; }
};

TEST_F(LoginTest, TheRightPasswordGivesAToken) {
  start();
  const test::Answer answer = try_login("alice", kPassword);
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.has("Cache-Control: no-store\r\n"));
  const std::string token = answer.data("token");
  EXPECT_EQ(token.size(), 43u);
  EXPECT_NE(answer.body.find(R"("user":{"id":")" + rows.alice.id +
                             R"(","username":"alice","role":"admin"},"expiresAt":null)"),
            std::string::npos)
      << answer.body;
  EXPECT_EQ(ask("GET", "/api/v1/auth/me", token).body, R"({"code":200,"msg":"OK","data":"alice"})");
  EXPECT_EQ(events.rights_changed, 0) << "a login empties no cache";
  EXPECT_EQ(test::scalar(*rows.db, "SELECT actor_user_id FROM audit_logs WHERE action = 'user.login'"),
            rows.alice.id);
  EXPECT_EQ(test::scalar(*rows.db, "SELECT COUNT(*) FROM api_tokens WHERE token_hash LIKE '%" + token + "%'"),
            "0");
}

TEST_F(LoginTest, SessionsExpireWhereTheyAreToldTo) {
  settings.session_ttl_us = 3'600'000'000;
  start();
  const test::Answer answer = try_login("alice", kPassword);
  EXPECT_EQ(answer.data("expiresAt"), "2027-01-15T09:00:00Z");
  EXPECT_EQ(ask("GET", "/api/v1/auth/me", answer.data("token")).status, 200);
  timers.set_wall(rows.time.now_us + 3'600'000'000);
  EXPECT_EQ(ask("GET", "/api/v1/auth/me", answer.data("token")).status, 401);
}

TEST_F(LoginTest, WhateverIsWrongIsAnsweredAlikeAfterTheSameWork) {
  settings.login_throttle.failures_max = 100;
  set_password(rows.bob, kPassword);
  rows.set("users", rows.bob.id, "disabled", 1);
  start();
  const test::Answer first = try_login("alice", "wrong");
  EXPECT_EQ(first.status, 401);
  EXPECT_EQ(first.error(), "invalid credentials");
  std::size_t asked = 1;
  for (const auto& [name, password] :
       std::initializer_list<std::pair<std::string, std::string>>{{"nobody", kPassword},
                                                                  {"bob", kPassword},
                                                                  {"", ""},
                                                                  {"alice' --", kPassword},
                                                                  {std::string(2000, 'a'), kPassword},
                                                                  {"alice", std::string(2000, 'p')},
                                                                  {"ALICE", kPassword}}) {
    const test::Answer answer = try_login(name, password);
    EXPECT_EQ(answer.body, first.body) << name;
    EXPECT_EQ(answer.status, 401);
    EXPECT_EQ(handler->passwords().asked_count(), ++asked) << name << ": no Argon2";
    EXPECT_EQ(lane->asked, asked) << name << ": the right password is no step further";
  }
  rows.set("users", rows.bob.id, "disabled", 0);
  rows.set("users", rows.bob.id, "deleted_at", "2027-01-01T00:00:00Z");
  EXPECT_EQ(try_login("bob", kPassword).status, 401);
  EXPECT_EQ(lane->asked, asked + 1);
  EXPECT_EQ(events.failed_logins.size(), 9u);
  EXPECT_EQ(events.failed_logins[0], rows.alice.id);
  EXPECT_EQ(events.failed_logins[1], "");
  EXPECT_EQ(test::scalar(*rows.db, "SELECT COUNT(*) FROM api_tokens"), "0");
}

TEST_F(LoginTest, TheDecoyCostsWhatARealHashCosts) {
  const std::string real = *hash_password("x");
  const std::string_view decoy = decoy_password_hash();
  const std::size_t salt = real.find('$', std::string_view("$argon2id$v=19$").size());
  EXPECT_EQ(decoy.substr(0, salt), std::string_view(real).substr(0, salt));
  EXPECT_EQ(decoy.size(), real.size());
  EXPECT_EQ(verify_password(decoy, "x").error().code, TMESH_E_POLICY);
}

// Processor time of the process, which does nothing else here; not the time of day.
TEST_F(LoginTest, ANameThatNobodyHasCostsTheWorkOfOneThatSomebodyHas) {
  const auto cost_of = [this](std::string hash) {
    auto pool = std::move(*PasswordPool::create(loop()));
    struct Sink {
      void on_done(Result<void> result) { code = result ? TMESH_OK : result.error().code; }
      std::optional<tmesh_code> code;
    } sink;
    const std::clock_t began = std::clock();
    auto ticket = pool->verify(std::move(hash), Secret("some password"),
                               Delegate<void(Result<void>)>::bind<&Sink::on_done>(&sink));
    EXPECT_TRUE(run_until([&] { return sink.code.has_value(); }));
    EXPECT_EQ(sink.code, TMESH_E_POLICY);
    return std::clock() - began;
  };
  const std::clock_t real = cost_of(rows.alice.password_hash);
  EXPECT_GT(cost_of(""), real / 4);
}

TEST_F(LoginTest, RequestsThatAreNoLoginCostNothing) {
  start();
  const auto post = [&](std::string_view text, std::string_view more = {}) {
    return ask("POST", "/api/v1/auth/login", "", text, more);
  };
  EXPECT_EQ(post("{}").error(), "username: a text is required");
  EXPECT_EQ(post(R"({"username":"a"})").error(), "password: a text is required");
  EXPECT_EQ(post(R"({"username":1,"password":"x"})").status, 400);
  EXPECT_EQ(post(R"({"username":"a","password":"x","otp":"1"})").status, 400);
  EXPECT_EQ(post("").status, 400);
  EXPECT_EQ(post("[]").status, 400);
  EXPECT_EQ(post(body("a", "b"), "Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(post(body("a", std::string(5000, 'x'))).status, 413);
  EXPECT_EQ(ask("POST", "/api/v1/auth/login?x=1", "", body("a", "b")).status, 400);
  EXPECT_EQ(handler->passwords().asked_count(), 0u);
  EXPECT_EQ(lane->asked, 0u);
}

TEST_F(LoginTest, AfterTenFailuresTheAddressWaitsTenMinutes) {
  trust_loopback();
  start();
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(try_login("nobody" + std::to_string(i), "x", from("192.0.2.1")).status, 401);
  }
  const test::Answer answer = try_login("alice", kPassword, from("192.0.2.1"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("Retry-After: 600\r\n"));
  EXPECT_EQ(handler->passwords().asked_count(), 10u);
  // Others are not held up, and what a client writes into the field itself is not believed.
  EXPECT_EQ(try_login("alice", kPassword, from("192.0.2.2")).status, 200);
  EXPECT_EQ(try_login("alice", kPassword, from("203.0.113.9, 192.0.2.1")).status, 429);
  timers.advance(599'999'999);
  EXPECT_EQ(try_login("alice", kPassword, from("192.0.2.1")).status, 429);
  timers.advance(1);
  EXPECT_EQ(try_login("alice", kPassword, from("192.0.2.1")).status, 200);
}

TEST_F(LoginTest, ABurstIsNoWayAroundTheThrottle) {
  start();
  lane->hold(true);
  std::vector<net::RawClient*> sent;
  for (int i = 0; i < 14; ++i) sent.push_back(&send_login("alice", "wrong"));
  for (int i = 10; i < 14; ++i) EXPECT_EQ(answer_of(*sent[i]).status, 429);
  lane->hold(false);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(answer_of(*sent[i]).status, 401);
}

TEST_F(LoginTest, AnAttemptThatIsBrokenOffHasFailed) {
  settings.login_throttle.failures_max = 1;
  start();
  lane->hold(true);
  net::RawClient& client = send_login("alice", "wrong");
  ASSERT_TRUE(run_until([&] { return handler->logins_count() == 1; }));
  client.reset();
  ASSERT_TRUE(run_until([&] { return handler->logins_count() == 0; }));
  lane->hold(false);
  const test::Answer answer = try_login("alice", kPassword);
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.has("Retry-After: 600\r\n")) << "blocked, and not only busy";
}

TEST_F(LoginTest, WhatTheServerCannotDoIsNotTheUsersFailure) {
  settings.login_throttle.failures_max = 1;
  start();
  lane->refuses = true;
  EXPECT_EQ(try_login("alice", kPassword).status, 503);
  lane->refuses = false;
  test::run_sql(*rows.db, "ALTER TABLE users RENAME TO gone");
  EXPECT_EQ(try_login("alice", kPassword).status, 500);
  test::run_sql(*rows.db, "ALTER TABLE gone RENAME TO users");
  EXPECT_EQ(try_login("alice", kPassword).status, 200);
}

TEST_F(LoginTest, LoginsHaveABudgetOfTheirOwn) {
  settings.login_throttle.failures_max = 1000;
  settings.logins = {.running_max = 2, .waiting_max = 1, .per_address_max = 100};
  start();
  const std::string token = log_in(rows.bob);
  lane->hold(true);
  std::vector<net::RawClient*> sent;
  for (int i = 0; i < 3; ++i) sent.push_back(&send_login("alice", kPassword));
  ASSERT_TRUE(run_until([&] { return handler->logins_count() == 3; }));
  EXPECT_EQ(try_login("alice", kPassword).status, 503);
  net::RawClient& other = send(text_of("GET", "/api/v1/auth/me", token));
  ASSERT_TRUE(run_until([&] { return handler->requests_count() == 1; }));
  lane->hold(false);
  EXPECT_EQ(answer_of(other).status, 200);
  for (net::RawClient* client : sent) EXPECT_EQ(answer_of(*client).status, 200);
}

TEST_F(LoginTest, APasswordThatChangesMeanwhileDoesNotLogIn) {
  start();
  lane->hold(true);
  net::RawClient& client = send_login("alice", kPassword);
  ASSERT_TRUE(run_until([&] { return handler->logins_count() == 1; }));
  lane->before_run = [](storage::Db& db) {
    // Behind the look-up and before the session.
    static int runs = 0;
    if (++runs % 2 == 0)
      test::run_sql(db, "UPDATE users SET password_hash = 'other' WHERE username = 'alice'");
  };
  lane->hold(false);
  EXPECT_EQ(answer_of(client).status, 401);
  EXPECT_EQ(test::scalar(*rows.db, "SELECT COUNT(*) FROM api_tokens"), "0");
}

TEST_F(LoginTest, ALoginThatTakesTooLongIsA503) {
  start();
  lane->hold(true);
  net::RawClient& client = send_login("alice", kPassword);
  ASSERT_TRUE(run_until([&] { return handler->logins_count() == 1; }));
  timers.advance(ApiHandler::kTimeout_us);
  EXPECT_EQ(answer_of(client).status, 503);
  EXPECT_EQ(handler->logins_count(), 0u);
  lane->hold(false);
}

}  // namespace
}  // namespace tmesh::server
