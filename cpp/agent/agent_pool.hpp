// The links of one agent: between connections.min and connections.max slots.
//
// Owns the slots. Every evaluation_interval it takes the snapshot of the controller
// (connection_controller.hpp) and does what comes out: a new slot with the lowest free
// number, or the end of one. A slot that ends takes no new streams,
// keeps those it has and goes with the last of them; streams never move (requirement A2)
// and none is ended for the pool's sake. A slot reconnects in place by itself. With min =
// max nothing is evaluated and no timer runs. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cpp/agent/agent_slot.hpp"
#include "cpp/agent/connection_controller.hpp"

namespace tmesh::agent {

class AgentPool {
 public:
  // How often a slot that ends is looked at.
  static constexpr uint64_t kSweepEvery_us = 1'000'000;

  struct Stats {
    std::array<uint64_t, kScaleReasonCount> decisions_count{};  // by ScaleReason; low_load are the shrinks
  };

  // The arguments outlive it. timers: the loop, or a test's clock.
  AgentPool(net::Loop& loop, Timers& timers, Dialer& dialer, const AgentIdentity& identity,
            AgentShared& shared, const Policy& policy);
  ~AgentPool();
  AgentPool(const AgentPool&) = delete;
  AgentPool& operator=(const AgentPool&) = delete;

  void start();
  // New bounds hold at once: slots are added, or end as above, however many those are. The
  // rest from the next evaluation on.
  void use_settings(const config::PoolSettings& settings);
  // No new streams, no new links; streams that run go on.
  void drain();
  std::size_t streams_count() const;
  // In order of their making; those that end are among them.
  const std::vector<std::unique_ptr<AgentSlot>>& slots() const { return slots_; }
  const Stats& stats() const { return stats_; }

 private:
  AgentSlot& add();
  void fit();
  void plan_evaluation();
  void take_loads();
  void retire(uint32_t number, const char* reason);
  void evaluate();
  void act(const Decision& decision);
  void sweep();
  uint32_t free_number() const;

  net::Loop& loop_;
  Timers& timers_;
  Dialer& dialer_;
  const AgentIdentity& identity_;
  AgentShared& shared_;
  const Policy& policy_;
  config::PoolSettings settings_;
  std::vector<std::unique_ptr<AgentSlot>> slots_;
  std::vector<LinkLoad> links_;  // of the last look; its memory is reused
  ControllerMemory memory_;
  Ticket evaluation_;
  Ticket sweep_;
  Stats stats_;
  bool is_running_ = false;  // started, and not to stop
};

}  // namespace tmesh::agent
