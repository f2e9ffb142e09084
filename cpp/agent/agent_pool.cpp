#include "cpp/agent/agent_pool.hpp"

#include <algorithm>
#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh::agent {

AgentPool::AgentPool(net::Loop& loop, Timers& timers, Dialer& dialer, const AgentIdentity& identity,
                     AgentShared& shared, const Policy& policy)
    : loop_(loop),
      timers_(timers),
      dialer_(dialer),
      identity_(identity),
      shared_(shared),
      policy_(policy),
      settings_(identity.config.connections) {
  for (uint64_t i = 0; i < settings_.min_count; i++) add();
}

AgentPool::~AgentPool() = default;

AgentSlot& AgentPool::add() {
  slots_.push_back(
      std::make_unique<AgentSlot>(loop_, timers_, dialer_, identity_, shared_, policy_, free_number()));
  return *slots_.back();
}

uint32_t AgentPool::free_number() const {
  for (uint32_t number = 1;; number++) {
    const bool is_free =
        std::ranges::none_of(slots_, [number](const auto& slot) { return slot->number() == number; });
    if (is_free) return number;
  }
}

void AgentPool::start() {
  is_running_ = true;
  for (const auto& slot : slots_) slot->start();
  plan_evaluation();
}

void AgentPool::plan_evaluation() {
  evaluation_.cancel();
  if (settings_.max_count == settings_.min_count) return;
  evaluation_ =
      timers_.after(settings_.evaluation_interval_us, Delegate<void()>::bind<&AgentPool::evaluate>(this));
}

void AgentPool::use_settings(const config::PoolSettings& settings) {
  settings_ = settings;
  if (!is_running_) return;
  fit();
  plan_evaluation();
}

void AgentPool::fit() {
  auto count = static_cast<uint64_t>(
      std::ranges::count_if(slots_, [](const auto& slot) { return !slot->is_retiring(); }));
  for (; count < settings_.min_count; count++) add().start();
  for (; count > settings_.max_count; count--) {
    take_loads();
    retire(slot_to_end(links_), "settings");
  }
}

void AgentPool::take_loads() {
  links_.clear();
  for (const auto& slot : slots_) links_.push_back(slot->load());
}

void AgentPool::drain() {
  is_running_ = false;
  evaluation_.cancel();
  sweep_.cancel();
  for (const auto& slot : slots_) slot->drain();
}

std::size_t AgentPool::streams_count() const {
  std::size_t count = 0;
  for (const auto& slot : slots_) count += slot->streams_count();
  return count;
}

void AgentPool::evaluate() {
  plan_evaluation();
  PoolLoad load;
  take_loads();
  for (const auto& slot : slots_) {
    load.pending_dials_count += slot->pending_dials_count();
    shared_.samples.dial_waited(slot->oldest_dial_wait_us());
  }
  const LoadSamples::Taken samples = shared_.samples.take();
  load.links = links_;
  load.dial_wait_us = samples.dial_wait_us;
  load.open_p95_us = samples.open_p95_us;
  load.ttfb_p95_us = samples.ttfb_p95_us;
  load.writer_wait_p95_us = samples.writer_wait_p95_us;
  load.error_rate_percent = samples.error_rate_percent;
  load.is_pool_supported = shared_.is_pool_supported;
  load.server_max = shared_.server_max;
  const Evaluation evaluation = agent::evaluate(settings_, load, memory_, timers_.now_us());
  memory_ = evaluation.memory;
  act(evaluation.decision);
}

void AgentPool::act(const Decision& decision) {
  if (decision.action == ScaleAction::none) return;
  stats_.decisions_count[std::to_underlying(decision.reason)]++;
  const char* const reason = scale_reason_name(decision.reason);
  if (decision.action == ScaleAction::grow) {
    AgentSlot& slot = add();
    log::info("pool_grow", {{"slot", slot.number()}, {"reason", reason}, {"slots", slots_.size()}});
    return slot.start();
  }
  retire(decision.slot, reason);
}

void AgentPool::retire(uint32_t number, const char* reason) {
  const auto found =
      std::ranges::find_if(slots_, [number](const auto& slot) { return slot->number() == number; });
  AgentSlot& slot = **found;
  log::info("pool_shrink", {{"slot", number}, {"reason", reason}, {"streams", slot.streams_count()}});
  slot.retire();
  if (!sweep_.active()) {
    sweep_ = timers_.after(kSweepEvery_us, Delegate<void()>::bind<&AgentPool::sweep>(this));
  }
}

void AgentPool::sweep() {
  std::erase_if(slots_, [](const auto& slot) { return slot->is_retired(); });
  const bool has_more = std::ranges::any_of(slots_, [](const auto& slot) { return slot->is_retiring(); });
  sweep_ =
      has_more ? timers_.after(kSweepEvery_us, Delegate<void()>::bind<&AgentPool::sweep>(this)) : Ticket();
}

}  // namespace tmesh::agent
