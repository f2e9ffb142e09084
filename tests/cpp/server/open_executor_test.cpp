#include "tests/cpp/server/open_executor_fixture.hpp"

namespace tmesh::server {
namespace {

TEST_F(OpenExecutorTest, NothingRunsInsideSubmit) {
  OpenExecutor& executor = with(Limits{});
  Job& job = make("a");
  ASSERT_TRUE(executor.submit(job, "token", 1));
  EXPECT_EQ(job.runs, 0);
  EXPECT_FALSE(job.is_running());
  turn();
  EXPECT_EQ(job.runs, 1);
  EXPECT_TRUE(job.is_running());
}

TEST_F(OpenExecutorTest, AtMostConcurrentMaxRun) {
  OpenExecutor& executor = with(Limits{3, 100, 100});
  for (uint64_t i = 0; i < 10; i++) ASSERT_TRUE(executor.submit(make(), "t" + std::to_string(i), i));
  turn();
  EXPECT_EQ(executor.running_count(), 3u);
  EXPECT_EQ(executor.waiting_count(), 7u);
  jobs[0]->finish();
  EXPECT_EQ(executor.running_count(), 2u) << "the next does not start inside finish()";
  turn();
  EXPECT_EQ(executor.running_count(), 3u);
}

TEST_F(OpenExecutorTest, AtMostPerLinkMaxRunOfOneLink) {
  OpenExecutor& executor = with(Limits{10, 100, 2});
  for (int i = 0; i < 5; i++) ASSERT_TRUE(executor.submit(make("one"), "t", 1));
  ASSERT_TRUE(executor.submit(make("two"), "t", 2));
  turn();
  EXPECT_EQ(executor.running_count(), 3u) << "two of link 1, one of link 2";
  jobs[0]->finish();
  turn();
  EXPECT_EQ(executor.running_count(), 3u);
}

TEST_F(OpenExecutorTest, OneLinkMayFillHalfOfTheQueue) {
  OpenExecutor& executor = with(Limits{1, 8, 1});
  for (int i = 0; i < 4; i++) ASSERT_TRUE(executor.submit(make(), "t", 1));
  Job& refused = make();
  EXPECT_FALSE(executor.submit(refused, "t", 1));
  EXPECT_EQ(executor.stats().refused_count, 1u);
  EXPECT_TRUE(executor.submit(refused, "t", 2)) << "a refused job may be offered again";
}

TEST_F(OpenExecutorTest, AtMostPendingMaxWait) {
  OpenExecutor& executor = with(Limits{1, 4, 1});
  for (uint64_t i = 0; i < 4; i++) ASSERT_TRUE(executor.submit(make(), "t" + std::to_string(i), i));
  EXPECT_FALSE(executor.submit(make(), "t9", 9));
  EXPECT_EQ(executor.links_count(), 4u) << "nothing is kept about a link that was refused";
}

TEST_F(OpenExecutorTest, ATokenWithManyLinksCannotFillTheQueueForOthers) {
  OpenExecutor& executor = with(Limits{1, 1024, 1});
  for (uint64_t link = 1; link <= 8; link++) {
    for (int i = 0; i < 512; i++) (void)executor.submit(make("flood"), "flood", link);
  }
  EXPECT_EQ(executor.waiting_count(), 1024u - 128u);
  for (int i = 0; i < 16; i++) EXPECT_TRUE(executor.submit(make("other"), "other", 9)) << i;
  EXPECT_FALSE(executor.submit(make("other"), "other", 9)) << "the last eighth is for many";
  EXPECT_TRUE(executor.submit(make("third"), "third", 10));
}

// Dials of dead targets hold their slots for seconds: a token with several links must not
// hold all of them.
TEST_F(OpenExecutorTest, ATokenWithManyLinksCannotRunInAllSlots) {
  OpenExecutor& executor = with(Limits{});
  for (uint64_t link = 1; link <= 4; link++) {
    for (int i = 0; i < 128; i++) ASSERT_TRUE(executor.submit(make("flood"), "flood", link));
  }
  turn();
  EXPECT_EQ(executor.running_count(), 256u - 32u);
  for (int i = 0; i < 32; i++) ASSERT_TRUE(executor.submit(make("other"), "other", 9));
  turn();
  EXPECT_EQ(executor.running_count(), 256u - 32u + 8u) << "the last eighth is for many";
  EXPECT_EQ(started.back(), "other");
  ASSERT_TRUE(executor.submit(make("third"), "third", 10));
  turn();
  EXPECT_EQ(started.back(), "third");
  jobs.erase(jobs.begin(), jobs.begin() + 100);
  turn();
  EXPECT_EQ(executor.running_count(), 256u - 32u) << "what others left is for everybody";
  jobs.clear();
  EXPECT_EQ(executor.links_count() + executor.tokens_count(), 0u);
}

// A reload: what waits above a lower limit goes on waiting, what a higher one lets through starts.
TEST_F(OpenExecutorTest, NewLimitsCountAtOnce) {
  OpenExecutor& executor = with(Limits{8, 100, 2});
  for (int i = 0; i < 6; i++) ASSERT_TRUE(executor.submit(make("a"), "a", 1));
  turn();
  EXPECT_EQ(executor.running_count(), 2u) << "two for the link";
  executor.use(Limits{8, 100, 4});
  turn();
  EXPECT_EQ(executor.running_count(), 4u);
  executor.use(Limits{1, 2, 1});
  turn();
  EXPECT_EQ(executor.running_count(), 4u);
  EXPECT_EQ(executor.waiting_count(), 2u);
  EXPECT_FALSE(executor.submit(make("b"), "b", 2));
  for (int i = 0; i < 4; i++) jobs[static_cast<std::size_t>(i)]->finish();
  turn();
  EXPECT_EQ(executor.running_count(), 1u);
  executor.use(Limits{8, 100, 4});
  turn();
  EXPECT_EQ(executor.running_count(), 2u);
}

TEST_F(OpenExecutorTest, TokensTakeTurnsAndThenTheirLinks) {
  OpenExecutor& executor = with(Limits{1, 100, 10});
  for (int i = 0; i < 3; i++) ASSERT_TRUE(executor.submit(make("a1"), "a", 1));
  for (int i = 0; i < 3; i++) ASSERT_TRUE(executor.submit(make("a2"), "a", 2));
  for (int i = 0; i < 2; i++) ASSERT_TRUE(executor.submit(make("b3"), "b", 3));
  for (std::size_t i = 0; i < 8; i++) {
    turn();
    ASSERT_EQ(started.size(), i + 1);
    for (auto& job : jobs) {
      if (job->is_running()) job->finish();
    }
  }
  EXPECT_EQ(started, (std::vector<std::string>{"a1", "b3", "a2", "b3", "a1", "a2", "a1", "a2"}));
}

TEST_F(OpenExecutorTest, TenThousandOpensOfOneClientDelayAnothersByOneJobAtMost) {
  OpenExecutor& executor = with(Limits{1, 1024, 128});
  std::size_t accepted = 0;
  for (int i = 0; i < 10'000; i++) accepted += executor.submit(make("flood"), "flood", 1);
  EXPECT_EQ(accepted, 512u);
  turn();  // the flood's first runs
  ASSERT_TRUE(executor.submit(make("other"), "other", 2));
  const std::size_t before = started.size();
  for (int i = 0; i < 2; i++) {
    for (auto& job : jobs) {
      if (job->is_running()) job->finish();
    }
    turn();
  }
  ASSERT_EQ(started.size(), before + 2);
  EXPECT_TRUE(started[before] == "other" || started[before + 1] == "other");
}

// Links at their limit wait without being looked at; they are back in turn with the first
// of their jobs that ends.
TEST_F(OpenExecutorTest, ALinkAtItsLimitLeavesTheTurnsAndComesBack) {
  OpenExecutor& executor = with(Limits{8, 100, 2});
  for (int i = 0; i < 4; i++) ASSERT_TRUE(executor.submit(make("full"), "a", 1));
  turn();
  EXPECT_EQ(started, (std::vector<std::string>{"full", "full"}));
  EXPECT_EQ(executor.waiting_count(), 2u);
  EXPECT_EQ(timers.count(), 0u) << "nothing can start, so nothing is scheduled";
  ASSERT_TRUE(executor.submit(make("a2"), "a", 2));
  ASSERT_TRUE(executor.submit(make("b"), "b", 3));
  turn();
  EXPECT_EQ(started, (std::vector<std::string>{"full", "full", "a2", "b"}));
  jobs[0]->finish();
  turn();
  EXPECT_EQ(started.back(), "full");
  EXPECT_EQ(executor.waiting_count(), 1u);
  jobs.clear();
  EXPECT_EQ(executor.links_count() + executor.tokens_count(), 0u);
}

TEST_F(OpenExecutorTest, ASlotReturnsOnceWhenFinishIsRepeated) {
  OpenExecutor& executor = with(Limits{2, 10, 2});
  ASSERT_TRUE(executor.submit(make(), "t", 1));
  ASSERT_TRUE(executor.submit(make(), "t", 1));
  turn();
  jobs[0]->finish();
  jobs[0]->finish();
  EXPECT_EQ(executor.running_count(), 1u);
  jobs.erase(jobs.begin());
  EXPECT_EQ(executor.running_count(), 1u);
  jobs.clear();
  EXPECT_EQ(executor.running_count(), 0u);
  EXPECT_EQ(executor.links_count(), 0u);
}

TEST_F(OpenExecutorTest, ADestroyedWaitingJobLeavesTheQueue) {
  OpenExecutor& executor = with(Limits{1, 10, 1});
  for (int i = 0; i < 3; i++) ASSERT_TRUE(executor.submit(make(std::to_string(i)), "t", 1));
  turn();
  jobs.erase(jobs.begin() + 1);
  EXPECT_EQ(executor.waiting_count(), 1u);
  jobs.erase(jobs.begin());
  turn();
  EXPECT_EQ(started, (std::vector<std::string>{"0", "2"}));
  jobs.clear();
  EXPECT_EQ(executor.tokens_count(), 0u);
  EXPECT_EQ(executor.links_count(), 0u);
}

TEST_F(OpenExecutorTest, AJobMayDestroyItselfInOnRun) {
  OpenExecutor& executor = with(Limits{2, 10, 2});
  Job& job = make();
  job.run = [this] { jobs.erase(jobs.begin()); };
  ASSERT_TRUE(executor.submit(job, "t", 1));
  ASSERT_TRUE(executor.submit(make("next"), "t", 1));
  turn();
  EXPECT_EQ(executor.running_count(), 1u);
  EXPECT_EQ(started, std::vector<std::string>{"next"});
}

TEST_F(OpenExecutorTest, AJobMayDestroyAllOthersInOnRun) {
  OpenExecutor& executor = with(Limits{4, 20, 4});
  for (uint64_t i = 0; i < 6; i++) ASSERT_TRUE(executor.submit(make(), i % 2 == 0 ? "a" : "b", i));
  jobs[1]->run = [this] { jobs.clear(); };
  turn();
  EXPECT_EQ(executor.running_count(), 0u);
  EXPECT_EQ(executor.waiting_count(), 0u);
  EXPECT_EQ(executor.links_count(), 0u);
  EXPECT_EQ(executor.tokens_count(), 0u);
}

TEST_F(OpenExecutorTest, AJobMaySubmitOthersInOnRun) {
  OpenExecutor& executor = with(Limits{4, 20, 4});
  Job& inner = make("inner");
  Job& outer = make();
  outer.run = [&] { EXPECT_TRUE(executor.submit(inner, "t", 1)); };
  ASSERT_TRUE(executor.submit(outer, "t", 1));
  turn();
  EXPECT_EQ(started, std::vector<std::string>{"inner"});
}

TEST_F(OpenExecutorTest, AnOrphanKeepsItsSlotUntilItsWorkEnds) {
  OpenExecutor& executor = with(Limits{1, 10, 1});
  ASSERT_TRUE(executor.submit(make(), "t", 1));
  ASSERT_TRUE(executor.submit(make("next"), "t", 1));
  turn();
  timers.advance(60'000'000);  // its owner went away long ago; nobody called finish()
  EXPECT_TRUE(started == std::vector<std::string>{""});
  jobs[0]->finish();
  turn();
  EXPECT_EQ(started.back(), "next");
}

TEST_F(OpenExecutorTest, TheExecutorMayGoBeforeItsTimer) {
  ASSERT_TRUE(with(Limits{}).submit(make(), "t", 1));
  jobs.clear();
  made.reset();
  EXPECT_EQ(timers.count(), 0u);
  turn();
}

}  // namespace
}  // namespace tmesh::server
