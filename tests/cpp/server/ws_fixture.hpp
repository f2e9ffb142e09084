// The server's HTTP side on loopback over a real database whose thread a test can stop.
#pragma once

#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cpp/http/router.hpp"
#include "cpp/http/server.hpp"
#include "cpp/server/database.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::test {

// Rows of ServiceFixture in a database of their own.
struct Rows : ServiceFixture {
  Rows() { SetUp(); }
  void TestBody() override {}
};

class WsFixture : public net::LoopTest {
 protected:
  WsFixture() {
    // Tests change rows while the database notes the use of tokens.
    rows.db = open_db(rows.path, server::Database::kWriteLockWait_ms);
    server::Database::Connections connections;
    connections.reads.push_back(open_db(rows.path, server::Database::kReadLockWait_ms));
    connections.writes.push_back(open_db(rows.path, server::Database::kWriteLockWait_ms));
    connections.polls.push_back(open_db(rows.path, server::Database::kReadLockWait_ms));
    database = std::move(*server::Database::create(loop(), std::move(connections)));
  }
  ~WsFixture() override { release_database(); }
  // The paths' handlers are added by the test before this.
  void serve() {
    http_server = std::make_unique<http::Server>(loop(), router, http::ServerOptions{}, nullptr);
    ASSERT_TRUE(http_server->listen("127.0.0.1", 0));
  }
  net::RawClient request(std::string_view text) {
    net::RawClient client(http_server->port());
    EXPECT_EQ(client.send(text), text.size());
    return client;
  }
  std::string status_of(net::RawClient& client) {
    EXPECT_TRUE(run_until(
        [&] { return client.pump().received.find("\r\n\r\n") != std::string::npos || client.is_over(); }));
    return client.received.substr(0, client.received.find("\r\n"));
  }
  static std::string upgrade_text(std::string_view path, std::string_view token, std::string_view more = "") {
    return "GET " + std::string(path) +
           " HTTP/1.1\r\nHost: a\r\nOrigin: http://a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
           "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
           "Authorization: Bearer " +
           std::string(token) + "\r\n" + std::string(more) + "\r\n";
  }
  // A call that lasts until release_database().
  auto waits() {
    gate.emplace();
    return [open = gate->get_future().share()](storage::Db&) {
      open.wait();
      return true;
    };
  }
  static Delegate<void(bool)> ignored() { return Delegate<void(bool)>::free<&WsFixture::ignore>(nullptr); }
  // From here on what asks the database waits, whatever it asks.
  void stop_database() {
    const auto wait = waits();
    blockers[0] = std::move(*database->read(wait, ignored()));
    blockers[1] = std::move(*database->write(wait, ignored()));
    blockers[2] = std::move(*database->poll(wait, ignored()));
  }
  void release_database() {
    if (gate) gate->set_value();
    gate.reset();
  }
  static void ignore(void*, bool) {}

  Rows rows;
  FakeTimers timers;
  std::optional<std::promise<void>> gate;
  std::unique_ptr<server::Database> database;
  Ticket blockers[3];
  http::Router router;
  std::unique_ptr<http::Server> http_server;
};

}  // namespace tmesh::test
