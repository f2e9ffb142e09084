// The same server behind TLS.
#include <gtest/gtest.h>

#include <optional>

#include "tests/cpp/http/server_fixture.hpp"
#include "tests/cpp/net/tls_files.hpp"

namespace tmesh::http {
namespace {

struct TlsClient : net::TransportHandler {
  void on_ready(tmesh_status st) override {
    ready = st;
    if (tmesh_is_ok(st)) transport.read(true);
  }
  void on_data(std::span<uint8_t> data) override {
    received.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  void on_eof() override { is_eof = true; }
  void on_written() override {}
  void on_error(tmesh_status) override { has_error = true; }

  net::Transport transport;
  std::optional<tmesh_status> ready;
  std::string received;
  bool is_eof = false;
  bool has_error = false;
};

class TlsServerTest : public ServerTest {
 protected:
  void start_tls(ServerOptions options = {}) {
    auto context = net::TlsContext::server(net::tls_server_files());
    ASSERT_TRUE(context.has_value()) << context.error();
    server_tls = std::move(*context);
    client_tls = std::move(*net::TlsContext::client(net::tls_client_files()));
    start(std::move(options), &*server_tls);
  }
  void connect_tls(TlsClient& client) {
    net::RawClient raw(server->port());
    auto made = net::Transport::connect(loop(), raw.release(), &*client_tls, "localhost", client);
    ASSERT_TRUE(made.has_value());
    client.transport = std::move(*made);
    ASSERT_TRUE(run_until([&] { return client.ready.has_value(); }));
    ASSERT_TRUE(tmesh_is_ok(*client.ready));
  }
  static void send(TlsClient& client, std::string_view text) {
    bool is_done = false;
    std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    ASSERT_TRUE(tmesh_is_ok(client.transport.try_write(bytes, &is_done)));
    ASSERT_TRUE(is_done);
  }

  std::optional<net::TlsContext> server_tls;
  std::optional<net::TlsContext> client_tls;
};

TEST_F(TlsServerTest, AnswersAndClosesCleanly) {
  start_tls();
  TlsClient client;
  connect_tls(client);
  send(client, kGet + kGetClose);
  ASSERT_TRUE(run_until([&] { return client.is_eof; }));
  EXPECT_EQ(count_of(client.received, "HTTP/1.1 200 OK"), 2u);
  EXPECT_FALSE(client.has_error) << "the end must be a close_notify, not a cut";
}

TEST_F(TlsServerTest, LargeAnswersArriveWhole) {
  handler.big_bytes = 1'000'000;
  start_tls();
  TlsClient client;
  connect_tls(client);
  send(client, "GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return client.is_eof; }));
  EXPECT_EQ(client.received.size() - client.received.find("\r\n\r\n") - 4, 1'000'001u);
}

TEST_F(TlsServerTest, AStalledHandshakeIsClosed) {
  ServerOptions options;
  options.read_header_timeout_us = 50'000;
  start_tls(options);
  net::RawClient silent = connect();
  ASSERT_TRUE(run_until([&] { return silent.is_over(); }));
  EXPECT_EQ(server->connection_count(), 0u);
}

TEST_F(TlsServerTest, PlainHttpOnTheTlsPortEndsTheConnectionOnly) {
  start_tls();
  net::RawClient plain = connect();
  plain.send(kGet);
  ASSERT_TRUE(run_until([&] { return plain.is_over(); }));
  EXPECT_TRUE(handler.seen.empty());
  TlsClient client;
  connect_tls(client);
}

TEST_F(TlsServerTest, AReloadServesNewConnectionsAndKeepsOldOnes) {
  start_tls();
  TlsClient old_client;
  connect_tls(old_client);
  ASSERT_TRUE(server_tls->reload().has_value());
  TlsClient new_client;
  connect_tls(new_client);
  send(old_client, kGet);
  send(new_client, kGet);
  EXPECT_TRUE(run_until([&] {
    return count_of(old_client.received, "GET /|\n") == 1 && count_of(new_client.received, "GET /|\n") == 1;
  }));
}

}  // namespace
}  // namespace tmesh::http
