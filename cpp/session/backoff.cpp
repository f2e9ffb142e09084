#include "cpp/session/backoff.hpp"

#include <algorithm>

namespace tmesh::session {
namespace {

constexpr unsigned kQuickAttempts = 5;
constexpr uint64_t kQuickMin_us = 100'000;
constexpr uint64_t kQuickMax_us = 1'000'000;
constexpr uint64_t kSlowMax_us = 30'000'000;

// xorshift64*: spreads waits, guards nothing.
uint64_t draw(uint64_t& state) {
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  return state * 2685821657736338717ULL;
}

}  // namespace

uint64_t Backoff::next_us() {
  const unsigned n = attempts_count_++;
  const uint64_t random = draw(random_) >> 11;
  if (n < kQuickAttempts) return kQuickMin_us + random % (kQuickMax_us - kQuickMin_us);
  const unsigned doublings = std::min(n - kQuickAttempts + 1, 5U);
  const uint64_t base = std::min(uint64_t{1'000'000} << doublings, kSlowMax_us);
  return base * 4 / 5 + random % (base * 2 / 5);
}

void Backoff::link_ended(uint64_t up_us) {
  if (up_us >= kGoodLink_us) attempts_count_ = 0;
}

}  // namespace tmesh::session
