#include "cpp/agent/dial_executor.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "tests/cpp/agent/fakes.hpp"

namespace tmesh::agent {
namespace {

using test::FakeDialer;
using test::FakeTimers;

constexpr uint64_t kSecond = 1'000'000;

// One stream that wants a target.
struct Opener {
  Ticket ticket;
  std::optional<DialOutcome> outcome;
  bool is_in_submit = false;
  Delegate<void()> then;

  void on_done(const DialOutcome& o) {
    EXPECT_FALSE(is_in_submit);
    EXPECT_FALSE(outcome.has_value());
    outcome = o;
    ticket.release();
    if (then) then();
  }
};

class DialExecutorTest : public ::testing::Test {
 protected:
  void make(DialSettings settings) {
    executor_ = std::make_unique<DialExecutor>(timers_, dialer_, policy_, settings);
  }
  void SetUp() override { make({}); }
  void TearDown() override {
    openers_.clear();
    executor_.reset();
    EXPECT_EQ(timers_.count(), 0u);
    EXPECT_TRUE(dialer_.running().empty());
  }
  bool submit(Opener& opener, std::string_view host) {
    opener.is_in_submit = true;
    Result<Ticket> ticket = executor_->submit(host, 443, DialExecutor::Done::bind<&Opener::on_done>(&opener));
    opener.is_in_submit = false;
    if (!ticket) {
      EXPECT_EQ(ticket.error().code, TMESH_E_LIMIT);
      return false;
    }
    opener.ticket = std::move(*ticket);
    return true;
  }
  Opener& open(std::string_view host) {
    openers_.push_back(std::make_unique<Opener>());
    EXPECT_TRUE(submit(*openers_.back(), host));
    return *openers_.back();
  }
  void open_many(std::size_t n, std::string_view host) {
    for (std::size_t i = 0; i < n; ++i) open(host);
  }
  static void expect(const Opener& o, tmesh_open_stage stage, tmesh_open_code code) {
    ASSERT_TRUE(o.outcome.has_value());
    EXPECT_EQ(o.outcome->result.stage, stage);
    EXPECT_EQ(o.outcome->result.code, code);
    EXPECT_EQ(o.outcome->result.accepted, o.outcome->fd >= 0);
  }

  FakeTimers timers_;
  FakeDialer dialer_;
  Policy policy_;
  std::vector<std::unique_ptr<Opener>> openers_;
  std::unique_ptr<DialExecutor> executor_;
};

TEST_F(DialExecutorTest, DefaultsAreTheRequirements) {
  const DialSettings s;
  EXPECT_EQ(s.concurrent_max, 32u);
  EXPECT_EQ(s.pending_max, 128u);
  EXPECT_EQ(s.connect_timeout_us, 5 * kSecond);
  EXPECT_EQ(s.open_timeout_us, 8 * kSecond);
  EXPECT_EQ(kSlowAfterUs, kSecond);
  EXPECT_EQ(kSlowMax, 256u);
}

TEST_F(DialExecutorTest, ADialRunsAtOnceAndIsClassified) {
  Opener& good = open("good");
  Opener& bad = open("bad");
  ASSERT_EQ(dialer_.running().size(), 2u);
  const DialRequest& request = dialer_.running()[0].request;
  EXPECT_EQ(request.port, 443);
  EXPECT_EQ(request.timeout_us, 8 * kSecond);
  EXPECT_EQ(request.connect_timeout_us, 5 * kSecond);
  dialer_.end("good", FakeDialer::connected(7));
  dialer_.end("bad", FakeDialer::failed(TMESH_E_REFUSED));
  expect(good, TMESH_STAGE_CONNECT, TMESH_OPEN_OK);
  EXPECT_EQ(good.outcome->fd, 7);
  EXPECT_EQ(good.outcome->dns_us, 11u);
  EXPECT_EQ(good.outcome->connect_us, 22u);
  EXPECT_EQ(good.outcome->queue_us, 0u);
  expect(bad, TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED);
}

TEST_F(DialExecutorTest, ConcurrencyAndQueueAreBounded) {
  open_many(32 + 128, "x");
  EXPECT_EQ(dialer_.running().size(), 32u);
  EXPECT_EQ(executor_->running_count(), 32u);
  EXPECT_EQ(executor_->pending_count(), 128u);
  Opener late;
  EXPECT_FALSE(submit(late, "late"));  // at once, and nothing is called
  EXPECT_EQ(executor_->counts().refused_full, 1u);
  dialer_.end("x", FakeDialer::failed(TMESH_E_REFUSED));
  EXPECT_EQ(dialer_.running().size(), 32u);  // the first in the queue took the slot
  EXPECT_TRUE(submit(late, "late"));
  EXPECT_FALSE(late.outcome.has_value());
}

TEST_F(DialExecutorTest, WaitingDialsStartInOrder) {
  make({.concurrent_max = 1});
  open("a");
  Opener& b = open("b");
  open("c");
  timers_.advance(300);
  EXPECT_EQ(executor_->oldest_wait_us(), 300u);
  dialer_.end("a", FakeDialer::failed(TMESH_E_REFUSED));
  dialer_.end("b", FakeDialer::connected(5));
  EXPECT_EQ(dialer_.started(), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(b.outcome->queue_us, 300u);
  EXPECT_EQ(executor_->oldest_wait_us(), 0u);
}

TEST_F(DialExecutorTest, OpenTimeoutCountsFromAcceptance) {
  make({.concurrent_max = 1});
  open("first");
  open("second");
  timers_.advance(40'000);
  dialer_.end("first", FakeDialer::failed(TMESH_E_REFUSED));
  ASSERT_EQ(dialer_.running().size(), 1u);
  EXPECT_EQ(dialer_.running()[0].request.timeout_us, 8 * kSecond - 40'000);
}

TEST_F(DialExecutorTest, ADialThatNeverGotASlotTimesOutInTheQueue) {
  make({.concurrent_max = 1, .open_timeout_us = kSlowWhenCrowdedUs - 10'000});
  open("holds");
  Opener& waits = open("waits");
  timers_.advance(kSlowWhenCrowdedUs - 10'001);
  EXPECT_FALSE(waits.outcome.has_value());
  timers_.advance(1);
  expect(waits, TMESH_STAGE_QUEUE, TMESH_OPEN_TIMEOUT);
  EXPECT_TRUE(waits.outcome->result.retryable);
  EXPECT_EQ(waits.outcome->queue_us, kSlowWhenCrowdedUs - 10'000);
  EXPECT_EQ(dialer_.started().size(), 1u);
}

TEST_F(DialExecutorTest, ASlowDialFreesItsSlot) {
  make({.concurrent_max = 2});
  Opener& hole = open("hole");
  open("hole");
  open("fine");
  EXPECT_EQ(executor_->pending_count(), 1u);
  timers_.advance(kSlowWhenCrowdedUs - 1);
  EXPECT_EQ(dialer_.started().size(), 2u);
  timers_.advance(1);
  EXPECT_EQ(dialer_.started().back(), "fine");  // requirement K6: not after 8 s
  EXPECT_EQ(executor_->slow_count(), 1u);       // as many as are wanted
  EXPECT_EQ(executor_->running_count(), 2u);
  timers_.advance(kSlowAfterUs - kSlowWhenCrowdedUs);
  EXPECT_EQ(executor_->slow_count(), 2u);
  EXPECT_EQ(executor_->counts().moved_slow, 2u);
  dialer_.end("hole", FakeDialer::connected(9));  // and is still answered
  expect(hole, TMESH_STAGE_CONNECT, TMESH_OPEN_OK);
  EXPECT_EQ(executor_->slow_count(), 1u);
}

TEST_F(DialExecutorTest, ABurstBehindHungDialsDoesNotWaitForThem) {
  open_many(40, "hole");
  timers_.advance(300'000);
  EXPECT_EQ(executor_->pending_count(), 0u);  // the last eight took over at 50 ms
  open_many(32, "fine");
  EXPECT_EQ(executor_->pending_count(), 0u);
  EXPECT_EQ(std::ranges::count(dialer_.running(), "fine", &FakeDialer::Job::host), 32);
}

TEST_F(DialExecutorTest, AfterStopNobodyIsInAHurry) {
  make({.concurrent_max = 2});
  Opener& leaves = open("hole");
  open("hole");
  open("waits");
  executor_->stop();
  leaves.ticket.cancel();  // a free slot that nobody takes any more
  // A timer that is due again and again would keep this from ending.
  timers_.advance(kSlowAfterUs - 1);
  EXPECT_EQ(executor_->slow_count(), 0u);
}

TEST_F(DialExecutorTest, NobodyIsSlowBeforeItsTimeWhileNobodyWaits) {
  open_many(32, "far");
  timers_.advance(kSlowAfterUs - 1);
  EXPECT_EQ(executor_->slow_count(), 0u);
}

TEST_F(DialExecutorTest, TheSlowClassIsBoundedToo) {
  make({.concurrent_max = 100, .open_timeout_us = 60 * kSecond});
  for (int i = 0; i < 3; ++i) {
    open_many(100, "hole");
    timers_.advance(kSlowAfterUs);
  }
  EXPECT_EQ(executor_->slow_count(), kSlowMax);
  EXPECT_EQ(executor_->running_count(), 300 - kSlowMax);
  open_many(60, "hole");
  timers_.advance(10 * kSecond);
  EXPECT_EQ(executor_->running_count(), 100u);
  EXPECT_EQ(executor_->pending_count(), 4u);
  dialer_.end("hole", FakeDialer::failed(TMESH_E_TIMEOUT));  // a slow one: the next takes its place
  EXPECT_EQ(executor_->slow_count(), kSlowMax);
  EXPECT_EQ(executor_->pending_count(), 3u);
}

TEST_F(DialExecutorTest, DestroyingTheTicketCancels) {
  make({.concurrent_max = 1});
  Opener& runs = open("runs");
  Opener& waits = open("waits");
  open("next");
  waits.ticket.cancel();
  EXPECT_EQ(executor_->pending_count(), 1u);
  EXPECT_EQ(dialer_.cancelled_count(), 0u);
  runs.ticket.cancel();
  EXPECT_EQ(dialer_.cancelled_count(), 1u);
  ASSERT_EQ(dialer_.running().size(), 1u);  // the slot went on to the next
  EXPECT_EQ(dialer_.running()[0].host, "next");
  timers_.advance(20 * kSecond);
  EXPECT_FALSE(runs.outcome.has_value());
  EXPECT_FALSE(waits.outcome.has_value());
  EXPECT_EQ(executor_->counts().cancelled, 2u);
}

TEST_F(DialExecutorTest, ASlowDialCanBeCancelled) {
  Opener& hole = open("hole");
  timers_.advance(2 * kSecond);
  EXPECT_EQ(executor_->slow_count(), 1u);
  hole.ticket.cancel();
  EXPECT_EQ(executor_->slow_count(), 0u);
  EXPECT_EQ(dialer_.cancelled_count(), 1u);
}

TEST_F(DialExecutorTest, AStaleTicketCancelsNobody) {
  Opener& o = open("a");
  Ticket stale = std::move(o.ticket);
  dialer_.end("a", FakeDialer::connected(3));
  open("b");
  stale.cancel();
  EXPECT_EQ(dialer_.running().size(), 1u);
  EXPECT_EQ(executor_->counts().cancelled, 0u);
}

TEST_F(DialExecutorTest, ADialThatIsRefusedAtOnceIsToldLater) {
  dialer_.refuse_with(TMESH_E_DNS);
  Opener& bad = open("0x7f.1");
  Opener& gone = open("127.1");
  EXPECT_FALSE(bad.outcome.has_value());
  gone.ticket.cancel();
  timers_.advance(0);
  expect(bad, TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE);
  EXPECT_FALSE(gone.outcome.has_value());
  dialer_.refuse_with(TMESH_E_LIMIT);
  Opener& full = open("name");
  timers_.advance(0);
  expect(full, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL);
  dialer_.refuse_with(TMESH_E_NO_MEMORY);
  Opener& poor = open("name");
  timers_.advance(0);
  expect(poor, TMESH_STAGE_CONNECT, TMESH_OPEN_INTERNAL_ERROR);
}

TEST_F(DialExecutorTest, ThePolicyIsPartOfTheJob) {
  open("name.test");
  open("localhost");
  const IpAddress loopback{4, {127, 0, 0, 1}};
  const IpAddress metadata{4, {169, 254, 169, 254}};
  const IpAddress inner{4, {10, 0, 0, 1}};
  const auto& jobs = dialer_.running();
  EXPECT_TRUE(jobs[0].request.filter(inner, true));
  EXPECT_FALSE(jobs[0].request.filter(metadata, true));
  EXPECT_FALSE(jobs[0].request.filter(loopback, true));
  EXPECT_TRUE(jobs[0].request.filter(loopback, false));
  EXPECT_TRUE(jobs[1].request.filter(loopback, true));
  dialer_.end("name.test", FakeDialer::failed(TMESH_E_POLICY));
  expect(*openers_[0], TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN);
}

TEST_F(DialExecutorTest, ManyCancelledOpensAreRefused) {
  for (uint32_t i = 0; i < kCancelsMax; ++i) {
    if (i % 512 == 0) timers_.advance(kSecond);
    Opener o;
    ASSERT_TRUE(submit(o, "x")) << i;
  }  // cancelled by the destructor
  Opener late;
  EXPECT_FALSE(submit(late, "x"));
  EXPECT_EQ(executor_->counts().refused_cancels, 1u);
  timers_.advance(kCancelWindowSeconds * kSecond / 2);
  EXPECT_TRUE(submit(late, "x"));  // the oldest are ten seconds ago
  timers_.advance(kCancelWindowSeconds * kSecond);
  Opener later;
  EXPECT_TRUE(submit(later, "x"));
}

// Else the clients of one server that gave up on black holes would have others refused.
TEST_F(DialExecutorTest, OpensGivenUpAfterASecondDoNotCount) {
  make({.concurrent_max = kCancelsMax});
  open_many(kCancelsMax, "x");
  timers_.advance(kQuickCancelUs);
  openers_.clear();
  EXPECT_EQ(executor_->counts().cancelled, kCancelsMax);
  open_many(kCancelsMax, "x");
  timers_.advance(kQuickCancelUs - 1);
  openers_.clear();
  Opener late;
  EXPECT_FALSE(submit(late, "x")) << "in time, and too many";
}

TEST_F(DialExecutorTest, AnsweredOpensAreNoCancels) {
  for (uint32_t i = 0; i < 3 * kCancelsMax; ++i) {
    Opener o;
    ASSERT_TRUE(submit(o, "x"));
    dialer_.end("x", FakeDialer::failed(TMESH_E_REFUSED));
    ASSERT_TRUE(o.outcome.has_value());
  }
  EXPECT_EQ(executor_->counts().cancelled, 0u);
}

TEST_F(DialExecutorTest, FullPagesMayCloseAgainAndAgain) {
  for (int page = 0; page < 3; ++page) {
    open_many(32 + 128, "x");
    openers_.clear();
  }
  open("x");
}

struct Resubmitter {
  DialExecutorTest* test = nullptr;
  DialExecutor* executor = nullptr;
  Opener opener;
  int count = 0;
  void again() {
    if (++count > 3) return;
    opener.outcome.reset();
    Result<Ticket> ticket = executor->submit("again", 1, DialExecutor::Done::bind<&Opener::on_done>(&opener));
    ASSERT_TRUE(ticket.has_value());
    opener.ticket = std::move(*ticket);
  }
};

TEST_F(DialExecutorTest, DoneMaySubmitAgain) {
  Resubmitter r{this, executor_.get(), {}, 0};
  r.opener.then = Delegate<void()>::bind<&Resubmitter::again>(&r);
  dialer_.refuse_with(TMESH_E_DNS);
  r.again();
  timers_.advance(0);
  EXPECT_EQ(r.count, 4);
}

struct Destroyer {
  std::unique_ptr<DialExecutor>* executor;
  void destroy() { executor->reset(); }
};

TEST_F(DialExecutorTest, DoneMayDestroyTheExecutor) {
  Opener& o = open("a");
  open("b").ticket.release();
  Destroyer d{&executor_};
  o.then = Delegate<void()>::bind<&Destroyer::destroy>(&d);
  dialer_.end("a", FakeDialer::failed(TMESH_E_REFUSED));
  EXPECT_EQ(executor_, nullptr);
  EXPECT_EQ(dialer_.cancelled_count(), 1u);  // "b"

  make({});
  dialer_.refuse_with(TMESH_E_DNS);
  Opener& c = open("c");
  Opener& e = open("e");
  e.ticket.release();
  c.then = Delegate<void()>::bind<&Destroyer::destroy>(&d);
  timers_.advance(0);
  EXPECT_EQ(executor_, nullptr);
  EXPECT_FALSE(e.outcome.has_value());
}

TEST_F(DialExecutorTest, DestructionCancelsEverythingWithoutACallback) {
  make({.concurrent_max = 1});
  Opener& a = open("a");
  Opener& b = open("b");
  a.ticket.release();
  b.ticket.release();
  executor_.reset();
  EXPECT_EQ(dialer_.cancelled_count(), 1u);
  EXPECT_EQ(timers_.count(), 0u);
  EXPECT_FALSE(a.outcome.has_value());
  EXPECT_FALSE(b.outcome.has_value());
}

}  // namespace
}  // namespace tmesh::agent
