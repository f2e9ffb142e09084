// Reconnector and Slot: a place that is kept connected.
#include "tests/cpp/session/slot_fixture.hpp"

namespace tmesh::session {
namespace {

TEST_F(SlotTest, ConnectsAtOnceAndTellsTheRole) {
  make();
  EXPECT_EQ(slot->ready(), nullptr);
  slot->start();
  EXPECT_EQ(dialer.count, 0u) << "never from inside start()";
  timers.advance(0);
  up(0);
  EXPECT_EQ(role.subprotocols.back(), TMESH_SUBPROTOCOL_METADATA);
  EXPECT_TRUE(offers(0));
  EXPECT_EQ(slot->number(), 1u);
  expect_quiet(60 * kMinute_us);
  slot.reset();
  EXPECT_EQ(role.overs_count, 1u);
  ASSERT_TRUE(run_until([&] { return server.last().down.has_value(); }));
}

TEST_F(SlotTest, AnAgentNeverOffers) {
  start(false);
  request(0);
  EXPECT_FALSE(offers(0));
  refuse(0, 400);
  expect_quiet(0);  // nothing to retry without
  timers.advance(1'000'000);
  request(1);
  EXPECT_FALSE(offers(1));
}

TEST_F(SlotTest, A400Or403IsRetriedOnceAtOnceWithoutAnOffer) {
  for (const int status : {400, 403}) {
    const std::size_t n = server.count();
    start();
    refuse(n, status);
    EXPECT_TRUE(offers(n));
    timers.advance(0);
    refuse(n + 1, status);
    EXPECT_FALSE(offers(n + 1)) << "the one retry";
    expect_quiet(0);  // no second one
    timers.advance(1'000'000);
    refuse(n + 2, status);
    EXPECT_TRUE(offers(n + 2)) << "the next attempt offers all again";
    timers.advance(0);
    request(n + 3);
    EXPECT_FALSE(offers(n + 3)) << "and has its own retry";
    slot.reset();
  }
}

TEST_F(SlotTest, NothingElseIsAReasonToDowngrade) {
  for (const int status : {200, 401, 404, 426, 429, 500, 502, 503}) {
    const std::size_t n = server.count();
    start();
    refuse(n, status);
    expect_quiet(0);
    timers.advance(1'000'000);
    request(n + 1);
    EXPECT_TRUE(offers(n + 1)) << status;
    slot.reset();
  }
}

TEST_F(SlotTest, ANetworkErrorIsNoReasonToDowngrade) {
  start();
  request(0);
  server.peers[0]->transport = {};
  expect_quiet();
  timers.advance(1'000'000);
  request(1);
  EXPECT_TRUE(offers(1));
}

TEST_F(SlotTest, ALegacyLinkOffersAgainAtTheNextReconnect) {
  start();
  refuse(0, 400);
  timers.advance(0);
  up(1, TMESH_SUBPROTOCOL_NONE);
  EXPECT_EQ(role.subprotocols.back(), TMESH_SUBPROTOCOL_NONE);
  down(1);
  timers.advance(1'000'000);
  request(2);
  EXPECT_TRUE(offers(2));
}

TEST_F(SlotTest, FailuresBackOffAndNeverGiveUp) {
  dialer.result = test::FakeDialer::failed(TMESH_E_REFUSED);
  start();
  for (int i = 0; i < 40; i++) {
    ASSERT_FALSE(run_until([] { return false; }, 300));  // the failure is delivered
    ASSERT_EQ(timers.count(), 1u) << "one attempt waits, and no timeout of an old one";
    const uint64_t waited_us = wait_us();
    EXPECT_GE(waited_us, i < 5 ? 100'000u : 1'600'000u);
    EXPECT_LE(waited_us, i < 5 ? 1'010'000u : 36'010'000u);
    EXPECT_GE(waited_us, i > 10 ? 24'000'000u : 0u);
  }
}

TEST_F(SlotTest, ALinkThatEndsIsReplacedAfterAWait) {
  start();
  up(0);
  down(0);
  EXPECT_EQ(role.overs_count, 1u);
  expect_quiet(99'999);
  timers.advance(900'001);
  up(1);
  EXPECT_EQ(role.made.size(), 2u);
  EXPECT_EQ(role.overs_count, 1u);
}

TEST_F(SlotTest, AGoodLinkResetsTheBackoff) {
  start();
  for (std::size_t n = 0; n < 8; n++) {  // short links: the waits grow
    up(n);
    down(n);
    EXPECT_GE(wait_us(), n < 5 ? 100'000u : 1'600'000u);
  }
  up(8);
  timers.advance(kMinute_us);
  down(8);
  EXPECT_LE(wait_us(), 1'010'000u);
}

TEST_F(SlotTest, DestroyingItEndsEverySessionAndAttempt) {
  start();
  up(0);
  timers.advance(kMinute_us);
  open_stream(*role.made[0]);
  server.peer(0).control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  up(1);
  timers.advance(kMinute_us);
  slot->rotate("test");
  timers.advance(0);
  request(2);
  slot.reset();
  EXPECT_EQ(role.overs_count, 2u);
  EXPECT_EQ(timers.count(), 0u);
  ASSERT_TRUE(run_until([&] { return streams_over_count == 1; }));
}

TEST_F(SlotTest, EarlyFramesBehindThe101ReachTheRoleAfterOnSession) {
  start();
  request(0);
  // The server's first frame, in the same segment as its 101: an acknowledgement.
  std::string frame("\x82\x10", 2);
  frame.resize(18);
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_CLIENT_METADATA_ACK;
  ASSERT_TRUE(tmesh_is_ok(tmesh_frame_header_encode(reinterpret_cast<uint8_t*>(frame.data()) + 2, &header)));
  server.last().reply(server.last().switching("tunnelmesh.v1") + frame);
  ASSERT_TRUE(run_until([&] { return role.controls_count == 1; }));
  EXPECT_EQ(role.made.size(), 1u);
}

}  // namespace
}  // namespace tmesh::session
