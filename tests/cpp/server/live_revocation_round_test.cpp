// Rights that move while a round about them is under way (LESSONS P-K1): what its answers are worth.
#include "tests/cpp/server/live_revocation_fixture.hpp"

namespace tmesh::server {
namespace {

TEST_F(LiveRevocationTest, ARoundThatIsOvertakenStartsOverForWhatIsLeft) {
  for (int i = 0; i < 100; i++) open("host" + std::to_string(i));
  move();
  timers.advance(0);
  for (int i = 0; i < 10; i++) ASSERT_TRUE(decider.settle());
  move();
  pump_for(2 * LiveRevocation::kRoundGap_us);
  // Ten were decided before, 64 were under way when rights moved; the others once.
  EXPECT_EQ(decider.asked.size(), 100U + 10U + LiveRevocation::kChecksMax);
  EXPECT_EQ(timers.count(), 0U);
}

TEST_F(LiveRevocationTest, AYesFromBeforeRightsMovedAgainDoesNotCount) {
  Stream& stream = open("a");
  move();
  timers.advance(0);
  ASSERT_EQ(decider.waiting_count(), 1U);
  move();  // while the question is under way; its answer may rest on what was before
  ASSERT_TRUE(decider.settle());
  EXPECT_FALSE(stream.is_revoked);
  decider.errors = {{"a", TMESH_E_POLICY}};
  pump_for(LiveRevocation::kRoundGap_us);
  EXPECT_TRUE(stream.is_revoked);
}

TEST_F(LiveRevocationTest, ChangesWithoutEndDoNotKeepAliveWhatWasTakenAway) {
  Stream& stream = open("a");
  decider.errors = {{"a", TMESH_E_POLICY}};
  move();
  timers.advance(0);
  move();
  ASSERT_TRUE(decider.settle());
  timers.advance(0);
  EXPECT_TRUE(stream.is_revoked) << "a no counts, however often rights moved since";
}

TEST_F(LiveRevocationTest, WhatRightsThatMoveLeaveUndecidedIsNoTrouble) {
  for (int i = 0; i < 100; i++) {
    open("a" + std::to_string(i));
    decider.errors["a" + std::to_string(i)] = TMESH_E_TIMEOUT;
  }
  Stream& last = open("z");
  decider.errors["z"] = TMESH_E_POLICY;
  move();
  timers.advance(0);
  do move();  // during every decision
  while (decider.settle());
  EXPECT_EQ(revocation.stats().failed_count, 0U);
  timers.advance(0);
  EXPECT_TRUE(last.is_revoked) << "the round went on to the last";
}

TEST_F(LiveRevocationTest, ANoFromBeforeALaterYesDoesNotCount) {
  Stream& old = open("a");
  decider.errors = {{"a", TMESH_E_POLICY}};
  move();
  timers.advance(0);
  ASSERT_EQ(decider.waiting_count(), 1U);
  move();  // it was allowed again, and a new stream was opened on that
  Stream& fresh = open("a");
  ASSERT_TRUE(decider.settle());  // the answer to the older question
  decider.errors.clear();
  pump_for(2 * LiveRevocation::kRoundGap_us);
  EXPECT_FALSE(fresh.is_revoked);
  EXPECT_FALSE(old.is_revoked) << "the same grant";
}

TEST_F(LiveRevocationTest, AStreamOfAnOlderGenerationIsAskedAboutAtOnce) {
  move();
  Stream& late = open_of("a", generation - 1);
  decider.errors = {{"a", TMESH_E_POLICY}};
  pump();
  EXPECT_TRUE(late.is_revoked) << "rights moved between its decision and its installation";
  Stream& fresh = open("b");
  pump_for(1'000'000);
  EXPECT_FALSE(fresh.is_revoked);
  EXPECT_EQ(decider.asked, std::vector<std::string>{"a"});
}

TEST_F(LiveRevocationTest, AGrantOfAnOlderGenerationIsAskedForAgain) {
  open("a");
  move();
  decider.generation = generation - 1;  // shared with a decision that began before
  pump();
  EXPECT_EQ(decider.asked.size(), 1U);
  decider.generation = 0;
  pump_for(LiveRevocation::kRoundGap_us);
  EXPECT_EQ(decider.asked.size(), 2U);
  pump_for(10 * LiveRevocation::kRoundGap_us);
  EXPECT_EQ(decider.asked.size(), 2U);
}

TEST_F(LiveRevocationTest, RoundsKeepTheirDistance) {
  open("a");
  for (int i = 0; i < 1000; i++) {
    move();
    pump();
    timers.advance(1'000);
  }
  EXPECT_LE(decider.asked.size(), 1'000'000 / LiveRevocation::kRoundGap_us + 1);
}

}  // namespace
}  // namespace tmesh::server
