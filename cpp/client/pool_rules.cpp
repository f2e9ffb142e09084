#include "cpp/client/pool_rules.hpp"

#include <tuple>
#include <utility>

namespace tmesh::client {

bool is_better(const LinkLoad& a, const LinkLoad& b) {
  const auto key = [](const LinkLoad& l) {
    return std::tuple(l.is_silent, l.streams_count, l.rtt_us == 0 ? UINT64_MAX : l.rtt_us);
  };
  return key(a) < key(b);
}

PoolDecision decide(const config::PoolSettings& settings, const PoolView& view, PoolMemory memory,
                    uint64_t now_us) {
  const bool is_high = view.ready_count > 0 && view.fewest_streams >= settings.high_watermark_count;
  const bool is_low = view.ready_count > 0 && view.most_streams < settings.low_watermark_count;
  const bool is_low_again = std::exchange(memory.was_low, is_low) && is_low;
  if (memory.has_changed && now_us - memory.changed_us < settings.cooldown_us) {
    return {PoolChange::none, memory};
  }
  PoolChange change = PoolChange::none;
  if (is_high && view.links_count < settings.max_count) change = PoolChange::grow;
  if (is_low_again && view.links_count > settings.min_count) change = PoolChange::shrink;
  if (change != PoolChange::none) memory = {now_us, true, false};
  return {change, memory};
}

bool HedgeBudget::take(uint64_t now_us) {
  const uint64_t full_at_us = std::max(full_at_us_, now_us);
  if (full_at_us - now_us > (kBurst - 1) * kEvery_us) return false;
  full_at_us_ = full_at_us + kEvery_us;
  return true;
}

}  // namespace tmesh::client
