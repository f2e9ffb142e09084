// The decisions of a pool, as tables.
#include "cpp/client/pool_rules.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tmesh::client {
namespace {

constexpr uint64_t kSecond = 1'000'000;

// Requirement J3.
TEST(PoolRules, AStreamGoesWhereTheFewestAreThenWhereTheWayIsShort) {
  struct Row {
    LinkLoad a, b;
    bool a_is_better;
  };
  for (const Row& row : {
           Row{{1, 900, false}, {2, 100, false}, true},
           Row{{2, 100, false}, {1, 900, false}, false},
           Row{{2, 100, false}, {2, 101, false}, true},
           Row{{2, 101, false}, {2, 100, false}, false},
           Row{{2, 100, false}, {2, 100, false}, false},
           Row{{2, 100, false}, {2, 0, false}, true},  // 0 is unknown, not short
           Row{{2, 0, false}, {2, 100, false}, false},
           Row{{2, 0, false}, {2, 0, false}, false},
           Row{{9, 900, false}, {0, 100, true}, true},  // whoever is heard of comes first
           Row{{0, 100, true}, {9, 900, false}, false},
           Row{{0, 100, true}, {1, 100, true}, true},
       }) {
    EXPECT_EQ(is_better(row.a, row.b), row.a_is_better)
        << row.a.streams_count << "/" << row.a.rtt_us << " " << row.b.streams_count << "/" << row.b.rtt_us;
  }
}

config::PoolSettings settings() {
  config::PoolSettings s;
  s.min_count = 1;
  s.max_count = 4;
  s.high_watermark_count = 16;
  s.low_watermark_count = 2;
  s.cooldown_us = 30 * kSecond;
  return s;
}

// Requirement J11.
TEST(PoolRules, OneEvaluation) {
  struct Row {
    PoolView view;
    bool was_low;
    PoolChange change;
    bool is_low;
  };
  for (const Row& row : {
           Row{{1, 1, 16, 16}, false, PoolChange::grow, false},
           Row{{1, 1, 15, 15}, false, PoolChange::none, false},
           Row{{2, 2, 16, 40}, false, PoolChange::grow, false},
           Row{{2, 2, 15, 400}, false, PoolChange::none, false},  // not all of them
           Row{{4, 4, 99, 99}, false, PoolChange::none, false},   // max
           Row{{3, 3, 99, 99}, false, PoolChange::grow, false},
           Row{{2, 1, 16, 16}, false, PoolChange::grow, false},  // only ready ones count
           Row{{2, 2, 0, 1}, false, PoolChange::none, true},
           Row{{2, 2, 0, 1}, true, PoolChange::shrink, false},
           Row{{2, 2, 0, 2}, true, PoolChange::none, false},  // not all of them
           Row{{1, 1, 0, 0}, true, PoolChange::none, true},   // min
           Row{{4, 4, 0, 0}, true, PoolChange::shrink, false},
           Row{{2, 1, 0, 0}, true, PoolChange::shrink, false},
           Row{{2, 0, 0, 0}, true, PoolChange::none, false},  // an outage says nothing
           Row{{1, 0, 0, 0}, false, PoolChange::none, false},
       }) {
    PoolMemory memory;
    memory.was_low = row.was_low;
    const PoolDecision got = decide(settings(), row.view, memory, 1000 * kSecond);
    const std::string text = std::to_string(row.view.links_count) + " links, " +
                             std::to_string(row.view.fewest_streams) + ".." +
                             std::to_string(row.view.most_streams);
    EXPECT_EQ(got.change, row.change) << text;
    EXPECT_EQ(got.memory.was_low, row.is_low) << text;
    EXPECT_EQ(got.memory.has_changed, row.change != PoolChange::none) << text;
    EXPECT_EQ(got.memory.changed_us, got.memory.has_changed ? 1000 * kSecond : 0);
  }
}

TEST(PoolRules, BetweenTwoChangesIsTheCooldown) {
  const PoolView high{1, 1, 16, 16};
  const PoolDecision first = decide(settings(), high, {}, 5);
  EXPECT_EQ(first.change, PoolChange::grow) << "none before it";
  EXPECT_EQ(decide(settings(), high, first.memory, 5 + 30 * kSecond - 1).change, PoolChange::none);
  EXPECT_EQ(decide(settings(), high, first.memory, 5 + 30 * kSecond).change, PoolChange::grow);
  config::PoolSettings hot = settings();
  hot.cooldown_us = 0;
  EXPECT_EQ(decide(hot, high, first.memory, 5).change, PoolChange::grow);
}

TEST(PoolRules, ALowPoolIsLowThroughTheCooldownButNotThroughASpike) {
  const PoolView low{2, 2, 0, 0};
  const PoolView busy{2, 2, 5, 5};
  PoolMemory memory{0, true, false};
  memory = decide(settings(), low, memory, 10 * kSecond).memory;
  memory = decide(settings(), low, memory, 20 * kSecond).memory;
  EXPECT_EQ(decide(settings(), low, memory, 30 * kSecond).change, PoolChange::shrink);
  memory = decide(settings(), busy, memory, 30 * kSecond).memory;
  EXPECT_EQ(decide(settings(), low, memory, 40 * kSecond).change, PoolChange::none) << "once is not twice";
}

TEST(PoolRules, AShrunkPoolNeedsTwoMoreEvaluations) {
  config::PoolSettings hot = settings();
  hot.cooldown_us = 0;
  const PoolView low{3, 3, 0, 0};
  PoolDecision got = decide(hot, low, {}, 1);
  got = decide(hot, low, got.memory, 2);
  EXPECT_EQ(got.change, PoolChange::shrink);
  got = decide(hot, low, got.memory, 3);
  EXPECT_EQ(got.change, PoolChange::none);
  EXPECT_EQ(decide(hot, low, got.memory, 4).change, PoolChange::shrink);
}

TEST(PoolRules, ALowWatermarkOfZeroNeverShrinks) {
  config::PoolSettings never = settings();
  never.low_watermark_count = 0;
  EXPECT_EQ(decide(never, {2, 2, 0, 0}, {0, false, true}, 1).change, PoolChange::none);
}

TEST(PoolRules, PatienceIsThreeRoundTripsAndAQuarterSecondAtLeast) {
  EXPECT_EQ(hedge_patience_us(1), 250'000u);
  EXPECT_EQ(hedge_patience_us(83'333), 250'000u);
  EXPECT_EQ(hedge_patience_us(200'000), 600'000u);
}

TEST(HedgeBudget, ABurstAndThenARate) {
  HedgeBudget budget;
  const uint64_t start_us = 7 * kSecond;
  for (uint64_t i = 0; i < HedgeBudget::kBurst; i++) EXPECT_TRUE(budget.take(start_us)) << i;
  EXPECT_FALSE(budget.take(start_us));
  EXPECT_FALSE(budget.take(start_us + HedgeBudget::kEvery_us - 1));
  EXPECT_TRUE(budget.take(start_us + HedgeBudget::kEvery_us));
  EXPECT_FALSE(budget.take(start_us + HedgeBudget::kEvery_us));
  // After a rest there is one burst, not more.
  uint64_t count = 0;
  while (budget.take(start_us + 3600 * kSecond)) count++;
  EXPECT_EQ(count, HedgeBudget::kBurst);
}

// A server refuses a client that cancels 256 opens within ten seconds.
TEST(HedgeBudget, TenSecondsNeverSeeHalfOfWhatAServerForgives) {
  HedgeBudget budget;
  uint64_t count = 0;
  for (uint64_t us = 0; us < 10 * kSecond; us += 1000) count += budget.take(us);
  EXPECT_LT(count, 128u);
  EXPECT_GT(count, 100u);
}

}  // namespace
}  // namespace tmesh::client
