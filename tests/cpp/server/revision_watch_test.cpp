#include "cpp/server/revision_watch.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/server/fake_revision.hpp"
#include "tests/cpp/session/captured_log.hpp"

namespace tmesh::server {
namespace {

constexpr uint64_t kSecond = 1'000'000;

struct Listener final : RevisionListener {
  void on_rights_moved(uint64_t generation) override {
    heard.push_back(generation);
    if (watch != nullptr) watch->remove_listener(*this);
    if (watch != nullptr && other != nullptr) watch->remove_listener(*other);
  }
  std::vector<uint64_t> heard;
  RevisionWatch* watch = nullptr;  // to leave at once
  Listener* other = nullptr;       // to be taken along
};

struct RevisionWatchTest : testing::Test {
  explicit RevisionWatchTest(RevisionWatch::Settings settings = {}) : watch(timers, source, settings) {
    watch.add_listener(listener);
  }
  void start_at(uint64_t revision) {
    watch.start();
    source.answer(revision);
    ASSERT_TRUE(watch.is_healthy());
    listener.heard.clear();
  }
  // The next regular poll is begun.
  void next_poll() {
    ASSERT_FALSE(source.is_asked());
    timers.advance(2 * kSecond);
    ASSERT_TRUE(source.is_asked());
  }

  test::FakeTimers timers;
  test::FakeRevision source;
  RevisionWatch watch;
  Listener listener;
};

TEST_F(RevisionWatchTest, NothingIsConsistentBeforeTheRevisionWasRead) {
  EXPECT_FALSE(watch.is_consistent());
  watch.start();
  EXPECT_TRUE(source.is_asked());
  EXPECT_FALSE(watch.is_consistent());
  EXPECT_FALSE(watch.is_healthy());
  EXPECT_EQ(watch.last_good_us(), 0u);
  EXPECT_NE(watch.generation(), 0u);
  source.fail_poll();
  EXPECT_FALSE(watch.is_consistent());
  EXPECT_EQ(watch.stats().polls_failed_count, 1u);
  next_poll();
  source.answer(41);
  EXPECT_TRUE(watch.is_consistent());
  EXPECT_TRUE(watch.is_healthy());
  EXPECT_EQ(watch.revision(), 41u);
  EXPECT_EQ(watch.stats().polls_ok_count, 1u);
  EXPECT_EQ(watch.last_good_us(), timers.now_us());
}

TEST_F(RevisionWatchTest, PollsAreTheIntervalApartFromEndToBegin) {
  start_at(1);
  timers.advance(2 * kSecond - 1);
  EXPECT_FALSE(source.is_asked());
  timers.advance(1);
  EXPECT_TRUE(source.is_asked());
  const uint64_t begun_us = timers.now_us();
  timers.advance(kSecond);
  source.answer(1);
  EXPECT_EQ(watch.last_good_us(), begun_us) << "what a poll tells is as old as its begin";
  timers.advance(2 * kSecond - 1);
  EXPECT_FALSE(source.is_asked());
  timers.advance(1);
  EXPECT_TRUE(source.is_asked());
}

TEST_F(RevisionWatchTest, ALargerRevisionMovesTheGeneration) {
  start_at(7);
  const uint64_t before = watch.generation();
  next_poll();
  source.answer(9);
  EXPECT_EQ(watch.generation(), before + 1);
  EXPECT_EQ(watch.revision(), 9u);
  EXPECT_EQ(listener.heard, std::vector<uint64_t>{before + 1});
}

TEST_F(RevisionWatchTest, TheSameRevisionMovesNothing) {
  start_at(7);
  const uint64_t before = watch.generation();
  for (int i = 0; i < 5; i++) {
    next_poll();
    source.answer(7);
  }
  EXPECT_EQ(watch.generation(), before);
  EXPECT_TRUE(listener.heard.empty());
  EXPECT_EQ(watch.stats().polls_ok_count, 6u);
}

TEST_F(RevisionWatchTest, ARevisionThatGoesBackIsInconsistentUntilTheHighestIsReachedAgain) {
  start_at(7);
  const uint64_t before = watch.generation();
  next_poll();
  source.answer(6);
  EXPECT_FALSE(watch.is_consistent());
  EXPECT_FALSE(watch.is_healthy());
  EXPECT_EQ(watch.generation(), before + 1);
  EXPECT_EQ(watch.stats().inconsistent_count, 1u);
  EXPECT_EQ(watch.stats().polls_failed_count, 0u) << "the poll itself worked";
  next_poll();
  source.answer(6);
  EXPECT_FALSE(watch.is_consistent());
  EXPECT_EQ(watch.generation(), before + 1);
  next_poll();
  source.answer(7);
  EXPECT_TRUE(watch.is_healthy());
  EXPECT_EQ(watch.generation(), before + 2) << "what was decided below the highest counts no more";
  EXPECT_EQ(watch.revision(), 7u);
}

TEST_F(RevisionWatchTest, RightsThatMoveBelowTheHighestRevisionAreNoticedToo) {
  start_at(7);
  next_poll();
  source.answer(3);
  const uint64_t before = watch.generation();
  next_poll();
  source.answer(4);
  EXPECT_EQ(watch.generation(), before + 1);
  EXPECT_FALSE(watch.is_consistent());
}

TEST_F(RevisionWatchTest, AMissingRevisionIsInconsistentAndNoFailedPoll) {
  start_at(7);
  const uint64_t before = watch.generation();
  next_poll();
  source.fail_poll(TMESH_E_INVALID);
  EXPECT_FALSE(watch.is_consistent());
  EXPECT_EQ(watch.generation(), before + 1);
  EXPECT_EQ(watch.stats().inconsistent_count, 1u);
  EXPECT_EQ(watch.stats().polls_failed_count, 0u);
  next_poll();
  source.answer(8);
  EXPECT_TRUE(watch.is_healthy());
}

TEST_F(RevisionWatchTest, ARevisionBeyondItsLargestIsInconsistent) {
  start_at(INT64_MAX);
  EXPECT_EQ(watch.revision(), static_cast<uint64_t>(INT64_MAX));
  next_poll();
  source.answer(static_cast<uint64_t>(INT64_MAX) + 1);
  EXPECT_FALSE(watch.is_consistent());
  EXPECT_EQ(watch.revision(), static_cast<uint64_t>(INT64_MAX));
}

TEST_F(RevisionWatchTest, AnInconsistentStartStaysUnhealthy) {
  watch.start();
  source.fail_poll(TMESH_E_INVALID);
  EXPECT_FALSE(watch.is_consistent());
  next_poll();
  source.fail_poll();
  EXPECT_FALSE(watch.is_consistent());
}

TEST_F(RevisionWatchTest, AFailedPollIsUnhealthyAndStaysConsistent) {
  start_at(7);
  const uint64_t good_us = watch.last_good_us();
  const uint64_t before = watch.generation();
  next_poll();
  source.fail_poll(TMESH_E_TIMEOUT);
  EXPECT_FALSE(watch.is_healthy());
  EXPECT_TRUE(watch.is_consistent());
  EXPECT_EQ(watch.last_good_us(), good_us);
  EXPECT_EQ(watch.generation(), before);
  next_poll();
  source.answer(7);
  EXPECT_TRUE(watch.is_healthy());
  EXPECT_EQ(watch.generation(), before) << "nothing moved while nobody could look";
}

TEST_F(RevisionWatchTest, APollThatIsOverdueIsUnhealthy) {
  start_at(5);
  timers.jump(60'000'000);
  EXPECT_TRUE(source.is_asked());
  EXPECT_FALSE(watch.is_healthy()) << "nobody looked for a minute";
  EXPECT_TRUE(watch.is_consistent());
  source.answer(5);
  EXPECT_TRUE(watch.is_healthy());
}

TEST_F(RevisionWatchTest, AnInconsistencyOutlivesFailedPolls) {
  start_at(7);
  next_poll();
  source.answer(1);
  next_poll();
  source.fail_poll();
  EXPECT_FALSE(watch.is_consistent());
}

TEST_F(RevisionWatchTest, ASourceThatIsFullIsAFailedPoll) {
  start_at(7);
  source.is_full = true;
  timers.advance(2 * kSecond);
  EXPECT_FALSE(watch.is_healthy());
  EXPECT_EQ(watch.stats().polls_failed_count, 1u);
  source.is_full = false;
  timers.advance(2 * kSecond - 1);
  EXPECT_FALSE(source.is_asked());
  timers.advance(1);
  EXPECT_TRUE(source.is_asked());
}

TEST_F(RevisionWatchTest, ALocalCommitMovesTheGenerationAtOnceAndPolls) {
  start_at(7);
  const uint64_t before = watch.generation();
  watch.note_local_commit();
  EXPECT_EQ(watch.generation(), before + 1);
  EXPECT_EQ(listener.heard, std::vector<uint64_t>{before + 1});
  EXPECT_TRUE(source.is_asked());
  source.answer(8);
  EXPECT_EQ(watch.revision(), 8u);
  timers.advance(2 * kSecond - 1);
  EXPECT_FALSE(source.is_asked()) << "the regular poll is counted from the extra one";
  timers.advance(1);
  EXPECT_TRUE(source.is_asked());
}

TEST_F(RevisionWatchTest, APollBegunBeforeALocalCommitIsNotThePollAfterIt) {
  start_at(7);
  next_poll();
  watch.note_local_commit();
  watch.note_local_commit();
  EXPECT_EQ(source.polls_count, 2) << "one at a time";
  source.answer(7);
  EXPECT_EQ(source.polls_count, 3);
  ASSERT_TRUE(source.is_asked());
  source.answer(9);
  EXPECT_EQ(watch.revision(), 9u);
  EXPECT_FALSE(source.is_asked());
}

TEST_F(RevisionWatchTest, APollThatHangsHasFailedAndNothingPilesUp) {
  start_at(7);
  next_poll();
  timers.advance(2 * kSecond - 1);
  EXPECT_TRUE(watch.is_healthy());
  timers.advance(1);
  EXPECT_FALSE(watch.is_healthy());
  EXPECT_EQ(watch.stats().polls_failed_count, 1u);
  timers.advance(60 * kSecond);
  watch.note_local_commit();
  EXPECT_EQ(source.polls_count, 2);
  EXPECT_EQ(watch.stats().polls_failed_count, 1u);
}

TEST_F(RevisionWatchTest, TheLateAnswerOfAPollTellsOfAMoveAndAPollFollows) {
  start_at(7);
  const uint64_t good_us = watch.last_good_us();
  const uint64_t before = watch.generation();
  next_poll();
  timers.advance(3 * kSecond);
  source.answer(8);
  EXPECT_EQ(watch.generation(), before + 1);
  EXPECT_FALSE(watch.is_healthy());
  EXPECT_EQ(watch.last_good_us(), good_us);
  ASSERT_TRUE(source.is_asked()) << "at once";
  source.answer(8);
  EXPECT_TRUE(watch.is_healthy());
  EXPECT_EQ(watch.generation(), before + 1);
}

TEST_F(RevisionWatchTest, ALateErrorIsNotCountedTwice) {
  start_at(7);
  next_poll();
  timers.advance(3 * kSecond);
  source.fail_poll();
  EXPECT_EQ(watch.stats().polls_failed_count, 1u);
  EXPECT_TRUE(source.is_asked());
}

TEST_F(RevisionWatchTest, ALateAnswerLiftsNoInconsistency) {
  start_at(7);
  next_poll();
  source.answer(6);
  next_poll();
  timers.advance(3 * kSecond);
  source.answer(7);
  EXPECT_FALSE(watch.is_consistent());
  source.answer(7);
  EXPECT_TRUE(watch.is_consistent());
}

TEST_F(RevisionWatchTest, ListenersMayRemoveThemselvesAndOthersDuringTheCall) {
  Listener leaves, taken, stays;
  leaves.watch = &watch;
  leaves.other = &taken;
  for (Listener* l : {&leaves, &taken, &stays}) watch.add_listener(*l);
  start_at(7);
  const std::size_t heard = leaves.heard.size();
  EXPECT_EQ(heard, 1u);
  EXPECT_TRUE(taken.heard.empty());
  EXPECT_EQ(stays.heard.size(), 1u);
  watch.note_local_commit();
  EXPECT_EQ(leaves.heard.size(), heard);
  EXPECT_EQ(stays.heard.size(), 2u);
  watch.remove_listener(taken);  // not there any more: harmless
}

TEST_F(RevisionWatchTest, TroubleIsToldOnceAndSoIsItsEnd) {
  start_at(7);
  const test::CapturedLog log;
  for (int i = 0; i < 3; i++) {
    next_poll();
    source.fail_poll();
  }
  for (int i = 0; i < 3; i++) {
    next_poll();
    source.answer(6);
  }
  EXPECT_EQ(log.count("revision_polls_fail"), 1u);
  EXPECT_EQ(log.count("revision_inconsistent highest=7"), 1u);
  EXPECT_EQ(log.count("revision_followed_again"), 0u);
  for (int i = 0; i < 3; i++) {
    next_poll();
    source.answer(7);
  }
  EXPECT_EQ(log.count("revision_followed_again"), 1u);
}

TEST_F(RevisionWatchTest, NoForeignQuestionUnlessAskedFor) {
  start_at(7);
  timers.advance(10 * kSecond);
  EXPECT_EQ(source.questions_count, 0);
}

struct ForeignCommitTest : RevisionWatchTest {
  ForeignCommitTest() : RevisionWatchTest({.foreign_commit_interval_us = kSecond / 2}) { start_at(7); }
};

TEST_F(ForeignCommitTest, TheQuestionIsAskedEveryHalfSecond) {
  timers.advance(kSecond / 2 - 1);
  EXPECT_FALSE(source.is_questioned());
  timers.advance(1);
  ASSERT_TRUE(source.is_questioned());
  source.answer_question(std::optional(false));
  EXPECT_FALSE(source.is_asked());
  timers.advance(kSecond / 2);
  EXPECT_EQ(source.questions_count, 2);
}

TEST_F(ForeignCommitTest, AForeignCommitIsAPollAtOnce) {
  timers.advance(kSecond / 2);
  source.answer_question(std::optional(true));
  ASSERT_TRUE(source.is_asked());
  source.answer(8);
  EXPECT_EQ(watch.revision(), 8u);
  EXPECT_EQ(listener.heard.size(), 1u);
}

TEST_F(ForeignCommitTest, APollBegunBeforeTheAnswerIsNotThePollAfterIt) {
  for (int i = 0; i < 3; i++) {
    timers.advance(kSecond / 2);
    source.answer_question(std::optional(false));
  }
  timers.advance(kSecond / 2);  // both are asked
  ASSERT_TRUE(source.is_asked());
  source.answer_question(std::optional(true));
  source.answer(7);
  EXPECT_TRUE(source.is_asked());
}

TEST_F(ForeignCommitTest, AnErrorOrNoKnowledgeIsNoReasonToPoll) {
  timers.advance(kSecond / 2);
  source.answer_question(fail(TMESH_E_IO, "failed by the test"));
  timers.advance(kSecond / 2);
  ASSERT_TRUE(source.is_questioned());
  source.answer_question(std::optional<bool>());
  EXPECT_FALSE(source.is_asked());
}

TEST_F(ForeignCommitTest, AQuestionThatHangsStopsNoPollAndNothingPilesUp) {
  timers.advance(2 * kSecond);
  EXPECT_EQ(source.questions_count, 1);
  EXPECT_TRUE(source.is_asked());
}

TEST_F(ForeignCommitTest, ASourceThatIsFullIsAskedAgain) {
  source.is_full = true;
  timers.advance(kSecond / 2);
  source.is_full = false;
  timers.advance(kSecond / 2);
  EXPECT_TRUE(source.is_questioned());
}

TEST_F(RevisionWatchTest, NothingIsCalledAfterTheEnd) {
  std::optional<RevisionWatch> other;
  other.emplace(timers, source, RevisionWatch::Settings{.foreign_commit_interval_us = 1});
  other->start();
  timers.advance(1);
  ASSERT_TRUE(source.is_asked());
  other.reset();
  EXPECT_FALSE(source.is_asked());
  EXPECT_FALSE(source.is_questioned());
  EXPECT_EQ(timers.count(), 0u);
}

}  // namespace
}  // namespace tmesh::server
