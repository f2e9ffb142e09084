#include "cpp/net/timer_heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tmesh::net {
namespace {

struct Log {
  std::vector<int>* out;
  int number;
  void run() { out->push_back(number); }
};

Delegate<void()> to(Log& log) {
  return Delegate<void()>::bind<&Log::run>(&log);
}

void run_all(TimerHeap& heap, uint64_t now_us) {
  uint64_t mark = heap.mark();
  while (Delegate<void()> done = heap.take_due(now_us, mark)) done();
}

TEST(TimerHeapTest, RunsByDeadlineAndThenByOrderOfSetting) {
  TimerHeap heap;
  std::vector<int> out;
  Log logs[] = {{&out, 0}, {&out, 1}, {&out, 2}, {&out, 3}};
  heap.add(30, to(logs[3]));
  heap.add(10, to(logs[0]));
  heap.add(20, to(logs[1]));
  heap.add(20, to(logs[2]));
  EXPECT_EQ(heap.next_us(), 10u);
  run_all(heap, 29);
  EXPECT_EQ(out, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(heap.next_us(), 30u);
  EXPECT_EQ(heap.size(), 1u);
}

TEST(TimerHeapTest, ATimerThatSetsItselfAgainWaitsForTheNextRound) {
  TimerHeap heap;
  struct Again {
    TimerHeap* heap;
    int runs = 0;
    void run() {
      ++runs;
      heap->add(0, Delegate<void()>::bind<&Again::run>(this));
    }
  } again{&heap};
  heap.add(0, Delegate<void()>::bind<&Again::run>(&again));
  run_all(heap, 1);
  EXPECT_EQ(again.runs, 1);
  run_all(heap, 1);
  EXPECT_EQ(again.runs, 2);
}

TEST(TimerHeapTest, AStaleIdCancelsNothing) {
  TimerHeap heap;
  std::vector<int> out;
  Log log{&out, 7};
  uint64_t first = heap.add(10, to(log));
  EXPECT_NE(first, 0u);
  EXPECT_TRUE(heap.cancel(first));
  EXPECT_FALSE(heap.cancel(first));
  uint64_t second = heap.add(10, to(log));  // the same slot
  EXPECT_NE(first, second);
  EXPECT_FALSE(heap.cancel(first));
  run_all(heap, 10);
  EXPECT_EQ(out.size(), 1u);
  EXPECT_FALSE(heap.cancel(second));
  EXPECT_FALSE(heap.cancel(uint64_t{99} << 32 | 99));
}

TEST(TimerHeapTest, KeepsOrderUnderRandomAddsAndCancels) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    TimerHeap heap;
    std::vector<int> out;
    std::vector<Log> logs(500, Log{&out, 0});
    std::vector<std::pair<uint64_t, uint64_t>> live;  // due, id
    for (std::size_t i = 0; i < logs.size(); ++i) {
      uint64_t due = random() % 1000;
      logs[i].number = static_cast<int>(due);
      live.emplace_back(due, heap.add(due, to(logs[i])));
      if (random() % 3 == 0) {
        std::size_t victim = random() % live.size();
        ASSERT_TRUE(heap.cancel(live[victim].second)) << "seed " << seed << " step " << i;
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(victim));
      }
    }
    ASSERT_EQ(heap.size(), live.size());
    run_all(heap, 1000);
    std::vector<int> expected;
    for (const auto& [due, id] : live) expected.push_back(static_cast<int>(due));
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(out, expected) << "seed " << seed;
  }
}

}  // namespace
}  // namespace tmesh::net
