// What makes a link suspect and dead, on a clock of numbers.
#include "cpp/session/liveness.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace tmesh::session {
namespace {

constexpr uint64_t kSecond_us = 1'000'000;
constexpr uint64_t kHour_us = 3600 * kSecond_us;

// A link whose judge is called when it wants to be.
struct Clock {
  explicit Clock(const SessionLife& life = kDialerLife) : liveness(life, now_us) { look(); }

  // Runs to now + us; judgements come when they are due.
  void pass(uint64_t us) {
    const uint64_t until_us = now_us + us;
    while (liveness.due_us() <= until_us && !is_dead) {
      now_us = std::max(now_us, liveness.due_us());
      look();
    }
    if (!is_dead) now_us = until_us;
  }
  // The clock moves, and nobody looks before it has.
  void jump(uint64_t us) {
    now_us += us;
    if (liveness.due_us() <= now_us) look();
  }
  void look() {
    judgements++;
    const auto v = liveness.judge(now_us, seen);
    pings += v.wants_ping;
    probes += v.wants_probe;
    if (v.is_suspect_now) {
      suspects++;
      suspect_at_us = now_us;
    }
    if (v.is_dead) {
      is_dead = true;
      dead_at_us = now_us;
    }
    if (v.wants_ping) pinged_at_us = now_us;
    EXPECT_GT(is_dead ? Liveness::kNever : liveness.due_us(), now_us) << "no judgement in a circle";
  }
  void byte() {
    seen.read_us = now_us;
    seen.in_bytes++;
  }
  void open() { liveness.expect_answer(now_us, seen); }
  bool is_suspect() const { return liveness.is_suspect(seen.in_bytes); }
  // Answers every PING and probe 10 ms later.
  void live(uint64_t us) {
    const uint64_t until_us = now_us + us;
    while (now_us < until_us) {
      const std::size_t asked = pings + probes;
      pass(std::min<uint64_t>(10'000, until_us - now_us));
      if (pings + probes != asked || owes) byte();
      owes = pings + probes != asked;
    }
  }

  uint64_t now_us = 1000 * kSecond_us;
  Liveness::Seen seen{now_us, 0, 0, 0};
  Liveness liveness;
  bool owes = false;
  std::size_t judgements = 0, pings = 0, probes = 0, suspects = 0;
  bool is_dead = false;
  uint64_t suspect_at_us = 0, dead_at_us = 0, pinged_at_us = 0;
};

TEST(Liveness, AnAnsweredLinkIsPingedAtItsIntervalAndNeverDoubted) {
  Clock c;
  c.live(10 * 60 * kSecond_us);
  EXPECT_EQ(c.pings, 30u);
  EXPECT_EQ(c.probes, 0u);
  EXPECT_EQ(c.suspects, 0u);
  EXPECT_FALSE(c.is_dead);
}

// The loop's clock stands still for a millisecond, and a neighbour answers sooner.
TEST(Liveness, AnAnswerAtTheTimeOfItsQuestionIsAnAnswer) {
  Clock c;
  c.pass(kDialerLife.ping_interval_us);
  ASSERT_EQ(c.pinged_at_us, c.now_us);
  c.byte();
  c.pass(kSecond_us);
  c.open();
  c.byte();
  c.pass(15 * kSecond_us);
  EXPECT_EQ(c.probes, 0u);
  EXPECT_EQ(c.suspects, 0u);
}

// LESSONS P-E1: a stopped relay. Its kernel goes on acknowledging, nobody answers.
TEST(Liveness, AnUnansweredOpenOnASilentLinkMakesItSuspectAfterOneProbe) {
  Clock c;
  c.pass(5 * kSecond_us);
  c.open();
  const uint64_t began_us = c.now_us;
  c.pass(kSecond_us - 1);
  EXPECT_EQ(c.probes, 0u);
  c.pass(1);
  EXPECT_EQ(c.probes, 1u);
  EXPECT_FALSE(c.is_suspect()) << "the probe has its time";
  c.pass(2 * kSecond_us);
  EXPECT_TRUE(c.is_suspect());
  EXPECT_EQ(c.suspect_at_us - began_us, 3 * kSecond_us);
  c.pass(kHour_us);
  EXPECT_TRUE(c.is_dead);
  EXPECT_EQ(c.dead_at_us - began_us, 7 * kSecond_us) << "before an open times out, after 8 s";
  EXPECT_EQ(c.suspects, 1u) << "told once";
  EXPECT_EQ(c.probes, Liveness::kProbesMissedMax);
}

TEST(Liveness, TheFirstOfSeveralOpensCounts) {
  Clock c;
  c.open();
  for (int i = 0; i < 9; i++) {
    c.pass(100'000);
    c.open();
  }
  EXPECT_EQ(c.probes, 0u);
  c.pass(100'000);
  EXPECT_EQ(c.probes, 1u);
}

TEST(Liveness, AnyByteBehindAnOpenIsLife) {
  Clock c;
  for (int i = 0; i < 1000; i++) {  // opens go on unanswered, but something comes now and then
    c.open();
    c.pass(990'000);
    c.byte();
    c.pass(10'000);
  }
  EXPECT_EQ(c.probes, 0u);
  EXPECT_EQ(c.suspects, 0u);
}

TEST(Liveness, AByteBeforeTheOpenIsNoAnswerToIt) {
  Clock c;
  c.byte();
  c.open();  // in the same instant
  c.pass(kSecond_us);
  EXPECT_EQ(c.probes, 1u);
}

TEST(Liveness, ALongPathGetsThreeRoundTrips) {
  Clock c;
  c.seen.rtt_us = 800'000;
  c.open();
  c.pass(2'400'000 - 1);
  EXPECT_EQ(c.probes, 0u);
  c.pass(1);
  EXPECT_EQ(c.probes, 1u);
  c.pass(4 * 800'000 - 1);
  EXPECT_FALSE(c.is_suspect()) << "a probe has four";
  c.pass(1);
  EXPECT_TRUE(c.is_suspect());
}

TEST(Liveness, AnyByteEndsTheSuspicionAtOnce) {
  Clock c;
  c.open();
  c.pass(6 * kSecond_us);
  ASSERT_TRUE(c.is_suspect());
  c.byte();
  EXPECT_FALSE(c.is_suspect()) << "without waiting for a judgement";
  c.live(60 * kSecond_us);
  EXPECT_FALSE(c.is_dead);
  EXPECT_EQ(c.suspects, 1u);
  c.open();  // and it can happen again, with its full time
  c.pass(3 * kSecond_us - 1);
  EXPECT_EQ(c.suspects, 1u);
  c.pass(1);
  EXPECT_EQ(c.suspects, 2u);
}

TEST(Liveness, AnOpenThatTimedOutIsAskedAboutAtOnce) {
  Clock c;
  c.open();
  c.pass(500'000);
  c.byte();
  c.live(7'500'000);
  const std::size_t before = c.probes;
  c.liveness.doubt(c.now_us, c.seen);
  c.pass(0);
  EXPECT_EQ(c.probes, before + 1);
  c.pass(2 * kSecond_us);
  EXPECT_TRUE(c.is_suspect());
}

// LESSONS P-E6: the link is fine, what is behind it is not.
TEST(Liveness, AnAnsweredProbeKeepsALinkWhoseOpensTimeOut) {
  Clock c;
  for (int i = 0; i < 100; i++) {
    c.open();
    c.live(8 * kSecond_us);
    c.liveness.doubt(c.now_us, c.seen);
    c.live(kSecond_us);
  }
  EXPECT_EQ(c.suspects, 0u);
  EXPECT_FALSE(c.is_dead);
  EXPECT_GE(c.probes, 100u);
}

// LESSONS P-E4: heartbeats go nowhere; nobody opens anything.
TEST(Liveness, AnUnansweredPingMakesALinkSuspectWithoutAnyOpen) {
  Clock c;
  c.seen.rtt_us = 100'000;
  c.pass(20 * kSecond_us);
  ASSERT_EQ(c.pings, 1u);
  c.pass(5'300'000 - 1);
  EXPECT_FALSE(c.is_suspect());
  c.pass(1);
  EXPECT_TRUE(c.is_suspect());
  EXPECT_EQ(c.probes, 1u);
  c.pass(kHour_us);
  EXPECT_EQ(c.dead_at_us - c.pinged_at_us, 5'300'000u + 2 * 2 * kSecond_us);
}

// LESSONS P-C5, P-E8: PONGs starve behind bulk.
TEST(Liveness, ASaturatedLinkWithoutASinglePongIsKept) {
  Clock c;
  for (uint64_t us = 0; us < 120 * kSecond_us; us += 600'000) {
    c.open();
    c.pass(600'000);
    c.byte();  // a piece of the bulk, or credit for ours
  }
  EXPECT_FALSE(c.is_dead);
  EXPECT_EQ(c.suspects, 0u);
}

TEST(Liveness, AnUploadThatStillDrainsIsNotDeclaredDead) {
  // Towards a peer without windows nothing at all comes back, and the probe waits behind
  // what the path holds.
  Clock c;
  c.open();
  for (int i = 0; i < 50; i++) {
    c.pass(kSecond_us);
    c.seen.out_bytes += 200'000;
  }
  EXPECT_FALSE(c.is_dead);
  EXPECT_TRUE(c.is_suspect()) << "new streams do better elsewhere";
  c.pass(kSecond_us);
  c.byte();
  EXPECT_FALSE(c.is_suspect());
}

TEST(Liveness, PingsAndOpensAreNoDraining) {
  Clock c;
  c.open();
  for (int i = 0; i < 50 && !c.is_dead; i++) {
    c.pass(kSecond_us);
    c.seen.out_bytes += 200;
  }
  EXPECT_TRUE(c.is_dead);
  EXPECT_LE(c.dead_at_us - 1000 * kSecond_us, 7 * kSecond_us);
}

TEST(Liveness, ADrainThatStopsIsDeadAfterTheRestOfTheProbes) {
  Clock c;
  c.open();
  for (int i = 0; i < 10; i++) {
    c.pass(kSecond_us);
    c.seen.out_bytes += 200'000;
  }
  const uint64_t stopped_us = c.now_us;
  c.pass(kHour_us);
  ASSERT_TRUE(c.is_dead);
  EXPECT_LE(c.dead_at_us - stopped_us, 8 * kSecond_us);
}

TEST(Liveness, SilenceIsDeadWhateverElse) {
  SessionLife life = kDialerLife;
  life.open_patience_us = 0;
  life.ping_patience_us = 0;
  Clock c(life);
  c.open();
  c.pass(kHour_us);
  EXPECT_EQ(c.dead_at_us - 1000 * kSecond_us, 62 * kSecond_us);
  EXPECT_EQ(c.pings, 3u) << "three missed";
  EXPECT_EQ(c.suspects, 0u);
}

TEST(Liveness, AServerPingsASilentPeerOnceAndWaits90Seconds) {
  Clock c(kServerLife);
  c.open();
  c.pass(kHour_us);
  EXPECT_EQ(c.dead_at_us - 1000 * kSecond_us, 90 * kSecond_us);
  EXPECT_EQ(c.probes, 1u);
  EXPECT_EQ(c.pings, 0u) << "deployed peers never get a protocol PING from a server";
  EXPECT_EQ(c.suspects, 0u);
}

TEST(Liveness, PingNowGivesAServerAnInterval) {
  Clock c(kServerLife);
  c.liveness.ping_now(c.now_us, 20 * kSecond_us);
  c.pass(0);
  EXPECT_EQ(c.pings, 1u);
  c.live(60 * kSecond_us);
  EXPECT_EQ(c.pings, 4u);
}

TEST(Liveness, PingNowKeepsTheIntervalOfADialer) {
  Clock c;
  c.liveness.ping_now(c.now_us, 5 * kSecond_us);
  c.live(60 * kSecond_us);
  EXPECT_EQ(c.pings, 4u) << "at once, after 20, 40 and 60 s";
}

// LESSONS P-E13, and laptops: hours pass in one step.
TEST(Liveness, AfterAJumpOfHoursThereIsOnePingAndNoVerdictBeforeItsAnswer) {
  for (const uint64_t jump_us : {63 * kSecond_us, 3 * kHour_us, 1000 * kHour_us}) {
    Clock c;
    c.live(30 * kSecond_us);
    const std::size_t pings = c.pings;
    const std::size_t judgements = c.judgements;
    c.jump(jump_us);
    EXPECT_FALSE(c.is_dead);
    EXPECT_FALSE(c.is_suspect());
    EXPECT_EQ(c.pings, pings + 1);
    EXPECT_EQ(c.probes, 0u);
    EXPECT_EQ(c.judgements, judgements + 1);
    c.pass(300'000);
    c.byte();
    c.live(120 * kSecond_us);
    EXPECT_FALSE(c.is_dead);
    EXPECT_EQ(c.suspects, 0u);
    EXPECT_EQ(c.pings, pings + 1 + 6);
  }
}

TEST(Liveness, AfterAJumpASilentLinkIsFoundOutSoon) {
  Clock c;
  c.live(30 * kSecond_us);
  c.jump(3 * kHour_us);
  const uint64_t began_us = c.now_us;
  c.pass(kHour_us);
  EXPECT_EQ(c.suspect_at_us - began_us, 5 * kSecond_us);
  EXPECT_EQ(c.dead_at_us - began_us, 9 * kSecond_us);
}

TEST(Liveness, AJumpInTheMiddleOfADoubtStartsItAgain) {
  Clock c;
  c.open();
  c.pass(6 * kSecond_us);
  ASSERT_TRUE(c.is_suspect());
  c.jump(3 * kHour_us);
  EXPECT_FALSE(c.is_dead);
  EXPECT_FALSE(c.is_suspect());
}

TEST(Liveness, AServerAsksAfterAJumpToo) {
  Clock c(kServerLife);
  c.jump(3 * kHour_us);
  EXPECT_FALSE(c.is_dead);
  EXPECT_EQ(c.probes, 1u);
  c.pass(50'000);
  c.byte();
  c.pass(24 * kSecond_us);
  EXPECT_FALSE(c.is_dead);
  const uint64_t silent_us = c.seen.read_us;
  c.pass(kHour_us);
  EXPECT_EQ(c.dead_at_us - silent_us, 90 * kSecond_us);
}

}  // namespace
}  // namespace tmesh::session
