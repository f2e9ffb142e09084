// A Slot on a clock that jumps, a server that answers as told, and a role that keeps count.
#pragma once

#include <map>
#include <optional>

#include "cpp/session/slot.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::session {

using test::FakeServer;

inline constexpr uint32_t kAll = TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL;
inline constexpr uint64_t kMinute_us = 60'000'000;

struct Role : SlotRole {
  tmesh_mux_config mux_config(tmesh_subprotocol subprotocol) override {
    return test::mux_config(is_opener, tmesh_subprotocol_is_strict(subprotocol),
                            tmesh_subprotocol_has_windows(subprotocol));
  }
  void on_session(Session& s, tmesh_subprotocol subprotocol) override {
    made.push_back(&s);
    subprotocols.push_back(subprotocol);
    over_count[&s] = 0;  // an address may come again
  }
  void on_session_over(Session& s) override {
    EXPECT_EQ(over_count.count(&s), 1u);
    EXPECT_EQ(++over_count[&s], 1) << "once per session";
    overs_count++;
  }
  void on_open(Session&, tmesh_stream* stream, const tmesh_open_stream&) override {
    tmesh_stream_reset(stream);
    tmesh_stream_release(stream);
  }
  tmesh_status on_control(Session&, const tmesh_frame_header& header, std::span<const uint8_t>) override {
    controls_count += header.type != 0;
    return tmesh_ok();
  }

  SessionLife life() override { return session_life; }

  SessionLife session_life = kDialerLife;  // on the loop's own clock
  bool is_opener = true;
  std::vector<Session*> made;
  std::vector<tmesh_subprotocol> subprotocols;
  std::map<Session*, int> over_count;
  std::size_t overs_count = 0;
  std::size_t controls_count = 0;
};

class SlotTest : public net::LoopTest {
 protected:
  SlotTest() : server(loop()), dialer(loop(), server.port()) {
    endpoint.url = {false, "localhost", server.port(), "/ws/client"};
    endpoint.token = &token;
  }
  void make(bool has_offer = true) {
    role.is_opener = has_offer;
    slot.emplace(loop(), timers, dialer, endpoint, has_offer, kAll, 1, role);
  }
  void start(bool has_offer = true) {
    make(has_offer);
    slot->start();
    timers.advance(0);
  }
  // The n-th request from 0 arrives.
  void request(std::size_t n) {
    ASSERT_TRUE(run_until([&] { return server.has_request(n); })) << "request " << n;
    ASSERT_EQ(server.count(), n + 1);
  }
  // ... and is answered; then the session is there.
  void up(std::size_t n, tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA) {
    request(n);
    const std::size_t sessions = role.made.size();
    server.peer(n).upgrade(subprotocol);
    ASSERT_TRUE(run_until([&] { return role.made.size() == sessions + 1; }));
    EXPECT_EQ(slot->ready(), role.made.back());
  }
  // The n-th request is refused with this status, and the Connector has noticed.
  void refuse(std::size_t n, int status) {
    request(n);
    server.peer(n).reply("HTTP/1.1 " + std::to_string(status) + " No\r\nContent-Length: 0\r\n\r\n");
    ASSERT_TRUE(run_until([&] { return server.peer(n).is_eof || server.peer(n).down.has_value(); }));
  }
  void down(std::size_t n) {
    server.peers[n]->link = {};
    ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  }
  // No dial begins in this time, nor when the loop had every chance.
  void expect_quiet(uint64_t us = 0) {
    const std::size_t before = dialer.count;
    timers.advance(us);
    EXPECT_FALSE(run_until([&] { return dialer.count != before; }, 10'000));
  }
  // Jumps to the next attempt; how long that was (in steps of 10 ms).
  uint64_t wait_us() {
    const std::size_t before = dialer.count;
    uint64_t waited_us = 0;
    for (; dialer.count == before && waited_us < kMinute_us; waited_us += 10'000) timers.advance(10'000);
    EXPECT_EQ(dialer.count, before + 1);
    return waited_us;
  }
  bool offers(std::size_t n) { return !server.peer(n).header("Sec-WebSocket-Protocol").empty(); }
  tmesh_stream* open_stream(Session& session) {
    tmesh_open_stream open{};
    open.protocol = TMESH_OPEN_TCP;
    open.target_host[0] = 'h';
    open.target_port = 80;
    tmesh_open_params params{&open, false, 0};
    tmesh_status why{};
    tmesh_stream* const stream = tmesh_mux_open(session.mux(), &params, &why);
    EXPECT_NE(stream, nullptr);
    tmesh_stream_attach(stream, this, [](void* self, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) == 0) return;
      static_cast<SlotTest*>(self)->streams_over_count++;
      tmesh_stream_release(s);
    });
    return stream;
  }

  test::FakeTimers timers;
  Secret token{"t"};
  FakeServer server;
  test::LoopbackDialer dialer;
  ServerEndpoint endpoint;
  Role role;
  std::optional<Slot> slot;
  std::size_t streams_over_count = 0;
};

}  // namespace tmesh::session
