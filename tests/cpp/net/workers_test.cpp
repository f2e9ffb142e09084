#include "cpp/net/workers.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>

#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

class WorkersTest : public LoopTest {
 protected:
  void start(unsigned threads, std::size_t pending_max) {
    workers = std::move(*Workers::create(loop(), threads, pending_max));
  }
  // Occupies one thread until release_gate(); returns when it does.
  Ticket block() {
    auto entered = std::make_shared<std::promise<void>>();
    std::future<void> is_in = entered->get_future();
    auto ticket = workers->submit(
        [entered, gate = gate_future] {
          entered->set_value();
          gate.wait();
        },
        Delegate<void()>::bind<&WorkersTest::on_void>(this));
    EXPECT_TRUE(ticket.has_value());
    is_in.wait();
    return std::move(*ticket);
  }
  void release_gate() { gate.set_value(); }
  void on_int(int value) { ints.push_back(value); }
  void on_void() { ++voids; }
  void on_owned(std::unique_ptr<int> value) { owned = std::move(value); }
  Delegate<void(int)> to_int() { return Delegate<void(int)>::bind<&WorkersTest::on_int>(this); }
  Delegate<void(std::unique_ptr<int>)> to_owned() {
    return Delegate<void(std::unique_ptr<int>)>::bind<&WorkersTest::on_owned>(this);
  }

  std::promise<void> gate;
  std::shared_future<void> gate_future = gate.get_future().share();
  std::unique_ptr<Workers> workers;
  std::vector<int> ints;
  std::unique_ptr<int> owned;
  int voids = 0;
};

TEST_F(WorkersTest, WorkRunsElsewhereAndItsResultComesHere) {
  start(2, 8);
  std::thread::id here = std::this_thread::get_id();
  auto ticket = workers->submit([here] { return std::this_thread::get_id() == here ? 1 : 2; }, to_int());
  ASSERT_TRUE(ticket.has_value());
  EXPECT_TRUE(ints.empty()) << "never from inside the call";
  ASSERT_TRUE(run_until([&] { return !ints.empty(); }));
  EXPECT_EQ(ints, std::vector<int>{2});
  EXPECT_EQ(workers->active_count(), 0u);
}

TEST_F(WorkersTest, MovesWhatCannotBeCopied) {
  start(1, 8);
  auto ticket = workers->submit(
      [value = std::make_unique<int>(5)] { return std::make_unique<int>(*value + 1); }, to_owned());
  ASSERT_TRUE(run_until([&] { return owned != nullptr; }));
  EXPECT_EQ(*owned, 6);
}

TEST_F(WorkersTest, RefusesMoreThanMayWait) {
  start(1, 2);
  Ticket running = block();
  auto one = workers->submit([] { return 1; }, to_int());
  auto two = workers->submit([] { return 2; }, to_int());
  auto three = workers->submit([] { return 3; }, to_int());
  EXPECT_TRUE(one && two);
  ASSERT_FALSE(three.has_value());
  EXPECT_EQ(three.error().code, TMESH_E_LIMIT);
  release_gate();
  ASSERT_TRUE(run_until([&] { return ints.size() == 2; }));
  EXPECT_EQ(ints, (std::vector<int>{1, 2}));
  EXPECT_EQ(voids, 1);
}

TEST_F(WorkersTest, ADestroyedTicketRemovesAWaitingJob) {
  start(1, 8);
  Ticket running = block();
  std::atomic<bool> has_run = false;
  auto job = workers->submit([&has_run] { return has_run = true, 1; }, to_int());
  job->cancel();
  auto last = workers->submit([] { return 9; }, to_int());
  release_gate();
  ASSERT_TRUE(run_until([&] { return !ints.empty(); }));
  EXPECT_EQ(ints, std::vector<int>{9});
  EXPECT_FALSE(has_run);
}

TEST_F(WorkersTest, ADestroyedTicketDropsTheResultOfARunningJob) {
  start(1, 8);
  {
    Ticket running = block();
  }
  EXPECT_EQ(workers->active_count(), 0u);
  release_gate();
  auto last = workers->submit([] { return 9; }, to_int());
  ASSERT_TRUE(run_until([&] { return !ints.empty(); }));
  EXPECT_EQ(voids, 0);
}

TEST_F(WorkersTest, DestroyingThePoolWaitsForRunningJobsAndCallsNobody) {
  start(1, 8);
  Ticket running = block();
  auto waiting = workers->submit([] { return 1; }, to_int());
  running.release();
  waiting->release();
  std::thread opener([this] { release_gate(); });
  workers.reset();
  opener.join();
  EXPECT_FALSE(run_until([&] { return voids > 0 || !ints.empty(); }, 20'000));
}

}  // namespace
}  // namespace tmesh::net
