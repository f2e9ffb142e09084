// Whether the agent should have one link more or one less (requirements E6, J11; INTERFACE 8.2).
//
// Pure: a decision follows from a snapshot, the settings and what the evaluation before
// left behind; no clock, no I/O, no allocation. The pool takes the snapshot every
// evaluation_interval and does what comes out.
//
// One more link, when the same signal stood above its threshold in two evaluations
// running, the server said that it supports pools, the cooldown is over, every link that
// should be there is there, and neither `max` nor the server's ceiling is reached. One less,
// when all links were below low_watermark in two evaluations running, no signal stands and
// there are more than `min`: the one with the highest number, of those that are not ready if
// there are any, because the ready one may be all the agent has. While no link is ready none is
// taken away: an outage says nothing about the load. A change forgets what was
// seen, so the next one needs two evaluations of the pool as it then is.
//
// What a signal means here, and why:
//   active_streams  every ready link has high_watermark or more. Not one of them: a deployed
//                   server may send all streams to one link, and more would stay idle (Z16)
//   queue_pressure  the fullest bounded queue of a link: its dials that wait, its control
//                   frames. Not stream data: one download fills its queue as it should
//   rtt             of a link that carries streams: an idle one has no queue to get rid of
//   pending_dials, dial_wait  how many wait now; how long one waited since the evaluation before
//   open_p95, ttfb_p95, writer_wait_p95  of the last 64 samples since the evaluation before
// When half of the recent opens failed, dials and times tell of targets and not of links:
// pending_dials, dial_wait, open_p95 and ttfb_p95 then count for nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cpp/config/common.hpp"

namespace tmesh::agent {

enum class ScaleReason : uint8_t {
  none,
  active_streams,
  queue_pressure,
  rtt,
  pending_dials,
  dial_wait,
  open_p95,
  ttfb_p95,
  writer_wait_p95,
  low_load,  // the one that shrinks
};
inline constexpr std::size_t kScaleReasonCount = 10;

// Stable lower-case name, for logs and metrics.
const char* scale_reason_name(ScaleReason reason);

inline constexpr uint32_t kQueuePressureHigh_percent = 80;
inline constexpr uint64_t kRttHigh_us = 500'000;
inline constexpr std::size_t kPendingDialsHigh_count = 1;
// A dial that waits holds up an open as a frame in the writer's queue does.
inline constexpr uint64_t kDialWaitHigh_us = 100'000;
inline constexpr uint64_t kOpenP95High_us = 1'000'000;
inline constexpr uint64_t kTtfbP95High_us = 1'000'000;
inline constexpr uint64_t kWriterWaitP95High_us = 100'000;
inline constexpr uint32_t kErrorRateHigh_percent = 50;
// Links that end on their own account after a shrink; as many as a slot lets drain.
inline constexpr std::size_t kRetiringMax = 8;

struct LinkLoad {
  uint32_t slot = 0;
  bool is_ready = false;     // takes streams
  bool is_retiring = false;  // ends with its last stream
  std::size_t active_count = 0;
  std::size_t pending_opens_count = 0;  // not among the active ones
  uint64_t rtt_us = 0;                  // of the heartbeat; 0 = not measured
  uint32_t queue_pressure_percent = 0;
};

struct PoolLoad {
  std::span<const LinkLoad> links;
  std::size_t pending_dials_count = 0;
  uint64_t dial_wait_us = 0;
  uint64_t open_p95_us = 0;
  uint64_t ttfb_p95_us = 0;
  uint64_t writer_wait_p95_us = 0;
  uint32_t error_rate_percent = 0;
  bool is_pool_supported = false;  // the last acknowledgement said so
  uint32_t server_max = 0;         // its ceiling for all links of the agent; 0 = it named none
};

enum class ScaleAction : uint8_t { none, grow, shrink };

struct Decision {
  ScaleAction action = ScaleAction::none;
  ScaleReason reason = ScaleReason::none;
  uint32_t slot = 0;  // to shrink
};

// What one evaluation leaves for the next.
struct ControllerMemory {
  uint32_t above = 0;  // bit per ScaleReason
  bool was_low = false;
  bool has_changed = false;
  uint64_t changed_us = 0;
};

struct Evaluation {
  Decision decision;
  ControllerMemory memory;
};

// Which link to end, of those that do not end already: the highest number of those that are
// not ready, or else of all. 0 when there is none.
uint32_t slot_to_end(std::span<const LinkLoad> links);

// now_us never goes back between evaluations.
Evaluation evaluate(const config::PoolSettings& settings, const PoolLoad& load,
                    const ControllerMemory& before, uint64_t now_us);

}  // namespace tmesh::agent
