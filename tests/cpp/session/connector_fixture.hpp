// A Connector towards a server of the test's, through a dialer that leads to it.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "cpp/session/connector.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::session {

using test::FakeServer;

inline constexpr uint32_t kAll = TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL;

class ConnectorTest : public net::LoopTest {
 protected:
  void serve(const net::TlsContext* context = nullptr) {
    server.emplace(loop(), context);
    dialer.emplace(loop(), server->port());
  }
  void make(bool has_offer = true) {
    endpoint.url.host = host;
    endpoint.url.port = server ? server->port() : 1;
    endpoint.url.path = "/ws/client";
    endpoint.url.is_tls = tls.has_value();
    endpoint.tls = tls ? &*tls : nullptr;
    make(*dialer, has_offer);
  }
  void make(Dialer& with, bool has_offer) {
    endpoint.token = &token;
    connector = std::make_unique<Connector>(loop(), timers, with, endpoint, has_offer, kAll,
                                            Connector::Done::bind<&ConnectorTest::on_done>(this));
  }
  void start(bool has_offer = true) {
    make(has_offer);
    connector->start();
    EXPECT_EQ(done_count, 0u) << "never from inside start()";
  }
  // Up to the request, which waits at the server.
  void request() {
    serve();
    start();
    ASSERT_TRUE(run_until([&] { return server->has_request(0); }));
  }
  // The answer, and what came of it.
  void answer(std::string_view text) {
    server->last().reply(text);
    ASSERT_TRUE(run_until([&] { return done_count > 0; }));
  }
  void on_done(std::expected<Connected, ConnectFailure> result) {
    done_count++;
    if (result) {
      connected = std::move(*result);
    } else {
      failure = result.error();
    }
    if (destroys_in_done) connector.reset();
  }
  void expect_failure(std::string_view stage, unsigned code, int http_status = 0) {
    ASSERT_TRUE(failure.has_value());
    EXPECT_EQ(done_count, 1u);
    EXPECT_EQ(failure->stage, stage);
    EXPECT_EQ(failure->status.code, code) << failure->text;
    EXPECT_EQ(failure->status.scope, TMESH_SCOPE_SESSION);
    EXPECT_EQ(failure->http_status, http_status);
    EXPECT_NE(std::string_view(failure->text), "");
    EXPECT_FALSE(connected.has_value());
    // Nothing may come later, whoever keeps the Connector.
    timers.advance(2 * Connector::kTimeout_us);
    EXPECT_FALSE(run_until([&] { return done_count > 1; }, 20'000));
    EXPECT_EQ(timers.count(), 0u);
  }

  test::FakeTimers timers;
  Secret token{"the-token"};
  std::string host = "localhost";
  std::optional<net::TlsContext> tls;
  std::optional<FakeServer> server;
  std::optional<test::LoopbackDialer> dialer;
  ServerEndpoint endpoint;
  std::unique_ptr<Connector> connector;
  std::optional<Connected> connected;
  std::optional<ConnectFailure> failure;
  std::size_t done_count = 0;
  bool destroys_in_done = false;
};

}  // namespace tmesh::session
