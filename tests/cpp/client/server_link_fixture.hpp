// A link of the client to a server that is the test's.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

#include "core/proto/metadata.h"
#include "cpp/client/server_link.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {

using test::FakeServer;
using test::PeerStream;

class ServerLinkTest : public net::LoopTest {
 protected:
  ServerLinkTest() : server(loop()), dialer(loop(), server.port()) {
    identity.endpoint.url = {false, "localhost", server.port(), "/ws/client"};
    identity.endpoint.token = &token;
    identity.instance_id = "client-0123456789abcdef0123456789abcdef";
    identity.started_at_us = 1'700'000'000'000'000;
  }
  void start() {
    link.emplace(loop(), dialer, identity, "home", 3);
    link->start();
    ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
  }
  // The n-th request is answered; the link takes streams then.
  void up(tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA, std::size_t n = 0) {
    ASSERT_TRUE(run_until([&] { return server.has_request(n); }));
    server.peer(n).upgrade(subprotocol);
    ASSERT_TRUE(run_until([&] { return refusal("") != TMESH_E_CLOSED; }));
  }
  void up_from_start(tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA) {
    start();
    up(subprotocol);
  }
  static OpenRequest request_for(std::string_view host, uint16_t port) {
    OpenRequest out;
    out.host = host;
    out.port = port;
    return out;
  }
  // Why an open is refused; OK when it is not (and then it is given up again).
  static tmesh_code refusal(ServerLink& of, std::string_view host, uint16_t port = 80) {
    auto opened = of.open(request_for(host, port), true);
    if (!opened) return opened.error().code;
    tmesh_stream_release(opened->stream);
    return TMESH_OK;
  }
  tmesh_code refusal(std::string_view host = "target", uint16_t port = 80) {
    return refusal(*link, host, port);
  }
  OpenedStream open(bool allow_strict = true) {
    auto opened = link->open(request_for("target", 443), allow_strict);
    EXPECT_TRUE(opened.has_value());
    tmesh_stream_attach(opened->stream, nullptr, [](void*, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) != 0) tmesh_stream_release(s);
    });
    return *opened;
  }
  std::string offer() { return server.last().header("Sec-WebSocket-Protocol"); }
  static std::string encode(const tmesh_client_metadata_ack& ack) {
    std::string out(TMESH_METADATA_MAX_BYTES, '\0');
    std::size_t len = 0;
    EXPECT_TRUE(tmesh_is_ok(tmesh_client_metadata_ack_encode(&ack, out.data(), out.size(), &len)));
    out.resize(len);
    return out;
  }

  FakeServer server;
  test::LoopbackDialer dialer;
  Secret token{"t"};
  config::ClientConfig config;
  ClientIdentity identity{config, {}, {}, 0};
  std::optional<ServerLink> link;
};

}  // namespace tmesh::client
