// How many links a pool of the client has: it grows and shrinks, within bounds that may change.
#include "tests/cpp/client/pools_fixture.hpp"

namespace tmesh::client {
namespace {

// Requirement J11.
TEST_F(PoolsTest, ABusyPoolGrowsAndAnIdleOneShrinks) {
  config.connections.high_watermark_count = 4;
  config.connections.low_watermark_count = 2;
  up(1, 2);
  std::vector<tmesh_stream*> streams;
  for (int i = 0; i < 4; i++) streams.push_back(open());
  timers.advance(kEvaluation_us);
  EXPECT_EQ(pools->stats().grown_count, 1u);
  answer(1);
  for (int i = 0; i < 4; i++) streams.push_back(open());
  ASSERT_TRUE(run_until([&] { return server.peer(1).streams.size() == 4; }));
  tmesh_mux* const second = streams.back()->mux;
  timers.advance(10 * kEvaluation_us);
  EXPECT_EQ(links().size(), 2u) << "max";
  // All but one stream of the second link end.
  for (int i = 0; i < 7; i++) release(streams[i]);
  settle();
  timers.advance(2 * kEvaluation_us);
  EXPECT_EQ(pools->stats().shrunk_count, 1u);
  EXPECT_EQ(links().size(), 2u) << "it still carries a stream";
  for (int i = 0; i < 3; i++) EXPECT_NE(open()->mux, second);
  release(streams[7]);
  settle();
  timers.advance(SessionPools::kSweepEvery_us);
  EXPECT_EQ(links().size(), 1u);
  ASSERT_TRUE(run_until([&] { return server.peer(1).down.has_value(); }));
  timers.advance(20 * kEvaluation_us);
  EXPECT_EQ(links().size(), 1u) << "min";
}

TEST_F(PoolsTest, APoolThatGrowsTakesADrainingLinkBackFirst) {
  config.connections.high_watermark_count = 2;
  config.connections.low_watermark_count = 2;
  config.connections.cooldown_us = 0;
  up(2, 2);
  std::vector<tmesh_stream*> streams{open(), open()};
  config.connections.min_count = 1;
  pools->use_settings(config.connections);
  timers.advance(2 * kEvaluation_us);
  EXPECT_EQ(pools->stats().shrunk_count, 1u);
  tmesh_mux* const stays = open()->mux;
  EXPECT_EQ(open()->mux, stays);
  timers.advance(kEvaluation_us);
  EXPECT_EQ(pools->stats().grown_count, 1u);
  settle();
  EXPECT_EQ(dialer.count(), 2u) << "never more than max";
  EXPECT_NE(open()->mux, stays);
}

TEST_F(PoolsTest, ADrainingLinkThatIsDownIsConnectedWhenItIsTakenBack) {
  up(2, 2);
  open();
  open();
  ASSERT_TRUE(
      run_until([&] { return server.peer(0).streams.size() == 1 && server.peer(1).streams.size() == 1; }));
  config.connections.min_count = config.connections.max_count = 1;
  pools->use_settings(config.connections);
  tmesh_mux* const stays = open()->mux;
  EXPECT_EQ(open()->mux, stays);
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() + server.peer(1).streams.size() == 4; }));
  server.peers[server.peer(0).streams.size() == 1 ? 0 : 1]->link = {};
  settle();
  config.connections.min_count = config.connections.max_count = 2;
  pools->use_settings(config.connections);
  answer(2);
  EXPECT_NE(open()->mux, stays);
}

TEST_F(PoolsTest, NewBoundsHoldAtOnce) {
  up(1, 1);
  config.connections.min_count = 3;
  config.connections.max_count = 4;
  pools->use_settings(config.connections);
  ASSERT_TRUE(run_until([&] { return server.has_request(1) && server.has_request(2); }));
  answer(1);
  answer(2);
  config.connections.min_count = config.connections.max_count = 1;
  pools->use_settings(config.connections);
  timers.advance(SessionPools::kSweepEvery_us);
  ASSERT_EQ(links().size(), 1u);
  EXPECT_EQ(links()[0].slot.number, 1u) << "the highest go first";
}

TEST_F(PoolsTest, AnOutageNeitherGrowsNorShrinksAPool) {
  two_of_which_one_may_go();
  server.close();
  for (auto& peer : server.peers) peer->link = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 0; }));
  timers.advance(10 * kEvaluation_us);
  EXPECT_EQ(links().size(), 2u);
  EXPECT_EQ(pools->stats().grown_count + pools->stats().shrunk_count, 0u);
}

// Else the client could open nothing until the link that is away came back.
TEST_F(PoolsTest, ALinkThatIsAwayGoesBeforeOneThatTakesStreams) {
  two_of_which_one_may_go();
  server.peer(0).link = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
  timers.advance(3 * kEvaluation_us);
  EXPECT_EQ(pools->stats().shrunk_count, 1u);
  EXPECT_EQ(refusal(), TMESH_OK);
}

// Ties need round-trip times, and a fresh link has none for the 20 s of the first heartbeat.
TEST_F(PoolsTest, LinksOfAPoolAreMeasuredAtOnceAndAtEveryEvaluation) {
  up(2, 4);
  ASSERT_TRUE(run_until([&] { return measured_count() == 2; }));
  const auto pings = [&] { return server.peer(0).link.mux()->stats.frames_in_count; };
  uint64_t before = pings();
  settle();
  EXPECT_EQ(pings(), before);
  timers.advance(kEvaluation_us);
  ASSERT_TRUE(run_until([&] { return pings() == before + 1; }));
  config.connections.evaluation_interval_us = 100'000;
  pools->use_settings(config.connections);
  before = pings();
  for (int i = 0; i < 10; i++) {
    timers.advance(100'000);
    settle();
  }
  EXPECT_EQ(pings(), before + 1) << "once a second is often enough";
}

TEST_F(PoolsTest, APoolThatCannotGrowPaysForNoMeasurement) {
  up(1, 1);
  timers.advance(3 * kEvaluation_us);
  settle();
  EXPECT_EQ(measured_count(), 0u);
}

}  // namespace
}  // namespace tmesh::client
