// Slot: links that fall silent, fleets that lose their server, clocks that jump.
#include <algorithm>
#include <memory>
#include <vector>

#include "tests/cpp/session/captured_log.hpp"
#include "tests/cpp/session/slot_fixture.hpp"

namespace tmesh::session {
namespace {

using test::CapturedLog;

// Quick enough for a test, on the loop's clock; patience with an open, with a PING, with a probe.
constexpr SessionLife kQuickDoubt{0, 0, 0, 10'000, 0, 100'000};

// LESSONS P-E1: what the peer's kernel swallows is no answer.
TEST_F(SlotTest, ASuspectSessionIsNotChosenAndItsSuccessorComesAtOnce) {
  role.session_life = kQuickDoubt;
  start();
  request(0);
  server.peer(0).reply(server.peer(0).switching("tunnelmesh.v1"));  // and nothing any more
  ASSERT_TRUE(run_until([&] { return slot->ready() != nullptr; }));
  timers.advance(kMinute_us);
  open_stream(*role.made[0]);
  role.made[0]->expect_answer();
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  EXPECT_EQ(role.overs_count, 0u) << "suspect is not dead";
  timers.advance(0);
  up(1);
  EXPECT_EQ(slot->ready(), role.made[1]);
  ASSERT_TRUE(run_until([&] { return streams_over_count == 1; })) << "its streams end with an error";
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  EXPECT_EQ(slot->ready(), role.made[1]);
  expect_quiet(kMinute_us);
}

TEST_F(SlotTest, ASuspectThatAnswersGoesOn) {
  role.session_life = kQuickDoubt;
  dialer.is_silent = false;
  start();
  request(0);
  server.peer(0).reply(server.peer(0).switching("tunnelmesh.v1"));
  ASSERT_TRUE(run_until([&] { return slot->ready() != nullptr; }));
  Session* const first = slot->ready();
  timers.advance(kMinute_us);
  dialer.is_silent = true;  // no successor
  first->expect_answer();
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  EXPECT_EQ(dialer.count, 2u);
  server.peer(0).reply(std::string("\x8A\x00", 2));
  ASSERT_TRUE(run_until([&] { return slot->ready() == first; }));
  EXPECT_EQ(role.overs_count, 0u);
}

TEST_F(SlotTest, ADeadLinkThatHadNoSuccessorYetIsNotDialledTwice) {
  role.session_life = kQuickDoubt;
  start();
  request(0);
  server.peer(0).reply(server.peer(0).switching("tunnelmesh.v1"));
  ASSERT_TRUE(run_until([&] { return slot->ready() != nullptr; }));
  timers.advance(kMinute_us);
  role.made[0]->expect_answer();
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
  timers.advance(0);
  request(1);
  ASSERT_TRUE(run_until([&] { return role.overs_count == 1; }));
  expect_quiet(0);
  up(1);
}

TEST_F(SlotTest, OnlyTheMuxOfTheCurrentSessionCanBeDoubted) {
  role.session_life = kQuickDoubt;
  start();
  request(0);
  server.peer(0).reply(server.peer(0).switching("tunnelmesh.v1"));
  ASSERT_TRUE(run_until([&] { return slot->ready() != nullptr; }));
  slot->doubt(nullptr);
  ASSERT_FALSE(run_until([&] { return slot->ready() == nullptr; }, 150'000));
  slot->doubt(role.made[0]->mux());
  ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
}

TEST_F(SlotTest, TheOldestOfTooManyDrainingSessionsIsEndedWithItsStreams) {
  CapturedLog log;
  start();
  up(0);
  for (std::size_t n = 1; n <= Slot::kDrainingMax + 2; n++) {
    timers.advance(kMinute_us);
    open_stream(*role.made[n - 1]);
    slot->rotate("test");
    timers.advance(0);
    up(n);
    timers.advance(2'000'000);
    EXPECT_EQ(role.overs_count, n <= Slot::kDrainingMax ? 0u : n - Slot::kDrainingMax) << n;
  }
  ASSERT_TRUE(run_until([&] { return streams_over_count == 2; }));
  EXPECT_FALSE(server.peer(2).down.has_value());
  EXPECT_EQ(log.count("link_drain_cut slot=1 streams=1"), 2u);
  ASSERT_TRUE(run_until([&] { return server.peer(0).down.has_value() && server.peer(1).down.has_value(); }));
}

// Requirement E5: a broken peer is told of, and does not fill the log.
TEST_F(SlotTest, AWindowViolationStormIsLoggedOncePerMinute) {
  CapturedLog log;
  start();
  for (std::size_t n = 0; n < 4; n++) {
    up(n);
    role.made.back()->fail(tmesh_err_session(TMESH_E_WINDOW_EXCEEDED));
    ASSERT_TRUE(run_until([&] { return slot->ready() == nullptr; }));
    if (n == 2) timers.advance(kMinute_us);
    timers.advance(1'000'000);
  }
  EXPECT_EQ(log.count("link_down"), 4u);
  EXPECT_EQ(log.count("window_violation_storm slot=1"), 2u);
}

// LESSONS P-E13.
TEST_F(SlotTest, AClockThatJumpsForwardCostsNoSession) {
  start();
  up(0);
  for (const uint64_t hours : {1u, 3u, 100u}) {
    timers.jump(hours * 60 * kMinute_us);
    expect_quiet(0);
    EXPECT_EQ(slot->ready(), role.made[0]);
  }
}

TEST_F(SlotTest, AJumpDuringAnAttemptCostsOneAttempt) {
  start();
  request(0);
  timers.jump(3 * 60 * kMinute_us);  // its time is up
  ASSERT_TRUE(run_until([&] { return server.last().is_eof || server.last().down.has_value(); }));
  EXPECT_EQ(timers.count(), 1u) << "one attempt waits";
  timers.jump(3 * 60 * kMinute_us);
  up(1);
  expect_quiet(kMinute_us);
}

TEST_F(SlotTest, AWallClockStepIsNoticedByNobody) {
  start();
  up(0);
  for (const int64_t hours : {2, -2, 0}) {
    timers.set_wall(1'700'000'000'000'000 + hours * 3'600'000'000);
    timers.advance(kMinute_us);
    expect_quiet(0);
    EXPECT_EQ(slot->ready(), role.made[0]);
  }
}

// A fleet on one clock; every attempt fails at once.
struct Fleet {
  struct Member final : ReconnectorHandler {
    Member(net::Loop& loop, Fleet& fleet)
        : reconnector(loop, fleet.timers, fleet.dialer, fleet.endpoint, true, kAll, *this) {}
    void on_connected(Connected) override {}
    void on_connect_failed(const ConnectFailure&, uint64_t) override {}
    Reconnector reconnector;
  };
  struct CountingDialer final : Dialer {
    explicit CountingDialer(Fleet& f) : fleet(f) {}
    Result<Ticket> dial(const DialRequest&, Delegate<void(DialResult)>) override {
      fleet.attempts_us.push_back(fleet.timers.now_us());
      return fail(TMESH_E_REFUSED, "no server");
    }
    Fleet& fleet;
  };

  Fleet(net::Loop& loop, std::size_t count) {
    endpoint.url = {false, "localhost", 1, "/ws/agent"};
    endpoint.token = &token;
    for (std::size_t i = 0; i < count; i++) members.push_back(std::make_unique<Member>(loop, *this));
  }
  // Highest count of attempts in 100 ms over the mean, within [from, to) after the loss.
  double peak_to_mean(uint64_t lost_us, uint64_t from_us, uint64_t to_us) const {
    std::vector<std::size_t> buckets((to_us - from_us) / 100'000);
    std::size_t all = 0;
    for (const uint64_t at_us : attempts_us) {
      if (at_us < lost_us + from_us || at_us >= lost_us + to_us) continue;
      buckets[(at_us - lost_us - from_us) / 100'000]++;
      all++;
    }
    const auto peak = static_cast<double>(*std::max_element(buckets.begin(), buckets.end()));
    return peak * static_cast<double>(buckets.size()) / static_cast<double>(all);
  }

  test::FakeTimers timers;
  CountingDialer dialer{*this};
  Secret token{"t"};
  ServerEndpoint endpoint;
  std::vector<std::unique_ptr<Member>> members;
  std::vector<uint64_t> attempts_us;
};

// LESSONS P-E9: 200 links that lose their server in one instant.
TEST_F(SlotTest, AFleetThatLosesItsServerComesBackSpread) {
  constexpr std::size_t kMembers = 200;
  Fleet fleet(loop(), kMembers);
  const uint64_t lost_us = fleet.timers.now_us();
  for (auto& member : fleet.members) member->reconnector.link_ended();
  EXPECT_TRUE(fleet.attempts_us.empty()) << "nobody at once";
  fleet.timers.advance(1'000'000);
  EXPECT_GE(fleet.attempts_us.size(), kMembers) << "everybody within a second";
  for (std::size_t i = 0; i < kMembers; i++) {
    EXPECT_GE(fleet.attempts_us[i], lost_us + 100'000);
  }
  fleet.timers.advance(2'000'000);
  EXPECT_LT(fleet.peak_to_mean(lost_us, 100'000, 1'000'000), 3.0) << "the first wave";
  EXPECT_LT(fleet.peak_to_mean(lost_us, 100'000, 3'000'000), 3.0) << "and all of them";
}

}  // namespace
}  // namespace tmesh::session
