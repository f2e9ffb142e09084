#include "cpp/agent/connection_controller.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace tmesh::agent {
namespace {

config::PoolSettings settings() {
  config::PoolSettings s;
  s.min_count = 1;
  s.max_count = 4;
  s.high_watermark_count = 16;
  s.low_watermark_count = 2;
  s.cooldown_us = 30'000'000;
  return s;
}

// A pool with everything in order: two links, each with some streams.
struct Pool {
  std::vector<LinkLoad> links{{1, true, false, 5, 0, 20'000, 0}, {2, true, false, 5, 0, 20'000, 0}};
  PoolLoad load;
  Pool() { load.is_pool_supported = true; }
  const PoolLoad& seen() {
    load.links = links;
    return load;
  }
};

// Keeps what one evaluation leaves for the next, as the pool does.
struct ConnectionController {
  explicit ConnectionController(const config::PoolSettings& s) : settings(s) {}
  Decision evaluate(const PoolLoad& load, uint64_t now_us) {
    const Evaluation evaluation = agent::evaluate(settings, load, memory, now_us);
    memory = evaluation.memory;
    return evaluation.decision;
  }
  config::PoolSettings settings;
  ControllerMemory memory;
};

Decision twice(const config::PoolSettings& s, Pool& pool) {
  ConnectionController controller(s);
  EXPECT_EQ(controller.evaluate(pool.seen(), 1'000'000).action, ScaleAction::none)
      << "one evaluation is not enough";
  return controller.evaluate(pool.seen(), 11'000'000);
}

struct Signal {
  ScaleReason reason;
  std::function<void(Pool&)> at;     // exactly at its threshold
  std::function<void(Pool&)> below;  // the largest value that is no signal
};

const std::vector<Signal>& signals() {
  static const std::vector<Signal> all = {
      {ScaleReason::active_streams, [](Pool& p) { p.links[0].active_count = p.links[1].active_count = 16; },
       [](Pool& p) {
         p.links[0].active_count = 400;
         p.links[1].active_count = 15;
       }},
      {ScaleReason::queue_pressure, [](Pool& p) { p.links[1].queue_pressure_percent = 80; },
       [](Pool& p) { p.links[1].queue_pressure_percent = 79; }},
      {ScaleReason::rtt, [](Pool& p) { p.links[1].rtt_us = 500'000; },
       [](Pool& p) { p.links[1].rtt_us = 499'999; }},
      {ScaleReason::pending_dials, [](Pool& p) { p.load.pending_dials_count = 1; },
       [](Pool& p) { p.load.pending_dials_count = 0; }},
      {ScaleReason::dial_wait, [](Pool& p) { p.load.dial_wait_us = 100'000; },
       [](Pool& p) { p.load.dial_wait_us = 99'999; }},
      {ScaleReason::open_p95, [](Pool& p) { p.load.open_p95_us = 1'000'000; },
       [](Pool& p) { p.load.open_p95_us = 999'999; }},
      {ScaleReason::ttfb_p95, [](Pool& p) { p.load.ttfb_p95_us = 1'000'000; },
       [](Pool& p) { p.load.ttfb_p95_us = 999'999; }},
      {ScaleReason::writer_wait_p95, [](Pool& p) { p.load.writer_wait_p95_us = 100'000; },
       [](Pool& p) { p.load.writer_wait_p95_us = 99'999; }},
  };
  return all;
}

// Requirement E6, INTERFACE 8.2: each input and its threshold.
TEST(ConnectionController, EachSignalAtItsThresholdGrowsThePoolAndBelowItDoesNot) {
  for (const Signal& signal : signals()) {
    SCOPED_TRACE(scale_reason_name(signal.reason));
    Pool at;
    signal.at(at);
    const Decision grow = twice(settings(), at);
    EXPECT_EQ(grow.action, ScaleAction::grow);
    EXPECT_EQ(grow.reason, signal.reason);
    Pool below;
    signal.below(below);
    EXPECT_EQ(twice(settings(), below).action, ScaleAction::none);
  }
}

TEST(ConnectionController, TheSignalsAreAllThatAreNamed) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < kScaleReasonCount; i++)
    names.push_back(scale_reason_name(static_cast<ScaleReason>(i)));
  EXPECT_EQ(names,
            (std::vector<std::string>{"none", "active_streams", "queue_pressure", "rtt", "pending_dials",
                                      "dial_wait", "open_p95", "ttfb_p95", "writer_wait_p95", "low_load"}));
  EXPECT_EQ(signals().size(), kScaleReasonCount - 2);
}

TEST(ConnectionController, TheSameSignalHasToStandInTwoEvaluationsRunning) {
  for (const Signal& first : signals()) {
    for (const Signal& second : signals()) {
      Pool a;
      Pool b;
      first.at(a);
      second.at(b);
      ConnectionController controller(settings());
      controller.evaluate(a.seen(), 0);
      const Decision decision = controller.evaluate(b.seen(), 10'000'000);
      EXPECT_EQ(decision.action == ScaleAction::grow, first.reason == second.reason)
          << scale_reason_name(first.reason) << ", " << scale_reason_name(second.reason);
    }
  }
  // Not with a calm one between.
  Pool calm;
  Pool busy;
  busy.load.open_p95_us = 2'000'000;
  ConnectionController controller(settings());
  for (int i = 0; i < 6; i++) {
    EXPECT_EQ(controller.evaluate((i % 2 == 0 ? busy : calm).seen(), i * 10'000'000ull).action,
              ScaleAction::none);
  }
}

TEST(ConnectionController, PendingOpensCountAsStreams) {
  Pool pool;
  for (LinkLoad& link : pool.links) {
    link.active_count = 10;
    link.pending_opens_count = 6;
  }
  EXPECT_EQ(twice(settings(), pool).reason, ScaleReason::active_streams);
}

TEST(ConnectionController, TheRttOfAnIdleLinkIsNoSignal) {
  Pool pool;
  pool.links[1] = {2, true, false, 0, 0, 900'000, 0};
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none);
}

TEST(ConnectionController, FailingTargetsAreNoReasonForMoreLinks) {
  for (const Signal& signal : signals()) {
    SCOPED_TRACE(scale_reason_name(signal.reason));
    const bool is_of_targets =
        signal.reason == ScaleReason::pending_dials || signal.reason == ScaleReason::dial_wait ||
        signal.reason == ScaleReason::open_p95 || signal.reason == ScaleReason::ttfb_p95;
    Pool pool;
    signal.at(pool);
    pool.load.error_rate_percent = 50;
    EXPECT_EQ(twice(settings(), pool).action, is_of_targets ? ScaleAction::none : ScaleAction::grow);
    pool.load.error_rate_percent = 49;
    EXPECT_EQ(twice(settings(), pool).action, ScaleAction::grow);
  }
}

TEST(ConnectionController, OnlyAServerThatSaidSoGetsMoreLinks) {
  Pool pool;
  pool.load.pending_dials_count = 9;
  pool.load.is_pool_supported = false;
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none);
}

TEST(ConnectionController, GrowsToTheMaximumAndNotBeyond) {
  Pool pool;
  pool.load.pending_dials_count = 9;
  config::PoolSettings s = settings();
  s.max_count = 2;
  EXPECT_EQ(twice(s, pool).action, ScaleAction::none);
  s.max_count = 3;
  EXPECT_EQ(twice(s, pool).action, ScaleAction::grow);
  // One that ends does not hold the place of a new one.
  pool.links.push_back({3, true, true, 1, 0, 0, 0});
  EXPECT_EQ(twice(s, pool).action, ScaleAction::grow);
}

// LESSONS R25: the server counts every link, those that end too.
TEST(ConnectionController, StaysBelowTheServersCeiling) {
  Pool pool;
  pool.load.pending_dials_count = 9;
  pool.load.server_max = 2;
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none);
  pool.load.server_max = 3;
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::grow);
  pool.links.push_back({3, true, true, 1, 0, 0, 0});
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none);
}

TEST(ConnectionController, NoLinkIsAddedWhileOneIsOnItsWay) {
  Pool pool;
  pool.load.pending_dials_count = 9;
  pool.links[1].is_ready = false;
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none);
  pool.links.clear();
  pool.load.pending_dials_count = 0;
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none) << "an empty pool is not a busy one";
}

TEST(ConnectionController, AfterAChangeTheCooldownPassesFirst) {
  Pool pool;
  pool.load.pending_dials_count = 9;
  ConnectionController controller(settings());
  std::vector<uint64_t> grown;
  for (uint64_t now_us = 0; now_us <= 100'000'000; now_us += 10'000'000) {
    if (controller.evaluate(pool.seen(), now_us).action == ScaleAction::grow) grown.push_back(now_us);
  }
  EXPECT_EQ(grown, (std::vector<uint64_t>{10'000'000, 40'000'000, 70'000'000, 100'000'000}));
}

TEST(ConnectionController, WithoutACooldownAChangeStillNeedsTwoFreshEvaluations) {
  config::PoolSettings s = settings();
  s.cooldown_us = 0;
  Pool pool;
  pool.load.pending_dials_count = 9;
  ConnectionController controller(s);
  std::string seen;
  for (uint64_t i = 0; i < 6; i++)
    seen += controller.evaluate(pool.seen(), i).action == ScaleAction::grow ? 'g' : '.';
  EXPECT_EQ(seen, ".g.g.g");
}

// Requirement J11.
TEST(ConnectionController, AllBelowTheLowWatermarkTwiceTakesTheHighestSlotAway) {
  Pool pool;
  pool.links = {{1, true, false, 1, 0, 0, 0}, {7, true, false, 1, 0, 0, 0}, {3, true, false, 0, 1, 0, 0}};
  const Decision decision = twice(settings(), pool);
  EXPECT_EQ(decision.action, ScaleAction::shrink);
  EXPECT_EQ(decision.slot, 7u);
  EXPECT_EQ(decision.reason, ScaleReason::low_load);
  pool.links[0].pending_opens_count = 1;
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none) << "one of them is at the low watermark";
}

TEST(ConnectionController, OneBusyEvaluationBeginsTheShrinkingAnew) {
  Pool low;
  low.links = {{1, true, false, 0, 0, 0, 0}, {2, true, false, 0, 0, 0, 0}};
  Pool busy = low;
  busy.links[0].active_count = 3;
  ConnectionController controller(settings());
  EXPECT_EQ(controller.evaluate(low.seen(), 0).action, ScaleAction::none);
  EXPECT_EQ(controller.evaluate(busy.seen(), 1).action, ScaleAction::none);
  EXPECT_EQ(controller.evaluate(low.seen(), 2).action, ScaleAction::none);
  EXPECT_EQ(controller.evaluate(low.seen(), 3).action, ScaleAction::shrink);
}

TEST(ConnectionController, ThePoolKeepsItsMinimum) {
  Pool pool;
  pool.links = {{1, true, false, 0, 0, 0, 0}, {2, true, false, 0, 0, 0, 0}};
  config::PoolSettings s = settings();
  s.min_count = 2;
  EXPECT_EQ(twice(s, pool).action, ScaleAction::none);
  pool.links.push_back({3, true, true, 1, 0, 0, 0});
  EXPECT_EQ(twice(s, pool).action, ScaleAction::none) << "one that ends already is not one of them";
  s.min_count = 1;
  EXPECT_EQ(twice(s, pool).slot, 2u) << "the highest of those that run";
}

TEST(ConnectionController, AShrinkWaitsForTheCooldownAndNeedsNoWordOfTheServer) {
  Pool pool;
  pool.links = {{1, true, false, 0, 0, 0, 0}, {2, true, false, 0, 0, 0, 0}, {3, true, false, 0, 0, 0, 0}};
  pool.load.is_pool_supported = false;
  ConnectionController controller(settings());
  std::vector<uint64_t> shrunk;
  for (uint64_t now_us = 0; now_us <= 40'000'000; now_us += 10'000'000) {
    if (controller.evaluate(pool.seen(), now_us).action == ScaleAction::shrink) shrunk.push_back(now_us);
  }
  EXPECT_EQ(shrunk, (std::vector<uint64_t>{10'000'000, 40'000'000}));
}

// Or the pool would go up and down on a path that is slow whatever it does.
TEST(ConnectionController, NothingIsTakenAwayWhileASignalStands) {
  for (const Signal& signal : signals()) {
    if (signal.reason == ScaleReason::active_streams) continue;  // not low then
    Pool pool;
    pool.links[0].active_count = pool.links[1].active_count = 1;
    signal.at(pool);
    config::PoolSettings s = settings();
    s.max_count = 2;
    EXPECT_EQ(twice(s, pool).action, ScaleAction::none) << scale_reason_name(signal.reason);
  }
}

// Else an agent whose first link is being connected anew would be offline until that is done.
TEST(ConnectionController, ALinkThatIsNotReadyGoesBeforeOneThatTakesStreams) {
  const LinkLoad away{1, false, false, 0, 0, 0, 0};
  Pool pool;
  pool.links = {away, {2, true, false, 1, 0, 20'000, 0}};
  const Decision shrink = twice(settings(), pool);
  EXPECT_EQ(shrink.action, ScaleAction::shrink);
  EXPECT_EQ(shrink.slot, 1u);
  // Of several the highest.
  pool.links = {away, {2, false, false, 0, 0, 0, 0}, {3, true, false, 1, 0, 20'000, 0}};
  EXPECT_EQ(twice(settings(), pool).slot, 2u);
}

// The streams went with the links, not with the load; what was needed is needed again after it.
TEST(ConnectionController, AnOutageTakesNoLinkAway) {
  Pool pool;
  pool.links = {{1, false, false, 0, 0, 0, 0}, {2, false, false, 0, 0, 0, 0}};
  ConnectionController controller(settings());
  EXPECT_EQ(controller.evaluate(pool.seen(), 0).action, ScaleAction::none);
  EXPECT_EQ(controller.evaluate(pool.seen(), 1).action, ScaleAction::none);
  pool.links[0].is_ready = pool.links[1].is_ready = true;
  EXPECT_EQ(controller.evaluate(pool.seen(), 2).action, ScaleAction::none) << "once";
  EXPECT_EQ(controller.evaluate(pool.seen(), 3).action, ScaleAction::shrink);
}

TEST(ConnectionController, TheOneToEndIsTheHighestOfThoseAwayOrElseOfAll) {
  const std::vector<LinkLoad> ready = {{2, true}, {9, true, true}, {3, true}, {1, true}};
  EXPECT_EQ(slot_to_end(ready), 3u);
  const std::vector<LinkLoad> away = {{2, false}, {9, false, true}, {3, true}, {1, false}};
  EXPECT_EQ(slot_to_end(away), 2u);
}

TEST(ConnectionController, LinksThatEndAreLimited) {
  Pool pool;
  pool.links = {{1, true, false, 0, 0, 0, 0}, {2, true, false, 0, 0, 0, 0}};
  for (uint32_t i = 0; i < kRetiringMax; i++) pool.links.push_back({10 + i, true, true, 1, 0, 0, 0});
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::none);
  pool.links.pop_back();
  EXPECT_EQ(twice(settings(), pool).action, ScaleAction::shrink);
}

TEST(ConnectionController, ALowWatermarkOfZeroNeverShrinks) {
  Pool pool;
  pool.links = {{1, true, false, 0, 0, 0, 0}, {2, true, false, 0, 0, 0, 0}};
  config::PoolSettings s = settings();
  s.low_watermark_count = 0;
  EXPECT_EQ(twice(s, pool).action, ScaleAction::none);
}

// A pool of a size that is wanted: min = max does nothing, whatever happens.
TEST(ConnectionController, AFixedPoolNeverChanges) {
  config::PoolSettings s = settings();
  s.min_count = s.max_count = 2;
  for (const Signal& signal : signals()) {
    Pool pool;
    signal.at(pool);
    EXPECT_EQ(twice(s, pool).action, ScaleAction::none);
  }
  Pool idle;
  idle.links[0].active_count = idle.links[1].active_count = 0;
  EXPECT_EQ(twice(s, idle).action, ScaleAction::none);
}

}  // namespace
}  // namespace tmesh::agent
