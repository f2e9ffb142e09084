#include "cpp/session/backoff.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

namespace tmesh::session {
namespace {

constexpr uint64_t kSeeds = 2'000;

// The n-th wait (from 0) of every seed.
std::vector<uint64_t> waits(unsigned n) {
  std::vector<uint64_t> out;
  for (uint64_t seed = 0; seed < kSeeds; seed++) {
    Backoff backoff(seed * 0x9E3779B97F4A7C15ULL);
    for (unsigned i = 0; i < n; i++) backoff.next_us();
    out.push_back(backoff.next_us());
  }
  return out;
}

TEST(Backoff, TheFirstFiveWaitsAreUniformBetween100msAnd1s) {
  for (unsigned n = 0; n < 5; n++) {
    std::array<unsigned, 9> buckets{};
    for (const uint64_t us : waits(n)) {
      ASSERT_GE(us, 100'000u);
      ASSERT_LT(us, 1'000'000u);
      buckets[(us - 100'000) / 100'000]++;
    }
    for (const unsigned count : buckets) {
      EXPECT_GT(count, kSeeds / 9 / 2) << "wait " << n;
      EXPECT_LT(count, kSeeds / 9 * 2) << "wait " << n;
    }
  }
}

TEST(Backoff, ThenTheyDoubleFrom2To30sWithAFifthEitherWay) {
  const uint64_t bases_us[] = {2'000'000,  4'000'000,  8'000'000, 16'000'000,
                               30'000'000, 30'000'000, 30'000'000};
  unsigned n = 5;
  for (const uint64_t base : bases_us) {
    const auto all = waits(n++);
    const auto [low, high] = std::minmax_element(all.begin(), all.end());
    EXPECT_GE(*low, base * 4 / 5);
    EXPECT_LT(*high, base * 6 / 5);
    EXPECT_LT(*low, base * 85 / 100) << "the range is used";
    EXPECT_GT(*high, base * 115 / 100) << "the range is used";
  }
}

TEST(Backoff, NeverGivesUp) {
  Backoff backoff(7);
  for (int i = 0; i < 10'000; i++) backoff.next_us();
  EXPECT_LT(backoff.next_us(), 36'000'000u);
}

TEST(Backoff, ALinkOf60sStartsTheSequenceAgain) {
  Backoff backoff(7);
  for (int i = 0; i < 12; i++) backoff.next_us();
  backoff.link_ended(59'999'999);
  EXPECT_GE(backoff.next_us(), 24'000'000u) << "a shorter link proves nothing";
  backoff.link_ended(60'000'000);
  EXPECT_LT(backoff.next_us(), 1'000'000u);
}

}  // namespace
}  // namespace tmesh::session
