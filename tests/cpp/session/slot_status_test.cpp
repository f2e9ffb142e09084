// Slot::status: what a slot tells about itself.
#include "tests/cpp/session/slot_fixture.hpp"

namespace tmesh::session {
namespace {

using State = SlotStatus::State;

class SlotStatusTest : public SlotTest {};

TEST_F(SlotStatusTest, BeforeTheFirstLinkItIsConnectingAndNothingFailed) {
  make();
  EXPECT_EQ(slot->status().state, State::connecting);
  EXPECT_EQ(slot->status().number, 1u);
  EXPECT_EQ(slot->status().links_count, 0u);
  EXPECT_EQ(slot->status().up_since_us, 0u);
  EXPECT_STREQ(slot->status().last_failure.stage, "");
  EXPECT_EQ(slot->status().last_failure.at_us, 0u);
}

TEST_F(SlotStatusTest, ALinkThatIsUpShowsWhatItSpeaksAndCarries) {
  start();
  timers.advance(5'000'000);
  up(0, TMESH_SUBPROTOCOL_OPEN_RESULT);
  open_stream(*role.made[0]);
  const SlotStatus status = slot->status();
  EXPECT_EQ(status.state, State::up);
  EXPECT_EQ(status.subprotocol, TMESH_SUBPROTOCOL_OPEN_RESULT);
  EXPECT_EQ(status.up_since_us, timers.now_us());
  EXPECT_EQ(status.links_count, 1u);
  EXPECT_EQ(status.streams_count, 1u);
  EXPECT_EQ(status.draining_count, 0u);
  slot.reset();
  ASSERT_TRUE(run_until([&] { return streams_over_count == 1; }));
}

TEST_F(SlotStatusTest, AFailedAttemptIsRememberedWithStageCodeAndTime) {
  start();
  timers.advance(3'000'000);
  const uint64_t at_us = timers.now_us();
  refuse(0, 401);
  ASSERT_TRUE(run_until([&] { return slot->status().last_failure.at_us != 0; }));
  const SlotStatus status = slot->status();
  EXPECT_EQ(status.state, State::connecting);
  EXPECT_STREQ(status.last_failure.stage, "upgrade");
  EXPECT_STREQ(status.last_failure.code, tmesh_code_name(TMESH_E_HTTP));
  EXPECT_EQ(status.last_failure.http_status, 401);
  EXPECT_STREQ(status.last_failure.text, "the server does not accept the token");
  EXPECT_EQ(status.last_failure.at_us, at_us);
}

TEST_F(SlotStatusTest, ALinkThatEndsIsRememberedAndLinksAreCounted) {
  start();
  up(0);
  timers.advance(2'000'000);
  down(0);
  EXPECT_STREQ(slot->status().last_failure.stage, "link");
  EXPECT_STRNE(slot->status().last_failure.code, "");
  EXPECT_EQ(slot->status().last_failure.at_us, timers.now_us());
  EXPECT_EQ(slot->status().state, State::connecting);
  EXPECT_EQ(slot->status().up_since_us, 0u);
  timers.advance(1'000'000);
  up(1);
  EXPECT_EQ(slot->status().links_count, 2u);
  EXPECT_STREQ(slot->status().last_failure.stage, "link") << "what was, stays known";
}

TEST_F(SlotStatusTest, OldLinksBesideTheNewOneAreCountedApart) {
  start();
  up(0);
  open_stream(*role.made[0]);
  slot->rotate("test");
  timers.advance(0);
  up(1);
  const SlotStatus status = slot->status();
  EXPECT_EQ(status.state, State::up);
  EXPECT_EQ(status.streams_count, 0u);
  EXPECT_EQ(status.draining_count, 1u);
  EXPECT_EQ(status.draining_streams_count, 1u);
  slot.reset();
  ASSERT_TRUE(run_until([&] { return streams_over_count == 1; }));
}

TEST_F(SlotStatusTest, ADrainedSlotSaysSo) {
  start();
  up(0);
  slot->drain();
  EXPECT_EQ(slot->status().state, State::draining);
}

TEST_F(SlotStatusTest, StatesHaveNames) {
  EXPECT_STREQ(slot_state_name(State::connecting), "connecting");
  EXPECT_STREQ(slot_state_name(State::up), "up");
  EXPECT_STREQ(slot_state_name(State::suspect), "suspect");
  EXPECT_STREQ(slot_state_name(State::draining), "draining");
}

}  // namespace
}  // namespace tmesh::session
