// Slot: sessions that are put aside, replaced and drained.
#include "tests/cpp/session/slot_fixture.hpp"

namespace tmesh::session {
namespace {

TEST_F(SlotTest, AnIdleGoawayPutsTheSessionAsideAndASuccessorComesAtOnce) {
  start();
  up(0);
  timers.advance(kMinute_us);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  EXPECT_EQ(role.overs_count, 0u) << "it drains";
  timers.advance(0);
  up(1);
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u) << "nothing was left to drain";
  EXPECT_EQ(role.over_count[role.made[0]], 1);
  ASSERT_TRUE(run_until([&] { return server.peer(0).down.has_value(); }));
  EXPECT_EQ(slot->ready(), role.made[1]);
}

TEST_F(SlotTest, ADrainingSessionLivesUntilItsLastStreamIsReleased) {
  start();
  up(0);
  timers.advance(kMinute_us);
  tmesh_stream* const stream = open_stream(*role.made[0]);
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() == 1; }));
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  up(1);
  timers.advance(10 * kMinute_us);
  EXPECT_EQ(role.overs_count, 0u);
  EXPECT_EQ(streams_over_count, 0u);
  tmesh_stream_release(stream);
  // The RESET has to leave first.
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.front().over.has_value(); }));
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u);
  EXPECT_EQ(timers.count(), 0u) << "the sweep has ended too";
}

TEST_F(SlotTest, AStreamThatIsOverKeepsADrainingSessionUntilItIsReleased) {
  // Its last bytes may still be on their way to the other end of its splice.
  start();
  up(0);
  timers.advance(kMinute_us);
  tmesh_stream* const stream = open_stream(*role.made[0]);
  tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() == 1; }));
  server.peer(0).streams.front().release();
  ASSERT_TRUE(run_until([&] { return stream->state == TMESH_STREAM_RESET; }));
  slot->rotate("test");
  timers.advance(0);
  up(1);
  timers.advance(kMinute_us);
  EXPECT_EQ(role.made[0]->live_streams_count(), 0u);
  EXPECT_EQ(role.overs_count, 0u);
  tmesh_stream_release(stream);
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, ADrainingSessionThatGoesDownIsOverOnce) {
  start();
  up(0);
  timers.advance(kMinute_us);
  open_stream(*role.made[0]);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  up(1);
  server.peers[0]->link = {};
  server.peers[0]->streams.clear();
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  EXPECT_EQ(streams_over_count, 1u);
  expect_quiet(kMinute_us);
  EXPECT_EQ(slot->ready(), role.made[1]) << "the current one is not touched";
}

TEST_F(SlotTest, AServerThatSendsEverybodyAwayIsNotCalledInACircle) {
  start();
  for (std::size_t n = 0; n < 7; n++) {
    up(n);
    server.peer(n).control(TMESH_FRAME_GOAWAY);
    ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
    EXPECT_GE(wait_us(), n < 5 ? 100'000u : 1'600'000u);
  }
}

TEST_F(SlotTest, AClientSendsNoGoaway) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  up(1);
  slot->drain();
  ASSERT_FALSE(run_until([] { return false; }, 10'000));
  EXPECT_EQ(server.peer(0).goaways_count + server.peer(1).goaways_count, 0u);
}

TEST_F(SlotTest, AnAgentTellsTheServerToOpenNoMore) {
  start(false);
  up(0, TMESH_SUBPROTOCOL_NONE);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  up(1, TMESH_SUBPROTOCOL_NONE);
  slot->drain();
  ASSERT_TRUE(
      run_until([&] { return server.peer(0).goaways_count == 1 && server.peer(1).goaways_count == 1; }));
}

TEST_F(SlotTest, RotationKeepsTheOldSessionUntilTheNewOneIsThere) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  slot->rotate("test");
  EXPECT_EQ(slot->ready(), role.made[0]);
  timers.advance(0);
  request(1);
  EXPECT_EQ(slot->ready(), role.made[0]) << "it goes on taking streams";
  slot->rotate("test");
  expect_quiet(0);
  up(1);
  EXPECT_EQ(slot->ready(), role.made[1]);
  slot->rotate("test");  // and it can happen again
  timers.advance(1'000'000);
  request(2);
}

TEST_F(SlotTest, AUsedUpLinkIsReplacedAtOnceHoweverYoung) {
  // A busy client uses up the ids of a link in seconds, and of the next one again.
  start();
  up(0);
  for (std::size_t n = 1; n < 8; n++) {
    slot->rotate("ids");
    timers.advance(0);
    up(n);
  }
}

TEST_F(SlotTest, ARotationThatFailsGoesOnWithTheBackoff) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  refuse(1, 503);
  for (int i = 0; i < 100; i++) slot->rotate("test");  // every open asks again
  expect_quiet(0);
  EXPECT_EQ(slot->ready(), role.made[0]);
  timers.advance(1'000'000);
  up(2);
  EXPECT_EQ(role.overs_count, 0u);
  timers.advance(1'000'000);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, ALinkThatEndsDuringARotationIsNotDialledTwice) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  request(1);
  down(0);
  expect_quiet(0);
  up(1);
  expect_quiet(kMinute_us);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, AGoawayDuringARotationIsNotDialledTwice) {
  start();
  up(0);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  request(1);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  expect_quiet(0);
  up(1);
}

TEST_F(SlotTest, ALinkWithoutASubprotocolIsRenegotiatedAfter5Minutes) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  expect_quiet(5 * kMinute_us - 1);
  timers.advance(1);
  EXPECT_EQ(slot->ready(), role.made[0]);
  request(1);
  EXPECT_TRUE(offers(1));
  up(1, TMESH_SUBPROTOCOL_METADATA);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, RenegotiationGoesOnWhileTheServerStaysLegacy) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  for (std::size_t n = 1; n < 4; n++) {
    timers.advance(5 * kMinute_us);
    up(n, TMESH_SUBPROTOCOL_NONE);
  }
}

TEST_F(SlotTest, ASelectedV1IsNotRenegotiated) {
  start();
  up(0, TMESH_SUBPROTOCOL_V1);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, AnAgentsLinkIsNotRenegotiated) {
  start(false);
  up(0, TMESH_SUBPROTOCOL_NONE);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, TheRenegotiationOfADeadLinkIsForgotten) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  timers.advance(4 * kMinute_us);
  down(0);
  timers.advance(1'000'000);
  up(1);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, DrainStopsReconnectingAndKeepsStreams) {
  start();
  up(0);
  open_stream(*role.made[0]);
  slot->drain();
  EXPECT_EQ(slot->ready(), nullptr);
  slot->rotate("test");
  expect_quiet(60 * kMinute_us);
  EXPECT_EQ(streams_over_count, 0u);
  server.peers[0]->streams.clear();
  server.peers[0]->link = {};
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  EXPECT_EQ(streams_over_count, 1u);
  expect_quiet(60 * kMinute_us);
}

TEST_F(SlotTest, AGoawayWhileDrainingDoesNotReconnect) {
  start();
  up(0);
  slot->drain();
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  server.peer(0).control(TMESH_FRAME_CLIENT_METADATA_ACK);
  ASSERT_TRUE(run_until([&] { return role.controls_count == 1; }));
  expect_quiet(kMinute_us);
}

TEST_F(SlotTest, AResumedSlotTakesStreamsAgainAndReconnects) {
  start();
  up(0);
  slot->rotate("test");
  slot->drain();  // and with it the successor's attempt
  EXPECT_EQ(slot->ready(), nullptr);
  slot->resume();
  slot->resume();
  EXPECT_EQ(slot->ready(), role.made.back());
  expect_quiet(0);
  slot->rotate("test");
  timers.advance(0);
  const std::size_t successor = server.count();
  up(successor > 1 ? successor : 1);
  server.peers.back()->link = {};
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  wait_us();
}

TEST_F(SlotTest, AResumedSlotWithoutALinkConnectsOne) {
  start();
  up(0);
  slot->drain();
  down(0);
  expect_quiet(kMinute_us);
  slot->resume();
  EXPECT_TRUE(slot->is_link_coming());
  timers.advance(0);
  up(1);
}

TEST_F(SlotTest, ALinkWithoutASubprotocolIsRenegotiatedAfterAResume) {
  start();
  up(0, TMESH_SUBPROTOCOL_NONE);
  slot->drain();
  expect_quiet(10 * kMinute_us);
  slot->resume();
  timers.advance(5 * kMinute_us);
  up(1);
}

TEST_F(SlotTest, SessionsAndStreamsAreFoundThatLive) {
  start();
  EXPECT_FALSE(slot->has_streams());
  up(0);
  Session& old = *role.made.back();
  tmesh_mux* const old_mux = old.mux();
  EXPECT_FALSE(slot->has_streams());
  open_stream(old);
  EXPECT_TRUE(slot->has_streams());
  EXPECT_EQ(slot->session_of(old_mux), &old);
  slot->rotate("test");
  timers.advance(0);
  up(1);
  EXPECT_EQ(slot->session_of(old_mux), &old) << "it drains";
  EXPECT_EQ(slot->session_of(role.made.back()->mux()), role.made.back());
  EXPECT_TRUE(slot->has_streams());
  EXPECT_EQ(slot->session_of(nullptr), nullptr);
  server.peers[0]->link = {};
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  EXPECT_FALSE(slot->has_streams());
}

TEST_F(SlotTest, DrainCancelsTheAttemptUnderWay) {
  start();
  request(0);
  slot->drain();
  ASSERT_TRUE(run_until([&] { return server.last().is_eof || server.last().down.has_value(); }));
  EXPECT_EQ(timers.count(), 0u);
  slot->drain();
}

}  // namespace
}  // namespace tmesh::session
