// Rights that move, polls that fail, and callers that share a decision or go away.
#include "tests/cpp/server/cache_fixture.hpp"

namespace tmesh::server {
namespace {

using test::CacheCaller;
using test::CacheTest;
using test::kSecond_us;

struct CacheMoveTest : CacheTest {
  CacheMoveTest() : CacheTest(Cache::settings({}, config::StorageSettings::Driver::mysql)) {}
  void move_rights() { watch.note_local_commit(); }
  void ask_again() { ask(); }
};

TEST_F(CacheMoveTest, ALargerRevisionEndsWhatIsKept) {
  know();
  next_poll();
  EXPECT_TRUE(ask().is_hit);
  revision.answer(2);
  const CacheCaller& later = ask();
  EXPECT_FALSE(later.is_hit);
  source.refuse();
  EXPECT_TRUE(later.is_refused(TMESH_E_POLICY));
}

TEST_F(CacheMoveTest, ALocalCommitEndsWhatIsKeptAtOnce) {
  know();
  watch.note_local_commit();
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(CacheMoveTest, DenialsEndWithTheirGenerationToo) {
  ask();
  source.refuse();
  EXPECT_TRUE(ask().is_hit);
  watch.note_local_commit();
  EXPECT_FALSE(ask().is_hit);
}

// A listener that is told before the cache is, and asks it.
struct EarlyListener final : RevisionListener {
  void on_rights_moved(uint64_t) override {
    if (cache != nullptr) is_hit = cache->lookup(question).has_value();
  }
  StreamAuthorizer* cache = nullptr;
  StreamRequest question;
  bool is_hit = true;
};

TEST_F(CacheMoveTest, WhoHearsOfTheMoveBeforeTheCacheGetsNothingOldEither) {
  EarlyListener early;
  RevisionWatch ordered(timers, revision, {});
  ordered.add_listener(early);
  Cache behind(timers, source, ordered, {});
  ordered.start();
  revision.answer(1);
  CacheCaller caller;
  caller.ask(behind, question);
  source.allow();
  ASSERT_TRUE(behind.lookup(question));
  early.question = question;
  early.cache = &behind;
  ordered.note_local_commit();
  EXPECT_FALSE(early.is_hit);
}

TEST_F(CacheMoveTest, TheMemoryOfAnOldGenerationIsGivenBackInSlices) {
  for (int n = 0; n < 3000; n++) {
    ask({"stok_a", "agent-a", "tcp", "h" + std::to_string(n) + ".example", 443});
    source.allow();
  }
  EXPECT_EQ(cache.stats().entries_count, 3000u);
  const std::size_t timers_count = timers.count();
  watch.note_local_commit();
  EXPECT_EQ(cache.stats().entries_count, 0u);
  // The first slice went with the call; 3,000 slots are five more.
  std::size_t slices_count = 0;
  while (timers.count() > timers_count && slices_count < 100) {
    timers.advance(Cache::kSliceInterval_us);
    slices_count++;
  }
  EXPECT_EQ(slices_count, 5u);
}

// LESSONS Z6: what was decided under an older revision is not stored after the move.
TEST_F(CacheMoveTest, AResultBegunBeforeTheMoveIsDecidedAnewAndNotStored) {
  const CacheCaller& first = ask();
  watch.note_local_commit();
  source.allow();
  EXPECT_FALSE(first.answer.has_value()) << "an old allow was handed out";
  EXPECT_EQ(cache.stats().entries_count, 0u);
  ASSERT_EQ(source.waiting_count(), 1u);
  source.refuse();
  EXPECT_TRUE(first.is_refused(TMESH_E_POLICY));
  EXPECT_EQ(cache.stats().decided_again_count, 1u);
  EXPECT_TRUE(ask().is_refused(TMESH_E_POLICY));
  EXPECT_EQ(source.asked_count, 2u);
}

TEST_F(CacheMoveTest, WhoJoinsAfterTheMoveGetsADecisionOfTheNewGeneration) {
  const CacheCaller& first = ask();
  watch.note_local_commit();
  const CacheCaller& second = ask();
  EXPECT_EQ(source.waiting_count(), 1u) << "one decision per question";
  source.refuse();  // as it was before the change
  EXPECT_FALSE(second.answer.has_value());
  source.allow();
  ASSERT_TRUE(first.is_allowed());
  ASSERT_TRUE(second.is_allowed());
  EXPECT_EQ((*second.answer)->generation, watch.generation());
}

TEST_F(CacheMoveTest, RightsThatMoveAllTheTimeEndInARefusal) {
  const CacheCaller& caller = ask();
  for (int i = 1; i < Cache::kDecisionsMax; i++) {
    watch.note_local_commit();
    source.allow();
    ASSERT_FALSE(caller.answer.has_value()) << i;
  }
  watch.note_local_commit();
  source.allow();
  EXPECT_TRUE(caller.is_refused(TMESH_E_TIMEOUT));
  EXPECT_EQ(source.waiting_count(), 0u);
  EXPECT_EQ(cache.stats().entries_count, 0u);
}

TEST_F(CacheMoveTest, ADenialStaysOneThoughRightsMoveAllTheTime) {
  const CacheCaller& caller = ask();
  for (int i = 0; i < Cache::kDecisionsMax; i++) {
    ASSERT_FALSE(caller.answer.has_value()) << i;
    watch.note_local_commit();
    source.refuse();
  }
  EXPECT_TRUE(caller.is_refused(TMESH_E_POLICY)) << "whoever ends running streams waits for it";
  EXPECT_EQ(source.waiting_count(), 0u);
  EXPECT_EQ(cache.stats().entries_count, 0u) << "not kept: rights may allow it by now";
}

TEST_F(CacheMoveTest, AnErrorIsHandedOutWhateverMoved) {
  const CacheCaller& caller = ask();
  watch.note_local_commit();
  source.refuse(TMESH_E_IO);
  EXPECT_TRUE(caller.is_refused(TMESH_E_IO));
}

TEST_F(CacheMoveTest, ASourceThatIsFullWhenAskedAgainRefusesAll) {
  const CacheCaller& first = ask();
  const CacheCaller& second = ask();
  watch.note_local_commit();
  source.is_full = true;
  source.allow();
  EXPECT_TRUE(first.is_refused(TMESH_E_LIMIT));
  EXPECT_TRUE(second.is_refused(TMESH_E_LIMIT));
}

TEST_F(CacheMoveTest, RightsThatMoveWhileCallersAreToldAreDecidedAnewForTheRest) {
  CacheCaller& first = ask();
  CacheCaller& second = ask();
  first.then = Delegate<void()>::bind<&CacheMoveTest::move_rights>(this);
  source.allow();
  EXPECT_TRUE(first.is_allowed());
  EXPECT_FALSE(second.answer.has_value());
  source.refuse();
  EXPECT_TRUE(second.is_refused(TMESH_E_POLICY));
  EXPECT_EQ(cache.decisions_under_way_count(), 0u);
}

TEST_F(CacheMoveTest, ManyWhoAskTheSameAtOnceAreOneDecision) {
  for (int i = 0; i < 32; i++) ask();
  EXPECT_EQ(source.asked_count, 1u);
  source.allow();
  for (const CacheCaller& c : callers) {
    EXPECT_TRUE(c.is_allowed());
    EXPECT_EQ(c.answers_count, 1);
  }
}

// LESSONS Z7: those that wait do not inherit the first caller's cancellation.
TEST_F(CacheMoveTest, TheFirstCallersCancellationTouchesNobodyWhoWaitsWithIt) {
  CacheCaller& first = ask();
  const CacheCaller& second = ask();
  first.ticket.cancel();
  EXPECT_EQ(source.cancelled_count, 0u);
  source.allow();
  EXPECT_FALSE(first.answer.has_value());
  EXPECT_TRUE(second.is_allowed());
  EXPECT_TRUE(ask().is_hit);
}

TEST_F(CacheMoveTest, ADecisionThatNobodyWaitsForIsCancelled) {
  CacheCaller& first = ask();
  CacheCaller& second = ask();
  second.ticket.cancel();
  first.ticket.cancel();
  EXPECT_EQ(source.cancelled_count, 1u);
  EXPECT_EQ(cache.decisions_under_way_count(), 0u);
  know();
}

TEST_F(CacheMoveTest, WhoAsksAgainWhileBeingToldOfAnErrorBeginsAnew) {
  CacheCaller& first = ask();
  first.then = Delegate<void()>::bind<&CacheMoveTest::ask_again>(this);
  source.refuse(TMESH_E_IO);
  EXPECT_EQ(source.waiting_count(), 1u);
  source.allow();
  EXPECT_TRUE(callers.back().is_allowed());
}

// ---- requirement D7: before the revision was read ----

struct ColdWatchTest : CacheTest {
  void SetUp() override { watch.start(); }
};

TEST_F(ColdWatchTest, NothingIsKeptOrSharedBeforeTheRevisionWasRead) {
  for (int i = 0; i < 2; i++) {
    const CacheCaller& a = ask();
    const CacheCaller& b = ask();
    ASSERT_EQ(source.waiting_count(), 2u);
    source.allow();
    source.allow();
    EXPECT_TRUE(a.is_allowed());
    EXPECT_TRUE(b.is_allowed());
  }
  EXPECT_EQ(cache.stats().count(Way::bypass, Outcome::allow), 4u);
  revision.answer(1);
  know();
  EXPECT_TRUE(ask().is_hit);
}

// ---- requirement D8: an inconsistent revision ----

TEST_F(CacheMoveTest, ARevisionThatGoesBackTurnsTheCacheOff) {
  know();
  next_poll();
  revision.answer(0);
  for (int i = 0; i < 2; i++) {
    const CacheCaller& caller = ask();
    EXPECT_FALSE(caller.is_hit);
    source.allow();
    EXPECT_TRUE(caller.is_allowed()) << "each is decided at the source";
  }
  const CacheCaller& broken = ask();
  source.refuse(TMESH_E_IO);
  EXPECT_TRUE(broken.is_refused(TMESH_E_IO));
  next_poll();
  revision.answer(1);
  EXPECT_FALSE(ask().is_hit) << "nothing of before or of meanwhile counts";
  source.allow();
  EXPECT_TRUE(ask().is_hit);
}

TEST_F(CacheMoveTest, WhatWasBegunBeforeTheInconsistencyIsDecidedAnewAndNotKept) {
  const CacheCaller& caller = ask();
  next_poll();
  revision.fail_poll(TMESH_E_INVALID);
  source.allow();
  EXPECT_FALSE(caller.answer.has_value());
  source.allow();
  EXPECT_TRUE(caller.is_allowed());
  EXPECT_EQ(cache.stats().entries_count, 0u);
}

// ---- requirement D9: polls that fail ----

TEST_F(CacheMoveTest, WhilePollsFailAllowsAreUsedFor5SecondsAfterTheLastGoodPoll) {
  know();
  next_poll();
  revision.fail_poll();
  timers.advance(3 * kSecond_us);  // a poll hangs meanwhile
  EXPECT_TRUE(ask().is_hit) << "exactly 5 s";
  timers.advance(1);
  const CacheCaller& late = ask();
  EXPECT_FALSE(late.is_hit);
  EXPECT_EQ(source.waiting_count(), 1u);
  source.refuse(TMESH_E_IO);
  EXPECT_TRUE(late.is_refused(TMESH_E_IO)) << "the database is away too: fail closed";
}

// The loop, the program or the machine stood still; what was good then says nothing about now.
TEST_F(CacheMoveTest, AllowsAreNotUsedAfterATimeWithoutPolls) {
  know();
  timers.jump(60 * kSecond_us);
  EXPECT_FALSE(ask().is_hit) << "no poll was made for a minute";
  ASSERT_TRUE(revision.is_asked());
  revision.answer(1);
  EXPECT_TRUE(ask().is_hit);
}

TEST_F(CacheMoveTest, DenialsKeepTheirTimeWhilePollsFail) {
  next_poll();
  revision.fail_poll();
  timers.advance(10 * kSecond_us);
  const CacheCaller& first = ask();
  source.refuse();
  EXPECT_TRUE(first.is_refused(TMESH_E_POLICY));
  timers.advance(3 * kSecond_us - 1);
  EXPECT_TRUE(ask().is_hit);
  timers.advance(1);
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(CacheMoveTest, AllowsAreUsedAgainAfterAPollThatShowsTheSameRevision) {
  know();
  next_poll();
  revision.fail_poll();
  timers.advance(10 * kSecond_us);
  EXPECT_FALSE(ask().is_hit);
  revision.fail_poll();  // late; the next one is begun at once
  revision.answer(1);
  EXPECT_TRUE(ask().is_hit);
}

TEST_F(CacheMoveTest, NoDecisionIsSharedOnceAllowsAreNotUsed) {
  const CacheCaller& early = ask();
  next_poll();
  revision.fail_poll();
  timers.advance(4 * kSecond_us);
  const CacheCaller& late = ask();
  EXPECT_EQ(source.waiting_count(), 2u);
  source.allow();
  EXPECT_TRUE(early.is_allowed());
  EXPECT_FALSE(late.answer.has_value());
  source.refuse();
  EXPECT_TRUE(late.is_refused(TMESH_E_POLICY));
}

}  // namespace
}  // namespace tmesh::server
