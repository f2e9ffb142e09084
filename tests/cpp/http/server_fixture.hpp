// A server on loopback with a handler whose answers a test can steer.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/http/server.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::http {

inline std::size_t count_of(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
    ++n;
  return n;
}

// Answers "METHOD path|body" at once; /later keeps the exchange, /nothing forgets it,
// /big answers with big_bytes.
class TestHandler final : public Handler {
 public:
  void on_request(Exchange& exchange) override {
    const Request& request = exchange.request();
    max_depth = std::max(max_depth, ++depth);
    seen.push_back(request.path);
    peer = exchange.peer().text();
    if (request.path == "/later") {
      later.push_back(exchange.defer(Delegate<void()>::bind<&TestHandler::on_abort>(this)));
    } else if (request.path == "/dropped") {
      Deferred dropped = exchange.defer({});
    } else if (request.path == "/big") {
      exchange.respond(Response::plain(200, std::string(big_bytes, 'x')));
    } else if (request.path != "/nothing") {
      exchange.respond(Response::plain(
          200, std::string(method_name(request.method)) + " " + request.path + "|" + request.body));
    }
    --depth;
  }
  void on_abort() { ++aborts; }

  std::vector<std::string> seen;
  std::string peer;
  std::deque<Deferred> later;
  int aborts = 0;
  int depth = 0;
  int max_depth = 0;  // of calls inside calls
  std::size_t big_bytes = 0;
};

class ServerTest : public net::LoopTest {
 protected:
  void start(ServerOptions options = {}, const net::TlsContext* tls = nullptr) {
    server = std::make_unique<Server>(loop(), handler, std::move(options), tls);
    ASSERT_TRUE(server->listen("127.0.0.1", 0).has_value());
  }
  net::RawClient connect() { return net::RawClient(server->port()); }
  // Sends one request and waits for the end of the connection.
  std::string exchange(std::string_view request) {
    net::RawClient client = connect();
    client.send(request);
    EXPECT_TRUE(run_until([&] { return client.is_over(); })) << "the connection stays open";
    EXPECT_FALSE(client.is_reset);
    return client.received;
  }
  bool wait_for(net::RawClient& client, std::string_view text, std::size_t times = 1) {
    return run_until([&] { return count_of(client.pump().received, text) >= times; });
  }
  bool wait_for_requests(std::size_t n) {
    return run_until([&] { return handler.seen.size() >= n; });
  }

  TestHandler handler;
  std::unique_ptr<Server> server;
};

inline const std::string kGet = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
inline const std::string kGetClose = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

}  // namespace tmesh::http
