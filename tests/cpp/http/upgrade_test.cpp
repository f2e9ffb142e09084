// From a request to a transport that belongs to somebody else.
#include <gtest/gtest.h>

#include <optional>

#include "cpp/http/ws_request.hpp"
#include "tests/cpp/http/server_fixture.hpp"

namespace tmesh::http {
namespace {

const std::string kUpgrade =
    "GET /ws/client HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    "Sec-WebSocket-Protocol: tunnelmesh.v1\r\nOrigin: http://a\r\nAuthorization: Bearer t\r\n\r\n";

// Accepts every valid handshake when told to; then echoes.
class Upgrader final : public Handler, public net::TransportHandler {
 public:
  void on_request(Exchange& exchange) override {
    auto checked = check_ws_request(exchange.request(), "/ws/client", {});
    if (!checked) {
      exchange.respond(ws_refusal_response(checked.error()));
      return;
    }
    accepted = std::move(*checked);
    deferred = exchange.defer(Delegate<void()>::bind<&Upgrader::on_abort>(this));
    ++requests;
  }
  bool go() {
    return deferred.upgrade(ws_switching_fields(*accepted, "tunnelmesh.v1"),
                            Delegate<void(Upgraded)>::bind<&Upgrader::on_upgraded>(this));
  }
  void on_upgraded(Upgraded value) {
    upgraded = std::move(value);
    upgraded->transport.set_handler(this);
    early.assign(upgraded->early.begin(), upgraded->early.end());
    upgraded->transport.read(true);
  }
  void on_abort() { ++aborts; }

  void on_ready(tmesh_status) override {}
  void on_data(std::span<uint8_t> data) override {
    received.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void on_eof() override { upgraded->transport.close(true); }
  void on_written() override {}
  void on_error(tmesh_status) override { upgraded->transport.close(false); }

  std::optional<WsAccepted> accepted;
  Deferred deferred;
  std::optional<Upgraded> upgraded;
  std::string early;
  std::string received;
  int requests = 0;
  int aborts = 0;
};

class UpgradeTest : public ServerTest {
 protected:
  void start_upgrader(ServerOptions options = {}) {
    server = std::make_unique<Server>(loop(), upgrader, std::move(options));
    ASSERT_TRUE(server->listen("127.0.0.1", 0).has_value());
  }
  bool wait_for_handshake(int n = 1) {
    return run_until([&] { return upgrader.requests == n; });
  }
  Upgrader upgrader;
};

TEST_F(UpgradeTest, HandsTheTransportOverBehindThe101) {
  start_upgrader();
  net::RawClient client = connect();
  client.send(kUpgrade);
  ASSERT_TRUE(wait_for_handshake());
  ASSERT_TRUE(upgrader.go());
  EXPECT_FALSE(upgrader.upgraded.has_value()) << "never from inside the call";
  ASSERT_TRUE(run_until([&] { return upgrader.upgraded.has_value(); }));
  EXPECT_FALSE(upgrader.deferred.active());
  EXPECT_EQ(upgrader.upgraded->peer.text(), "127.0.0.1");
  EXPECT_EQ(upgrader.early, "");
  EXPECT_EQ(server->connection_count(), 0u);
  EXPECT_EQ(server->stats().upgraded_count, 1u);
  ASSERT_TRUE(run_until([&] { return client.pump().received.ends_with("\r\n\r\n"); }));
  EXPECT_TRUE(client.received.starts_with("HTTP/1.1 101 Switching Protocols\r\n"));
  EXPECT_NE(client.received.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            std::string::npos);
  EXPECT_NE(client.received.find("Sec-WebSocket-Protocol: tunnelmesh.v1\r\n"), std::string::npos);
  client.send("frame");
  EXPECT_TRUE(run_until([&] { return upgrader.received == "frame"; }));
}

TEST_F(UpgradeTest, EarlyBytesAreKept) {
  start_upgrader();
  net::RawClient client = connect();
  client.send(kUpgrade + "early\r\n\r\n");
  ASSERT_TRUE(wait_for_handshake());
  client.send("+more");
  ASSERT_TRUE(upgrader.go());
  ASSERT_TRUE(run_until([&] { return (upgrader.early + upgrader.received).size() == 14; }));
  EXPECT_EQ(upgrader.early + upgrader.received, "early\r\n\r\n+more");
  EXPECT_TRUE(upgrader.early.starts_with("early\r\n\r\n"));
}

TEST_F(UpgradeTest, BytesThatComeWhileTheTokenIsCheckedAreKept) {
  start_upgrader();
  net::RawClient client = connect();
  client.send(kUpgrade);
  ASSERT_TRUE(wait_for_handshake());
  client.send("one");
  ASSERT_FALSE(run_until([&] { return upgrader.aborts > 0; }, 20'000));
  client.send("two");
  ASSERT_TRUE(upgrader.go());
  ASSERT_TRUE(run_until([&] { return (upgrader.early + upgrader.received).size() == 6; }));
  EXPECT_EQ(upgrader.early + upgrader.received, "onetwo");
}

TEST_F(UpgradeTest, FreesThePlaceOfItsAddress) {
  ServerOptions options;
  options.max_connections_per_address = 1;
  start_upgrader(options);
  net::RawClient first = connect();
  first.send(kUpgrade);
  ASSERT_TRUE(wait_for_handshake());
  ASSERT_TRUE(upgrader.go());
  ASSERT_TRUE(run_until([&] { return upgrader.upgraded.has_value(); }));
  net::RawClient second = connect();
  second.send(kUpgrade);
  EXPECT_TRUE(wait_for_handshake(2));
}

TEST_F(UpgradeTest, APeerThatClosesBeforeTheAnswerAborts) {
  start_upgrader();
  net::RawClient client = connect();
  client.send(kUpgrade);
  ASSERT_TRUE(wait_for_handshake());
  client.close();
  ASSERT_TRUE(run_until([&] { return upgrader.aborts == 1; }));
  EXPECT_FALSE(upgrader.go());
  EXPECT_FALSE(upgrader.upgraded.has_value());
}

TEST_F(UpgradeTest, DestroyingTheDeferredBeforeTheHandOverDropsTheConnection) {
  start_upgrader();
  net::RawClient client = connect();
  client.send(kUpgrade);
  ASSERT_TRUE(wait_for_handshake());
  ASSERT_TRUE(upgrader.go());
  upgrader.deferred = {};
  ASSERT_TRUE(run_until([&] { return client.is_over(); }));
  EXPECT_FALSE(upgrader.upgraded.has_value());
  EXPECT_EQ(upgrader.aborts, 0);
}

TEST_F(UpgradeTest, AnUpgradedConnectionHasNoHttpDeadline) {
  ServerOptions options;
  options.read_header_timeout_us = options.idle_timeout_us = options.body_timeout_us = 20'000;
  start_upgrader(options);
  net::RawClient client = connect();
  client.send(kUpgrade);
  ASSERT_TRUE(wait_for_handshake());
  ASSERT_TRUE(upgrader.go());
  ASSERT_FALSE(run_until([&] { return client.is_over(); }, 60'000));
  client.send("still here");
  EXPECT_TRUE(run_until([&] { return upgrader.received == "still here"; }));
}

TEST_F(UpgradeTest, ARefusedHandshakeIsAnsweredAndClosed) {
  start_upgrader();
  net::RawClient client = connect();
  client.send("GET /ws/client HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_TRUE(wait_for(client, "HTTP/1.1 426 Upgrade Required\r\n"));
  EXPECT_NE(client.received.find("\r\nUpgrade: websocket\r\n"), std::string::npos);
  net::RawClient denied = connect();
  std::string no_token = kUpgrade;
  no_token.erase(no_token.find("Authorization"), std::string("Authorization: Bearer t\r\n").size());
  denied.send(no_token + kGet);
  ASSERT_TRUE(run_until([&] { return denied.is_over(); }));
  EXPECT_TRUE(denied.received.starts_with("HTTP/1.1 401 Unauthorized\r\n"));
  EXPECT_EQ(count_of(denied.received, "HTTP/1.1"), 1u);
}

}  // namespace
}  // namespace tmesh::http
