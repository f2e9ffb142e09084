#include "cpp/agent/agent_pool.hpp"

#include <gtest/gtest.h>

#include "tests/cpp/agent/agent_fixture.hpp"
#include "tests/cpp/session/captured_log.hpp"

namespace tmesh::agent {
namespace {

using test::CapturedLog;

struct AgentPoolTest : AgentTest {
  AgentPoolTest() {
    config.connections.min_count = 1;
    config.connections.max_count = 3;
    config.connections.high_watermark_count = 2;
    config.connections.low_watermark_count = 1;
    config.connections.evaluation_interval_us = 10'000'000;
    config.connections.cooldown_us = 0;
  }
  ~AgentPoolTest() override { pool.reset(); }

  // The slots of the beginning are up and accepted.
  void start() {
    prepare();
    pool.emplace(loop(), timers, dialer, *identity, *shared, policy);
    pool->start();
    timers.advance(0);
    for (std::size_t i = 0; i < config.connections.min_count; i++) accept(take(i));
  }
  void accept(Peer& peer) {
    peer.control(TMESH_FRAME_AGENT_METADATA_ACK,
                 R"({"agent_id":"home","epoch":1,"revision":1,"accepted":true,)" + ack_more +
                     R"("connection_pool_supported":)" + (supports_pool ? "true" : "false") +
                     R"(,"capabilities":[)" +
                     (is_ours ? R"("stream_open_result.v1","stream_early_data.v1","stream_window_growth.v1")"
                              : R"("stream_open_result.v1")") +
                     "]}");
    settle(peer);
  }
  void evaluate(int times = 1) {
    for (int i = 0; i < times; i++) timers.advance(config.connections.evaluation_interval_us);
  }
  // Opens that wait for their targets on this link.
  void load(Peer& peer, std::size_t count) {
    const std::size_t before = dialer.targets.running().size();
    for (std::size_t i = 0; i < count; i++) streams.push_back(open(peer, "busy"));
    ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == before + count; }));
  }
  std::vector<uint32_t> numbers() const {
    std::vector<uint32_t> out;
    for (const auto& slot : pool->slots()) out.push_back(slot->number());
    return out;
  }
  uint64_t decided(ScaleReason reason) const {
    return pool->stats().decisions_count[static_cast<std::size_t>(reason)];
  }
  // Two links, the second one made by the pool; nothing runs.
  void grow_to_two() {
    start();
    load(server.peer(0), 2);
    evaluate(2);
    timers.advance(0);
    accept(take(1));
    streams.clear();
    ASSERT_TRUE(run_until([&] { return pool->streams_count() == 0; }));
    ASSERT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
  }

  std::optional<AgentPool> pool;
  std::vector<std::unique_ptr<PeerStream>> streams;
  bool is_ours = true;
  bool supports_pool = true;
  std::string ack_more;
};

TEST_F(AgentPoolTest, KeepsItsMinimumAndLooksAtNothingWhenThatIsTheMaximum) {
  config.connections.min_count = config.connections.max_count = 2;
  start();
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(server.count(), 2u);
  EXPECT_EQ(timers.count(), 0u) << "a fixed pool has nothing to evaluate";
}

TEST_F(AgentPoolTest, GrowsUnderLoadAndSaysWhy) {
  CapturedLog log;
  start();
  load(server.peer(0), 2);
  evaluate();
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1})) << "once is not enough";
  evaluate();
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(log.count("pool_grow slot=2 reason=active_streams slots=2"), 1u);
  EXPECT_EQ(decided(ScaleReason::active_streams), 1u);
  timers.advance(0);
  accept(take(1));
  EXPECT_EQ(server.count(), 2u);
}

TEST_F(AgentPoolTest, WaitsForTheLinkThatIsOnItsWay) {
  start();
  load(server.peer(0), 2);
  evaluate(4);
  EXPECT_EQ(numbers().size(), 2u) << "its server has not accepted it yet";
}

TEST_F(AgentPoolTest, AServerThatSaysNothingOfPoolsGetsTheMinimum) {
  supports_pool = false;
  start();
  load(server.peer(0), 8);
  evaluate(5);
  EXPECT_EQ(numbers().size(), 1u);
}

// LESSONS R25.
TEST_F(AgentPoolTest, TheServersCeilingIsKept) {
  ack_more = R"("max_connections_per_agent":1,)";
  start();
  load(server.peer(0), 8);
  evaluate(5);
  EXPECT_EQ(numbers().size(), 1u);
}

TEST_F(AgentPoolTest, SlowOpensAreSeen) {
  config.connections.high_watermark_count = 100;
  start();
  for (int round = 0; round < 2; round++) {
    auto stream = open(server.peer(0), "slow");
    ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
    timers.advance(1'000'000);
    Target target;
    dialer.targets.end("slow", target.dialled());
    stream->release();
    ASSERT_TRUE(run_until([&] { return pool->streams_count() == 0; }));
    timers.advance(9'000'000);
  }
  EXPECT_EQ(decided(ScaleReason::open_p95), 1u);
}

TEST_F(AgentPoolTest, SlowFirstBytesOfTargetsAreSeen) {
  config.connections.high_watermark_count = 100;
  start();
  for (int round = 0; round < 2; round++) {
    auto stream = open(server.peer(0), "slow");
    ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
    Target target;
    dialer.targets.end("slow", target.dialled());
    timers.advance(1'000'000);
    target.far->send("x");
    ASSERT_TRUE(run_until([&] { return stream->received == "x"; }));
    stream->release();
    ASSERT_TRUE(run_until([&] { return pool->streams_count() == 0; }));
    timers.advance(9'000'000);
  }
  EXPECT_EQ(decided(ScaleReason::ttfb_p95), 1u);
  EXPECT_EQ(decided(ScaleReason::open_p95), 0u);
}

TEST_F(AgentPoolTest, DialsThatWaitAreSeen) {
  config.connections.high_watermark_count = 100;
  config.streams.concurrent_dials_max = 1;
  start();
  load(server.peer(0), 1);
  auto second = open(server.peer(0), "b");
  settle(server.peer(0));
  timers.advance(40'000);
  AgentSlot& slot = *pool->slots()[0];
  EXPECT_EQ(slot.pending_dials_count(), 1u);
  EXPECT_EQ(slot.oldest_dial_wait_us(), 40'000u);
  EXPECT_EQ(slot.load().pending_opens_count, 2u);
  EXPECT_EQ(slot.load().active_count, 0u);
  EXPECT_EQ(slot.load().queue_pressure_percent, 0u) << "1 of 128";
}

TEST_F(AgentPoolTest, AFullDialQueueIsPressure) {
  config.streams.concurrent_dials_max = 1;
  config.streams.pending_dials_max = 5;
  start();
  for (int i = 0; i < 5; i++) streams.push_back(open(server.peer(0), "x"));
  settle(server.peer(0));
  EXPECT_EQ(pool->slots()[0]->load().queue_pressure_percent, 80u);
}

// Requirement J11.
TEST_F(AgentPoolTest, AnIdleSlotEndsAfterItsServerWasTold) {
  CapturedLog log;
  grow_to_two();
  evaluate(2);
  EXPECT_EQ(decided(ScaleReason::low_load), 1u);
  EXPECT_EQ(log.count("pool_shrink slot=2 reason=low_load streams=0"), 1u);
  // An open that crosses the GOAWAY.
  auto crossing = open(server.peer(1), "late");
  ASSERT_TRUE(run_until([&] { return server.peer(1).goaways_count == 1; }));
  EXPECT_EQ(server.peer(0).goaways_count, 0u);
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  timers.advance(60'000'000);
  EXPECT_EQ(numbers().size(), 2u) << "it ends with its last stream";
  Target target;
  dialer.targets.end("late", target.dialled());
  target.far->send("kept");
  ASSERT_TRUE(run_until([&] { return crossing->received == "kept"; }));
  crossing->release();
  ASSERT_TRUE(run_until([&] { return pool->streams_count() == 0; }));
  timers.advance(AgentPool::kSweepEvery_us);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1}));
  ASSERT_TRUE(run_until([&] { return server.peer(1).down.has_value(); }));
  EXPECT_FALSE(server.peer(0).down.has_value());
}

TEST_F(AgentPoolTest, ASlotLingersForOpensThatAreOnTheirWay) {
  grow_to_two();
  evaluate(2);
  timers.advance(AgentSlot::kLinger_us - AgentPool::kSweepEvery_us);
  EXPECT_EQ(numbers().size(), 2u);
  timers.advance(AgentPool::kSweepEvery_us);
  EXPECT_EQ(numbers().size(), 1u);
}

TEST_F(AgentPoolTest, AStreamOutlivesTheShrinkOfItsLink) {
  config.connections.low_watermark_count = 2;
  grow_to_two();
  auto stream = open(server.peer(1), "long");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  Target target;
  dialer.targets.end("long", target.dialled());
  ASSERT_TRUE(run_until([&] { return stream->stream->state == TMESH_STREAM_OPEN; }));
  evaluate(2);
  EXPECT_EQ(decided(ScaleReason::low_load), 1u);
  timers.advance(600'000'000);
  stream->send("ping");
  ASSERT_TRUE(run_until([&] { return target.far->pump().received == "ping"; }));
  target.far->send("pong");
  ASSERT_TRUE(run_until([&] { return stream->received == "pong"; }));
  EXPECT_FALSE(stream->over.has_value());
  EXPECT_EQ(numbers().size(), 2u);
}

// What a deployed server makes of a GOAWAY from an agent is not known (WIRE D).
TEST_F(AgentPoolTest, ADeployedServerIsNotToldAndStillServed) {
  is_ours = false;
  config.connections.low_watermark_count = 2;
  grow_to_two();
  auto running = open(server.peer(1), "long");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  evaluate(2);
  EXPECT_EQ(decided(ScaleReason::low_load), 1u);
  auto more = open(server.peer(1), "more");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 2; }));
  settle(server.peer(1));
  EXPECT_EQ(server.peer(1).goaways_count, 0u);
  running->release();
  more->release();
  ASSERT_TRUE(run_until([&] { return pool->streams_count() == 0; }));
  timers.advance(AgentSlot::kLinger_us);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1}));
  ASSERT_TRUE(run_until([&] { return server.peer(1).down.has_value(); }));
}

TEST_F(AgentPoolTest, ASlotThatEndsDoesNotReconnect) {
  grow_to_two();
  evaluate(2);
  server.peer(1).link.close();
  ASSERT_TRUE(
      run_until([&] { return pool->slots()[1]->status().state == session::SlotStatus::State::draining; }));
  settle(server.peer(0));
  timers.advance(60'000'000);
  EXPECT_EQ(dialer.server.count + dialer.second.count, 2u);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1}));
}

TEST_F(AgentPoolTest, ANewSlotTakesTheLowestFreeNumber) {
  grow_to_two();
  evaluate(2);
  timers.advance(AgentSlot::kLinger_us);
  ASSERT_EQ(numbers(), (std::vector<uint32_t>{1}));
  load(server.peer(0), 2);
  evaluate(2);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
}

TEST_F(AgentPoolTest, ALostLinkComesBackInItsPlace) {
  config.connections.min_count = 2;
  start();
  server.peer(1).link.close();
  ASSERT_TRUE(
      run_until([&] { return !pool->slots()[0]->load().is_ready || !pool->slots()[1]->load().is_ready; }));
  accept(up(2));
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(pool->slots()[0]->load().is_ready && pool->slots()[1]->load().is_ready);
}

TEST_F(AgentPoolTest, NewBoundsHoldAtOnce) {
  config.connections.min_count = config.connections.max_count = 1;
  start();
  config.connections.min_count = config.connections.max_count = 3;
  pool->use_settings(config.connections);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2, 3}));
  timers.advance(0);
  accept(take(1));
  accept(take(2));
  const auto is_running = [&](std::size_t n) {
    return pool->slots()[n]->load().is_ready && !pool->slots()[n]->is_retiring();
  };
  EXPECT_TRUE(is_running(0) && is_running(1) && is_running(2));
  config.connections.min_count = 1;
  config.connections.max_count = 2;
  pool->use_settings(config.connections);
  EXPECT_TRUE(is_running(0) && is_running(1));
  EXPECT_TRUE(pool->slots()[2]->is_retiring());
  timers.advance(AgentSlot::kLinger_us);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(decided(ScaleReason::low_load), 0u) << "nothing was evaluated";
}

TEST_F(AgentPoolTest, AFixedPoolThatMayGrowIsLookedAtAndTheOtherWayRound) {
  config.connections.max_count = 1;
  start();
  config.connections.max_count = 3;
  pool->use_settings(config.connections);
  load(server.peer(0), 2);
  evaluate(2);
  EXPECT_EQ(numbers(), (std::vector<uint32_t>{1, 2}));
  timers.advance(0);
  accept(take(1));
  config.connections.min_count = config.connections.max_count = 2;
  pool->use_settings(config.connections);
  EXPECT_EQ(timers.count(), 0u) << "a fixed pool has nothing to evaluate";
}

TEST_F(AgentPoolTest, ADrainStopsTheLookingToo) {
  start();
  load(server.peer(0), 2);
  pool->drain();
  config.connections.min_count = 2;
  pool->use_settings(config.connections);
  evaluate(5);
  EXPECT_EQ(numbers().size(), 1u);
  EXPECT_EQ(pool->streams_count(), 2u);
}

}  // namespace
}  // namespace tmesh::agent
