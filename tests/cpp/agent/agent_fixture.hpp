// An agent's links against a server on the test's own loop, and targets that connect when
// the test says so.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpp/agent/agent_slot.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::agent {

using test::FakeDialer;
using test::FakeServer;
using test::Peer;
using test::PeerStream;

// The server by its name, targets as the test says.
struct RoutingDialer final : Dialer {
  RoutingDialer(net::Loop& loop, uint16_t port) : server(loop, port), second(loop, port) {}
  Result<Ticket> dial(const DialRequest& request, Delegate<void(DialResult)> done) override {
    if (request.host != "server") return targets.dial(request, done);
    return (server.is_busy() ? second : server).dial(request, done);
  }
  test::LoopbackDialer server;
  test::LoopbackDialer second;  // for two slots at once
  FakeDialer targets;
};

struct AgentTest : net::LoopTest {
  AgentTest() {
    config.id = "home";
    config.server.endpoint = {false, "server", server.port(), "/ws/agent"};
  }
  void prepare() {
    identity.emplace(AgentIdentity{config, {config.server.endpoint, &token, nullptr}, "agent-1"});
    shared.emplace(config);
  }
  // The n-th connection becomes a link and says hello.
  Peer& up(std::size_t n) {
    timers.advance(1'000'000);  // the longest wait of a first retry; far from the attempt's own timeout
    return take(n);
  }
  // The same at the present time.
  Peer& take(std::size_t n) {
    EXPECT_TRUE(run_until([&] { return server.has_request(n); })) << n;
    Peer& peer = server.peer(n);
    peer.reply(peer.switching(""));
    peer.become_link(test::mux_config(true));
    EXPECT_TRUE(run_until([&] { return peer.controls.size() == 1; }));
    EXPECT_EQ(peer.controls[0].first, TMESH_FRAME_AGENT_HELLO);
    return peer;
  }
  static std::string text_of(const std::string& json, const std::string& key) {
    const std::size_t at = json.find('"' + key + "\":\"") + key.size() + 4;
    return json.substr(at, json.find('"', at) - at);
  }
  // A stream that the server opens.
  std::unique_ptr<PeerStream> open(Peer& peer, const char* host, bool is_strict = true,
                                   uint32_t window_bytes = TMESH_WINDOW_INITIAL_BYTES) {
    tmesh_open_stream request{};
    std::strcpy(request.target_host, host);
    request.target_port = 80;
    tmesh_open_params params{&request, is_strict, window_bytes};
    tmesh_status why{};
    tmesh_stream* stream = tmesh_mux_open(peer.link.mux(), &params, &why);
    EXPECT_NE(stream, nullptr) << tmesh_code_name(why.code);
    return std::make_unique<PeerStream>(stream, request);
  }
  void settle(Peer& peer) {
    const std::size_t pongs = peer.pongs.size();
    peer.control(TMESH_FRAME_PING, "settle");
    EXPECT_TRUE(run_until([&] { return peer.pongs.size() > pongs; }));
  }

  FakeServer server{loop()};
  test::FakeTimers timers;
  RoutingDialer dialer{loop(), server.port()};
  Secret token{"secret-token-of-the-agent"};
  config::AgentConfig config;
  Policy policy;
  std::optional<AgentIdentity> identity;
  std::optional<AgentShared> shared;
};

// A target with small buffers, so that a test can fill them.
struct Target {
  Target() {
    const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int small = 4096;
    ::setsockopt(listening, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);  // inherited by the accepted end
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof address;
    EXPECT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&address), len), 0);
    EXPECT_EQ(::listen(listening, 1), 0);
    EXPECT_EQ(::getsockname(listening, reinterpret_cast<sockaddr*>(&address), &len), 0);
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    near.emplace(ntohs(address.sin_port), fd);
    far.emplace(uint16_t{0}, ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ::close(listening);
  }
  // What the agent's dial gives.
  DialResult dialled() { return FakeDialer::connected(near->release()); }

  std::optional<net::RawClient> near;
  std::optional<net::RawClient> far;
};

}  // namespace tmesh::agent
