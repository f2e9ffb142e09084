#include "cpp/net/loop.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <vector>

#include "cpp/net/listener.hpp"
#include "cpp/net/process.hpp"
#include "cpp/net/signal.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

struct Event {
  Loop* loop;
  std::vector<int>* order = nullptr;
  int number = 0;
  int runs = 0;
  uint64_t at_us = 0;
  void run() {
    ++runs;
    at_us = loop->now_us();
    if (order != nullptr) order->push_back(number);
  }
  Delegate<void()> call() { return Delegate<void()>::bind<&Event::run>(this); }
};

TEST_F(LoopTest, ATimerIsNeverEarlyAndNeverInsideTheCall) {
  for (uint64_t delay_us : {uint64_t{0}, uint64_t{1}, uint64_t{999}, uint64_t{1000}, uint64_t{5500}}) {
    Event event{&loop()};
    uint64_t start_us = loop().now_us();
    Ticket ticket = loop().after(delay_us, event.call());
    EXPECT_EQ(event.runs, 0);
    ASSERT_TRUE(run_until([&] { return event.runs > 0; }));
    EXPECT_EQ(event.runs, 1);
    EXPECT_GE(event.at_us, start_us + delay_us);
  }
}

TEST_F(LoopTest, TimersRunInOrderOfTheirDeadlines) {
  std::vector<int> order;
  Event late{&loop(), &order, 2};
  Event soon{&loop(), &order, 1};
  Ticket a = loop().after(20'000, late.call());
  Ticket b = loop().after(5'000, soon.call());
  ASSERT_TRUE(run_until([&] { return order.size() == 2; }));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(LoopTest, ADestroyedTicketMeansNoCall) {
  Event cancelled{&loop()};
  Event other{&loop()};
  {
    Ticket ticket = loop().after(1'000, cancelled.call());
  }
  Ticket ticket = loop().after(5'000, other.call());
  ASSERT_TRUE(run_until([&] { return other.runs > 0; }));
  EXPECT_EQ(cancelled.runs, 0);
}

TEST_F(LoopTest, ATimerMayCancelAnotherThatIsDueToo) {
  struct Canceller {
    Ticket victim;
    void run() { victim.cancel(); }
  } canceller;
  Event victim{&loop()};
  Event end{&loop()};
  Ticket first = loop().after(1'000, Delegate<void()>::bind<&Canceller::run>(&canceller));
  canceller.victim = loop().after(1'000, victim.call());
  Ticket last = loop().after(1'000, end.call());
  ASSERT_TRUE(run_until([&] { return end.runs > 0; }));
  EXPECT_EQ(victim.runs, 0);
}

// A deadline on a peer is judged only after the bytes that wait were read.
TEST_F(LoopTest, APollComesBeforeADeadlineThatPassedMeanwhile) {
  std::vector<int> order;
  Event deadline{&loop(), &order, 2};
  struct Reader {
    std::vector<int>* order;
    void on_accept(int fd, const Peer&) {
      order->push_back(1);
      ::close(fd);
    }
    void on_broken(tmesh_status) {}
  } reader{&order};
  auto listener = Listener::open(loop(), "127.0.0.1", 0,
                                 {Delegate<void(int, const Peer&)>::bind<&Reader::on_accept>(&reader),
                                  Delegate<void(tmesh_status)>::bind<&Reader::on_broken>(&reader)});
  ASSERT_TRUE(listener.has_value());
  RawClient client(listener->port());  // waits in the kernel
  Ticket ticket = loop().after(1'000, deadline.call());
  timespec busy{0, 5'000'000};  // the loop did something else past the deadline
  nanosleep(&busy, nullptr);
  ASSERT_TRUE(run_until([&] { return order.size() == 2; }));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_F(LoopTest, RunReturnsWhenNothingIsLeftAndOnStop) {
  loop().run();
  struct Stopper {
    Loop* loop;
    void run() { loop->stop(); }
  } stopper{&loop()};
  Event never{&loop()};
  Ticket far = loop().after(3'600'000'000, never.call());
  Ticket soon = loop().after(1'000, Delegate<void()>::bind<&Stopper::run>(&stopper));
  loop().run();
  EXPECT_EQ(never.runs, 0);
  EXPECT_EQ(loop().timer_count(), 1u);
}

TEST_F(LoopTest, WallTimeIsTheSystems) {
  int64_t before = static_cast<int64_t>(std::time(nullptr));
  EXPECT_GE(loop().wall_us() / 1'000'000, before);
  EXPECT_LE(loop().wall_us() / 1'000'000, before + 60);
}

TEST_F(LoopTest, SignalsArriveUntilTheObjectIsGone) {
  struct Receiver {
    std::vector<int> seen;
    void on_signal(int number) { seen.push_back(number); }
  } receiver;
  {
    auto signals = Signals::open(loop(), Delegate<void(int)>::bind<&Receiver::on_signal>(&receiver));
    ASSERT_TRUE(signals.has_value());
    for (int number : {SIGTERM, SIGHUP, SIGINT}) {
      std::raise(number);
      ASSERT_TRUE(run_until([&] { return !receiver.seen.empty() && receiver.seen.back() == number; }));
    }
    loop().run();  // watching for signals alone does not keep the loop running
  }
  EXPECT_EQ(receiver.seen, (std::vector<int>{SIGTERM, SIGHUP, SIGINT}));
}

TEST(ProcessTest, RaisesTheOpenFileLimitToTheHardOne) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  EXPECT_EQ(open_file_limit(), 64u);
  EXPECT_EQ(raise_open_file_limit(), std::min<std::size_t>(before.rlim_max, 1'048'576));
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST(ProcessTest, AWriteToABrokenPipeIsAnError) {
  ignore_sigpipe();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  EXPECT_EQ(::write(ends[1], "x", 1), -1);
  ::close(ends[1]);
}

}  // namespace
}  // namespace tmesh::net
