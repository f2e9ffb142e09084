// Rounds of decisions about what is already running, on a fake clock (LESSONS P-K1).
#include "tests/cpp/server/live_revocation_fixture.hpp"

namespace tmesh::server {
namespace {

TEST_F(LiveRevocationTest, NothingIsAskedWhileRightsStand) {
  open("a");
  pump_for(10'000'000);
  EXPECT_TRUE(decider.asked.empty());
  EXPECT_EQ(timers.count(), 0U);
}

TEST_F(LiveRevocationTest, WhatIsNotAllowedAnyMoreEndsAndNothingElse) {
  Stream& denied = open("denied");
  Stream& broken = open("broken");
  Stream& allowed = open("allowed");
  decider.errors = {{"denied", TMESH_E_POLICY}, {"broken", TMESH_E_INVALID}};
  move();
  EXPECT_FALSE(denied.is_revoked) << "nothing is called from inside";
  pump();
  EXPECT_TRUE(denied.is_revoked);
  EXPECT_TRUE(broken.is_revoked) << "a malformed row refuses";
  EXPECT_FALSE(allowed.is_revoked);
  EXPECT_EQ(revocation.grants_count(), 1U);
  EXPECT_EQ(revocation.stats().rechecked_count, 3U);
  EXPECT_EQ(revocation.stats().refused_count, 2U);
  EXPECT_EQ(revocation.stats().reset_count, 2U);
  EXPECT_EQ(revocation.stats().rounds_count, 1U);
}

TEST_F(LiveRevocationTest, ManyStreamsOfOneGrantAreOneQuestion) {
  for (int i = 0; i < 1000; i++) open(i % 2 == 0 ? "even" : "odd");
  decider.errors = {{"odd", TMESH_E_POLICY}};
  move();
  for (int turn = 0; turn < 4; turn++) pump();
  EXPECT_EQ(decider.asked.size(), 2U);
  for (const Stream& stream : streams) EXPECT_EQ(stream.is_revoked, stream.host == "odd");
}

TEST_F(LiveRevocationTest, KeysDifferInEveryPart) {
  std::list<Stream> others;
  Grant one = grant("a", 1);
  std::vector<Grant> grants(6, one);
  grants[1].token_id = "other";
  grants[2].agent_id = "other";
  grants[3].target.protocol = "udp";
  grants[4].target.host = "b";
  grants[5].target.port = 444;
  for (const Grant& made : grants) revocation.watch(others.emplace_back("a"), made);
  EXPECT_EQ(revocation.grants_count(), 6U);
}

TEST_F(LiveRevocationTest, QuestionsAtATimeAreBounded) {
  for (int i = 0; i < 1000; i++) open("host" + std::to_string(i));
  move();
  timers.advance(0);
  EXPECT_EQ(decider.waiting_count(), LiveRevocation::kChecksMax);
  pump();
  EXPECT_EQ(decider.asked.size(), 1000U);
  EXPECT_EQ(decider.asked_max, LiveRevocation::kChecksMax);
}

TEST_F(LiveRevocationTest, WhatIsKnownAlreadyIsNotAskedAndTakesTurns) {
  for (std::size_t i = 0; i < LiveRevocation::kLooksPerTurn + 10; i++) open("host" + std::to_string(i));
  decider.knows = true;
  move();
  timers.advance(0);
  pump();
  EXPECT_TRUE(decider.asked.empty());
  EXPECT_EQ(revocation.stats().rechecked_count, LiveRevocation::kLooksPerTurn + 10);
  EXPECT_EQ(revocation.stats().rounds_count, 1U);
}

TEST_F(LiveRevocationTest, ResetsOfOneTurnAreBounded) {
  const std::size_t many = 2 * LiveRevocation::kResetsPerTurn + 1;
  for (std::size_t i = 0; i < many; i++) open("a");
  decider.errors = {{"a", TMESH_E_POLICY}};
  // Runs when the first part was reset, before the next turn.
  struct Witness {
    LiveRevocation& revocation;
    uint64_t seen = 0;
    void look() { seen = revocation.stats().reset_count; }
  } witness{revocation};
  move();
  timers.advance(0);
  ASSERT_TRUE(decider.settle());
  const Ticket look = timers.after(0, Delegate<void()>::bind<&Witness::look>(&witness));
  timers.advance(0);
  EXPECT_EQ(witness.seen, LiveRevocation::kResetsPerTurn);
  pump();
  EXPECT_EQ(revocation.stats().reset_count, many);
}

TEST_F(LiveRevocationTest, TroubleWithTheDatabaseEndsNothingAndIsAskedAgain) {
  Stream& first = open("a");
  Stream& second = open("b");
  decider.errors = {{"a", TMESH_E_IO}, {"b", TMESH_E_TIMEOUT}};
  move();
  pump();
  EXPECT_EQ(decider.asked.size(), 2U);
  pump_for(10 * LiveRevocation::kRetry_us - 1);
  EXPECT_LE(decider.asked.size(), 2U + 10U) << "one question per retry";
  EXPECT_GE(decider.asked.size(), 2U + 9U);
  EXPECT_FALSE(first.is_revoked || second.is_revoked);
  decider.errors = {{"b", TMESH_E_POLICY}};
  pump_for(2 * LiveRevocation::kRetry_us);
  EXPECT_FALSE(first.is_revoked);
  EXPECT_TRUE(second.is_revoked);
  const std::size_t asked = decider.asked.size();
  pump_for(10 * LiveRevocation::kRetry_us);
  EXPECT_EQ(decider.asked.size(), asked) << "all is decided";
  EXPECT_EQ(timers.count(), 0U);
}

TEST_F(LiveRevocationTest, AFullQueueOfTheDatabaseIsTroubleToo) {
  Stream& stream = open("a");
  decider.refuses_calls = true;
  decider.errors = {{"a", TMESH_E_POLICY}};
  move();
  pump_for(2 * LiveRevocation::kRetry_us);
  EXPECT_FALSE(stream.is_revoked);
  EXPECT_GE(revocation.stats().failed_count, 2U);
  decider.refuses_calls = false;
  pump_for(2 * LiveRevocation::kRetry_us);
  EXPECT_TRUE(stream.is_revoked);
}

TEST_F(LiveRevocationTest, OneThatCanNeverBeDecidedDoesNotKeepOthersFromIt) {
  open("a");
  open("b");
  open("c");
  decider.errors = {{"a", TMESH_E_TOO_LARGE}, {"b", TMESH_E_POLICY}, {"c", TMESH_E_POLICY}};
  move();
  pump_for(4 * LiveRevocation::kRetry_us);
  for (const Stream& stream : streams) EXPECT_EQ(stream.is_revoked, stream.host != "a");
}

TEST_F(LiveRevocationTest, AStreamEndsWithItsTokenThoughNothingMovedAndNobodyAnswers) {
  timers.set_wall(1'000'000'000);
  decider.refuses_calls = true;
  Stream& ends = open("a", 1'004'500'000);
  Stream& stays = open("b", 9'000'000'000);
  uint64_t past_us = 0;
  while (!ends.is_revoked && past_us < 20'000'000) {
    timers.set_wall(1'000'000'000 + static_cast<int64_t>(past_us));
    timers.advance(100'000);
    past_us += 100'000;
  }
  EXPECT_GE(past_us, 4'500'000U);
  EXPECT_LE(past_us, 4'500'000U + 3'000'000U) << "within three seconds of expires_at";
  EXPECT_FALSE(stays.is_revoked);
  EXPECT_EQ(revocation.stats().expired_count, 1U);
}

TEST_F(LiveRevocationTest, AnExpiryThatWasMovedCountsFromTheNextRoundOn) {
  timers.set_wall(0);
  Stream& longer = open("a", 5'000'000);
  decider.expires_at_us = 50'000'000;
  move();
  pump();
  timers.set_wall(49'999'999);
  timers.advance(2 * LiveRevocation::kExpiryTick_us);
  EXPECT_FALSE(longer.is_revoked);
  decider.expires_at_us = std::nullopt;
  move();
  pump_for(LiveRevocation::kRoundGap_us);
  timers.set_wall(INT64_MAX);
  timers.advance(2 * LiveRevocation::kExpiryTick_us);
  EXPECT_FALSE(longer.is_revoked) << "it expires no more";
  EXPECT_EQ(timers.count(), 0U);
}

TEST_F(LiveRevocationTest, WhatLeavesIsForgotten) {
  for (const char* host : {"a", "b", "c"}) open(host);
  move();
  timers.advance(0);
  EXPECT_EQ(decider.waiting_count(), 3U);
  streams.clear();  // with questions under way
  EXPECT_EQ(revocation.grants_count(), 0U);
  EXPECT_EQ(decider.waiting_count(), 0U);
  pump();
  EXPECT_EQ(revocation.stats().rounds_count, 1U) << "the round ended";
  open("d");
  move();
  pump_for(LiveRevocation::kRoundGap_us);
  EXPECT_EQ(revocation.stats().rounds_count, 2U);
  EXPECT_EQ(timers.count(), 0U);
}

TEST_F(LiveRevocationTest, OneThatLeavesWhileOthersAreBeingReset) {
  for (std::size_t i = 0; i < LiveRevocation::kResetsPerTurn + 5; i++) open("a");
  decider.errors = {{"a", TMESH_E_POLICY}};
  move();
  timers.advance(0);
  ASSERT_TRUE(decider.settle());
  streams.remove_if([](const Stream& stream) { return !stream.is_revoked; });
  EXPECT_TRUE(streams.empty()) << "all left by themselves";
  Stream& again = open("a");  // a grant made since, at this generation
  timers.advance(0);
  EXPECT_FALSE(again.is_revoked);
  EXPECT_EQ(revocation.stats().reset_count, 0U);
}

TEST_F(LiveRevocationTest, AStreamIsSmall) {
  EXPECT_LE(sizeof(Revocable), 32U) << "vtable, group and two neighbours";
}

}  // namespace
}  // namespace tmesh::server
