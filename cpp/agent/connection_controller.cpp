#include "cpp/agent/connection_controller.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace tmesh::agent {
namespace {

constexpr uint32_t bit(ScaleReason reason) {
  return 1u << std::to_underlying(reason);
}

// What failing targets raise as well.
constexpr uint32_t kOfTargets = bit(ScaleReason::pending_dials) | bit(ScaleReason::dial_wait) |
                                bit(ScaleReason::open_p95) | bit(ScaleReason::ttfb_p95);

std::size_t streams_of(const LinkLoad& link) {
  return link.active_count + link.pending_opens_count;
}

struct Links {
  std::size_t running_count = 0;
  std::size_t ready_count = 0;
  std::size_t retiring_count = 0;
  std::size_t least_streams_count = SIZE_MAX;  // of the ready ones
  std::size_t most_streams_count = 0;
  uint64_t worst_rtt_us = 0;
  uint32_t pressure_percent = 0;
};

Links summary_of(std::span<const LinkLoad> links) {
  Links out;
  for (const LinkLoad& link : links) {
    if (link.is_retiring) {
      out.retiring_count++;
      continue;
    }
    out.running_count++;
    out.most_streams_count = std::max(out.most_streams_count, streams_of(link));
    if (!link.is_ready) continue;
    out.ready_count++;
    out.least_streams_count = std::min(out.least_streams_count, streams_of(link));
    if (streams_of(link) > 0) out.worst_rtt_us = std::max(out.worst_rtt_us, link.rtt_us);
    out.pressure_percent = std::max(out.pressure_percent, link.queue_pressure_percent);
  }
  return out;
}

uint32_t signals_of(const PoolLoad& load, const Links& links, const config::PoolSettings& settings) {
  uint32_t above = 0;
  const auto raise = [&above](ScaleReason reason, bool is_above) {
    if (is_above) above |= bit(reason);
  };
  raise(ScaleReason::active_streams,
        links.ready_count > 0 && links.least_streams_count >= settings.high_watermark_count);
  raise(ScaleReason::queue_pressure, links.pressure_percent >= kQueuePressureHigh_percent);
  raise(ScaleReason::rtt, links.worst_rtt_us >= kRttHigh_us);
  raise(ScaleReason::pending_dials, load.pending_dials_count >= kPendingDialsHigh_count);
  raise(ScaleReason::dial_wait, load.dial_wait_us >= kDialWaitHigh_us);
  raise(ScaleReason::open_p95, load.open_p95_us >= kOpenP95High_us);
  raise(ScaleReason::ttfb_p95, load.ttfb_p95_us >= kTtfbP95High_us);
  raise(ScaleReason::writer_wait_p95, load.writer_wait_p95_us >= kWriterWaitP95High_us);
  if (load.error_rate_percent >= kErrorRateHigh_percent) above &= ~kOfTargets;
  return above;
}

}  // namespace

const char* scale_reason_name(ScaleReason reason) {
  static constexpr std::array<const char*, kScaleReasonCount> kNames = {
      "none",     "active_streams", "queue_pressure",  "rtt",     "pending_dials", "dial_wait",
      "open_p95", "ttfb_p95",       "writer_wait_p95", "low_load"};
  return kNames[std::to_underlying(reason)];
}

uint32_t slot_to_end(std::span<const LinkLoad> links) {
  const LinkLoad* found = nullptr;
  for (const LinkLoad& link : links) {
    if (link.is_retiring) continue;
    const auto key = [](const LinkLoad& l) { return std::pair(!l.is_ready, l.slot); };
    if (found == nullptr || key(link) > key(*found)) found = &link;
  }
  return found == nullptr ? 0 : found->slot;
}

Evaluation evaluate(const config::PoolSettings& settings, const PoolLoad& load,
                    const ControllerMemory& before, uint64_t now_us) {
  const Links links = summary_of(load.links);
  Evaluation out{{}, before};
  out.memory.above = signals_of(load, links, settings);
  out.memory.was_low = links.ready_count > 0 && out.memory.above == 0 &&
                       links.most_streams_count < settings.low_watermark_count;
  if (before.has_changed && now_us - before.changed_us < settings.cooldown_us) return out;

  const uint32_t twice_above = out.memory.above & before.above;
  const bool is_complete = links.ready_count == links.running_count;
  const bool is_below_ceiling = load.server_max == 0 || load.links.size() < load.server_max;
  if (twice_above != 0 && load.is_pool_supported && is_complete && is_below_ceiling &&
      links.running_count < settings.max_count) {
    // The first of those that stand names the decision.
    out.decision = {ScaleAction::grow, static_cast<ScaleReason>(std::countr_zero(twice_above)), 0};
  } else if (out.memory.was_low && before.was_low && links.running_count > settings.min_count &&
             links.retiring_count < kRetiringMax) {
    out.decision = {ScaleAction::shrink, ScaleReason::low_load, slot_to_end(load.links)};
  }
  if (out.decision.action != ScaleAction::none) out.memory = {0, false, true, now_us};
  return out;
}

}  // namespace tmesh::agent
