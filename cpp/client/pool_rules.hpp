// What a pool of links decides, as pure functions: which link a stream goes to (requirement
// J3), whether there should be more or fewer of them (J11), and how many opens may be hedged.
// No I/O, no clock: time is an argument.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cpp/config/common.hpp"

namespace tmesh::client {

// A link that takes streams, as the choice sees it.
struct LinkLoad {
  std::size_t streams_count = 0;  // live, of the mux
  uint64_t rtt_us = 0;            // smoothed; 0 = not measured yet
  bool is_silent = false;         // not a byte since a PING that is overdue
};

// Whether a stream should rather go to `a`: one that is heard of, then the fewest streams, then
// the lower round-trip time, an unknown one last. False when they are equal.
bool is_better(const LinkLoad& a, const LinkLoad& b);

enum class PoolChange : uint8_t { none, grow, shrink };

// A pool at the moment of an evaluation.
struct PoolView {
  std::size_t links_count = 0;     // that take streams, or will once they are connected
  std::size_t ready_count = 0;     // of those, that take streams now
  std::size_t fewest_streams = 0;  // on a ready one
  std::size_t most_streams = 0;
};

// What one evaluation leaves to the next.
struct PoolMemory {
  uint64_t changed_us = 0;
  bool has_changed = false;
  bool was_low = false;  // at the evaluation before, and unused since
};

struct PoolDecision {
  PoolChange change = PoolChange::none;
  PoolMemory memory;
};

// One more link when every ready one has high_watermark streams or more; one less when every
// ready one had fewer than low_watermark in two evaluations running; never beyond min and max,
// and cooldown after the last change at the earliest. While no link is ready nothing is
// decided: an outage says nothing about the load.
PoolDecision decide(const config::PoolSettings& settings, const PoolView& view, PoolMemory memory,
                    uint64_t now_us);

// How long a link may be silent after a PING before an open on it is hedged.
constexpr uint64_t hedge_patience_us(uint64_t rtt_us) {
  return std::max<uint64_t>(3 * rtt_us, 250'000);
}

// Bounds the hedged opens of a client. The losers are opens that their server sees cancelled,
// and it refuses a client that cancels 256 within ten seconds: burst and rate together stay
// below half of that.
class HedgeBudget {
 public:
  static constexpr uint64_t kBurst = 64;
  static constexpr uint64_t kEvery_us = 160'000;

  // Takes one; false when none is left.
  bool take(uint64_t now_us);

 private:
  uint64_t full_at_us_ = 0;  // when the whole burst is available again
};

}  // namespace tmesh::client
