// Opening: a silent link of a pool is hedged with another one, and two streams race.
#include "tests/cpp/client/opening_fixture.hpp"

namespace tmesh::client {
namespace {

TEST_F(OpeningTest, ASilentLinkIsHedgedAndTheLoserIsReset) {
  up_raw_and_good();
  User user(*this);
  race(user);
  far(1).answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  EXPECT_EQ(user.stream->mux, good);
  EXPECT_EQ(raw->live_count, 0u);
  expect_counts(1, 0);
  ASSERT_TRUE(run_until([&] { return raw->stats.resets_out_count == 2; }))
      << "the loser, and its predecessor";
}

TEST_F(OpeningTest, ALinkThatWakesUpMayStillWin) {
  up_raw_and_good();
  User user(*this);
  race(user);
  server.peer(0).reply(result_frame(tmesh_open_accept(), kRawId));
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  EXPECT_EQ(user.stream->mux, raw);
  expect_counts(0, 1);
  ASSERT_TRUE(run_until([&] { return far(1).over.has_value(); }));
}

TEST_F(OpeningTest, ADefiniteRefusalOfEitherIsTheAnswer) {
  up_raw_and_good();
  User user(*this);
  race(user);
  far(1).answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.is(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED));
  EXPECT_EQ(raw->live_count, 0u);
  expect_counts(1, 0);
}

TEST_F(OpeningTest, ARefusalThatAnotherTryMayNotGetIsNotTheLastWord) {
  up_raw_and_good();
  User user(*this);
  race(user);
  far(1).answer(tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true));
  settle();
  EXPECT_FALSE(user.result.has_value());
  server.peer(0).reply(
      result_frame(tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true), kRawId));
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.is(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL)) << "of the last one it is";
  expect_counts(0, 1);
}

TEST_F(OpeningTest, ARefusalOfTheFirstLeavesTheSecond) {
  up_raw_and_good();
  User user(*this);
  race(user);
  server.peer(0).reply(
      result_frame(tmesh_open_refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true), kRawId));
  settle();
  EXPECT_FALSE(user.result.has_value());
  far(1).answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  EXPECT_EQ(user.stream->mux, good);
  expect_counts(1, 0);
}

TEST_F(OpeningTest, TheEndOfOneLinkLeavesTheOther) {
  for (const bool first_ends : {true, false}) {
    server.peers.clear();
    up_raw_and_good();
    User user(*this);
    race(user);
    if (first_ends) {
      server.peers[0]->transport = {};
    } else {
      server.peers[1]->link = {};
    }
    ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
    settle();
    EXPECT_FALSE(user.result.has_value()) << first_ends;
    if (first_ends) {
      far(1).answer(tmesh_open_accept());
    } else {
      server.peer(0).reply(result_frame(tmesh_open_accept(), kRawId));
    }
    ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
    expect_counts(first_ends, !first_ends);
  }
}

TEST_F(OpeningTest, TheEndOfBothIsAgentUnavailable) {
  up_raw_and_good();
  User user(*this);
  race(user);
  server.peers[0]->transport = {};
  server.peers[1]->link = {};
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.is(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE));
  expect_counts(0, 0);
}

TEST_F(OpeningTest, AThirdLinkIsTriedWhenBothAreGoneAndNobodyHasWon) {
  up_raw_and_good();
  User user(*this);
  race(user);
  config.connections.min_count = config.connections.max_count = 3;
  pools->use_settings(config.connections);
  answer(2);
  server.peers[0]->transport = {};
  server.peers[1]->link = {};
  arrive(1, 2);
  far(2).answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  expect_counts(0, 0);
}

TEST_F(OpeningTest, ARaceThatNobodyWinsTimesOutAndBothAreReset) {
  up_raw_and_good();
  User user(*this);
  race(user);
  timers.advance(settings.open_timeout_us);
  EXPECT_TRUE(user.is(TMESH_STAGE_RELAY, TMESH_OPEN_TIMEOUT));
  EXPECT_EQ(raw->live_count, 0u);
  ASSERT_TRUE(run_until([&] { return far(1).over.has_value(); }));
}

TEST_F(OpeningTest, ALocalThatLeavesARaceResetsBoth) {
  up_raw_and_good();
  {
    User user(*this);
    race(user);
  }
  EXPECT_EQ(raw->live_count, 0u);
  ASSERT_TRUE(run_until([&] { return far(1).over.has_value(); }));
  timers.advance(settings.open_timeout_us);
}

TEST_F(OpeningTest, AnOpenThatTheSecondCannotServeIsRepeatedAsLegacy) {
  up_raw_and_good();
  User user(*this);
  race(user);
  far(1).answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.result->accepted);
  EXPECT_EQ(user.stream->mux, good) << "not on the silent link again";
  EXPECT_FALSE(user.stream->is_strict);
}

TEST_F(OpeningTest, EarlyBytesOfARaceGoToTheWinnerAlone) {
  up_raw_and_good();
  raw->config.has_early_data = true;
  User user(*this);
  race(user);
  user.send("once");
  settle();
  EXPECT_EQ(server.peer(1).link.mux()->stats.data_bytes_in, 0u);
  far(1).answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far(1).received == "once"; }));
  EXPECT_EQ(raw->stats.data_bytes_out, 0u);
}

TEST_F(OpeningTest, NoHedgeAfterEarlyBytesWereSent) {
  up_raw_and_good();
  raw->config.has_early_data = true;
  for (const bool is_at_once : {true, false}) {
    User user(*this);
    user.start(is_at_once ? "early" : "");
    ASSERT_EQ(raw->live_count, 1u);
    if (!is_at_once) user.send("early");
    settle();
    timers.advance(20 * kPatience_us);
    settle();
    EXPECT_EQ(server.peer(1).streams.size(), 1u);
  }
  EXPECT_EQ(pools->stats().hedges_count, 0u);
}

}  // namespace
}  // namespace tmesh::client
