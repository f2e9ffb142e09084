// One slot of an agent on a server that is the test's.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "cpp/agent/agent_slot.hpp"
#include "tests/cpp/agent/agent_fixture.hpp"

namespace tmesh::agent {

constexpr const char* kAck =
    R"({"agent_id":"home","epoch":1,"revision":1,"accepted":true,"capabilities":["stream_open_result.v1"]})";

struct AgentSlotTest : AgentTest {
  ~AgentSlotTest() override { slot.reset(); }
  void make() {
    prepare();
    slot.emplace(loop(), timers, dialer, *identity, *shared, policy, 1);
  }
  void start() {
    make();
    slot->start();
    up(0);
  }
  // A server that writes its frames by hand; streams 1 to count are being dialled.
  void start_with_streams(uint32_t count, uint32_t window_bytes) {
    make();
    slot->start();
    timers.advance(0);
    ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
    Peer& peer = server.peer(0);
    peer.reply(peer.switching(""));
    for (uint32_t id = 1; id <= count; id++) {
      peer.reply(test::raw_frame(TMESH_FRAME_OPEN_STREAM,
                                 R"({"protocol":"tcp","target_host":"a","target_port":80})", id,
                                 window_bytes));
    }
    ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == count; }));
  }
  // The slot has noticed that its link is over and waits for the next attempt.
  void settle_down() {
    ASSERT_TRUE(run_until([&] { return timers.count() > 0; }));
  }

  std::optional<AgentSlot> slot;
};

}  // namespace tmesh::agent
