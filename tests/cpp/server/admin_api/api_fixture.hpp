// The API on loopback: a real HTTP server, a real database on a thread that a test can
// hold, and a clock that jumps.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpp/base/json.hpp"
#include "cpp/http/router.hpp"
#include "cpp/http/server.hpp"
#include "cpp/net/workers.hpp"
#include "cpp/server/admin_api/api_handler.hpp"
#include "cpp/server/password.hpp"
#include "cpp/server/session_service.hpp"
#include "cpp/storage/change.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::test {

// One connection on one thread, as SQLite has it. hold() keeps jobs from starting.
class TestLane final : public server::ApiLane {
 public:
  TestLane(net::Loop& loop, std::unique_ptr<storage::Db> db) : db_(std::move(db)) {
    workers_ = std::move(*net::Workers::create(loop, 1, 64));
  }
  ~TestLane() { hold(false); }

  Result<Ticket> run(std::unique_ptr<server::LaneJob> job,
                     Delegate<void(std::unique_ptr<server::LaneJob>)> done) override {
    if (refuses) return fail(TMESH_E_LIMIT, "refused by the test");
    ++asked;
    return workers_->submit(
        [this, job = std::move(job)]() mutable {
          const std::scoped_lock wait(gate_);
          if (before_run) before_run(*db_);
          job->run(*db_);
          ++ran;
          return std::move(job);
        },
        done);
  }
  void hold(bool is_held) {
    if (is_held == is_held_) return;
    is_held_ = is_held;
    is_held ? gate_.lock() : gate_.unlock();
  }

  bool refuses = false;
  std::size_t asked = 0;
  std::atomic<std::size_t> ran = 0;
  void (*before_run)(storage::Db&) = nullptr;

 private:
  std::unique_ptr<storage::Db> db_;
  std::mutex gate_;
  bool is_held_ = false;
  std::unique_ptr<net::Workers> workers_;
};

struct TestLive final : server::ApiLive {
  std::vector<server::LiveAgentLink> agent_links(std::string_view agent_id) override {
    asked_for = agent_id;
    return links;
  }
  bool close_agent_link(std::string_view, std::string_view connection_id, int64_t) override {
    closed.emplace_back(connection_id);
    return true;
  }
  std::string asked_for;
  std::vector<server::LiveAgentLink> links;
  std::vector<std::string> closed;
};

struct TestEvents final : server::ApiEvents {
  void on_rights_changed() override { ++rights_changed; }
  void on_login_failed(std::string_view user_id) override { failed_logins.emplace_back(user_id); }
  int rights_changed = 0;
  std::vector<std::string> failed_logins;
};

// A response taken apart.
struct Answer {
  int status = 0;
  std::string head;
  std::string body;

  bool has(std::string_view field) const { return head.find(field) != std::string::npos; }
  // `data.<name>`, or the error.
  std::string data(const char* name) const {
    auto parsed = json::parse(body);
    if (!parsed) return "(no JSON)";
    const json::Value value = parsed->root().get("data").get(name);
    if (const auto text = value.as_string()) return std::string(*text);
    if (const auto number = value.as_int()) return std::to_string(*number);
    if (const auto flag = value.as_bool()) return *flag ? "true" : "false";
    return value ? "(other)" : "(none)";
  }
  std::string error() const { return data("error"); }
};

// Rows of ServiceFixture in a database of their own.
struct ApiRows : ServiceFixture {
  ApiRows() { SetUp(); }
  void TestBody() override {}
};

class ApiFixture : public net::LoopTest {
 protected:
  static constexpr const char* kPassword = "correct horse battery";

  ApiFixture() {
    timers.set_wall(rows.time.now_us);
    lane = std::make_unique<TestLane>(loop(), open_db(rows.path, 60'000));
  }
  ~ApiFixture() override {
    if (lane) lane->hold(false);
    clients.clear();
    http_server.reset();
    handler.reset();
    lane.reset();
  }
  void serve(std::initializer_list<std::span<const server::ApiRoute>> tables) {
    handler = std::make_unique<server::ApiHandler>(server::ApiHandler::Parts{timers, *lane, live, events},
                                                   std::move(*server::PasswordPool::create(loop())), tables,
                                                   settings);
    router.add_prefix("/api/", *handler);
    http_server = std::make_unique<http::Server>(loop(), router, http::ServerOptions{}, nullptr);
    ASSERT_TRUE(http_server->listen("127.0.0.1", 0));
  }
  // A session of that user.
  std::string log_in(const storage::UserRecord& user) {
    auto made = storage::change(*rows.db, [&](storage::Transaction& tx) {
      return server::SessionService(server::ChangeScope(tx, rows.time.now_us, user.id))
          .start(user.id, user.password_hash, 0);
    });
    EXPECT_TRUE(made) << (made ? "" : made.error().text);
    return std::string(made->secret.reveal());
  }
  void set_password(storage::UserRecord& user, std::string_view password) {
    user.password_hash = *server::hash_password(password);
    rows.set("users", user.id, "password_hash", user.password_hash);
  }

  static std::string text_of(std::string_view method, std::string_view target, std::string_view token,
                             std::string_view body = {}, std::string_view more = {}) {
    std::string text = std::string(method) + " " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n";
    if (!token.empty()) text += "Authorization: Bearer " + std::string(token) + "\r\n";
    text += more;
    if (!body.empty() && more.find("Content-Type") == std::string_view::npos) {
      text += "Content-Type: application/json\r\n";
    }
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    return text + std::string(body);
  }
  // Sends a request and does not wait.
  net::RawClient& send(std::string_view text) {
    clients.emplace_back(http_server->port());
    EXPECT_EQ(clients.back().send(text), text.size());
    return clients.back();
  }
  static bool is_whole(const std::string& received) {
    const std::size_t end = received.find("\r\n\r\n");
    if (end == std::string::npos) return false;
    const std::size_t at = received.find("Content-Length: ");
    if (at == std::string::npos || at > end) return true;
    return received.size() >= end + 4 + std::strtoull(received.c_str() + at + 16, nullptr, 10);
  }
  Answer answer_of(net::RawClient& client) {
    EXPECT_TRUE(run_until([&] { return is_whole(client.pump().received) || client.is_over(); }));
    Answer answer;
    const std::size_t end = client.received.find("\r\n\r\n");
    if (end == std::string::npos) return answer;
    answer.head = client.received.substr(0, end + 2);
    answer.body = client.received.substr(end + 4);
    answer.status = std::atoi(answer.head.c_str() + 9);
    return answer;
  }
  Answer ask(std::string_view method, std::string_view target, std::string_view token,
             std::string_view body = {}, std::string_view more = {}) {
    return answer_of(send(text_of(method, target, token, body, more)));
  }

  ApiRows rows;
  FakeTimers timers;
  TestLive live;
  TestEvents events;
  server::ApiSettings settings;
  std::unique_ptr<TestLane> lane;
  std::unique_ptr<server::ApiHandler> handler;
  http::Router router;
  std::unique_ptr<http::Server> http_server;
  std::deque<net::RawClient> clients;
};

}  // namespace tmesh::test
