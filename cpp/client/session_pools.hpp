// All links of a client program: a pool per agent, behind the interface that entries open
// streams through (requirements J1 to J4, J9 to J12).
//
// Entries that name the same agent share its pool. Listeners know nothing of links: those come
// and go behind this object. It also watches over strict opens on pools with more than one
// link and tells which of them should be hedged (docs/decisions/0018-hedged-opens.md).
// Owns the links; outlives the entries, whose Tickets lead here. One thread; time comes from
// Timers.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "cpp/client/agent_pool.hpp"
#include "cpp/client/pool_rules.hpp"
#include "cpp/client/stream_opener.hpp"

namespace tmesh::client {

class SessionPools final : public StreamOpener {
 public:
  struct Stats {
    uint64_t opens_count = 0;        // streams opened, hedges included
    uint64_t unavailable_count = 0;  // opens that found no ready link
    uint64_t grown_count = 0;
    uint64_t shrunk_count = 0;
    uint64_t hedges_count = 0;         // opens tried on a second link
    uint64_t hedges_won_count = 0;     // of those, answered there first
    uint64_t hedges_lost_count = 0;    // answered by the first link after all
    uint64_t hedges_denied_count = 0;  // silent opens for which the budget had nothing left
  };

  // How often it is looked whether a link that drains has lost its last stream.
  static constexpr uint64_t kSweepEvery_us = 1'000'000;

  // timers: the loop, or a test's clock. identity outlives it.
  SessionPools(net::Loop& loop, Timers& timers, Dialer& dialer, const ClientIdentity& identity);
  // As clear().
  ~SessionPools() override;
  SessionPools(const SessionPools&) = delete;
  SessionPools& operator=(const SessionPools&) = delete;

  // The agents that entries name now. Those that are new get a pool, which is connected at once
  // if start() was called; pools of others take no new streams, and are gone with their last.
  // Calls those that wait for a link of them; they may call any function but clear().
  void use_agents(const std::set<std::string>& ids);
  // New bounds for every pool.
  void use_settings(const config::PoolSettings& settings);
  // After the listeners (requirement J12).
  void start();
  // No new streams and no reconnects; streams that run go on. For good.
  void drain();
  // Closes every link. Streams get their OVER events from the loop afterwards.
  void clear();

  Result<OpenedStream> open(const OpenRequest& request, bool allow_strict,
                            const tmesh_mux* not_on = nullptr) override;
  Ticket await_link(std::string_view agent_id, Delegate<void()> done) override;
  void open_timed_out(std::string_view agent_id, const tmesh_stream& stream) override;
  Ticket await_silence(std::string_view agent_id, const tmesh_stream& stream, Delegate<void()> done) override;
  void hedge_ended(std::string_view agent_id, bool is_won) override;

  const Stats& stats() const { return stats_; }
  // Adds the links, by agent and number, those of agents that left at the end, and the counters.
  void report(session::StatusReport& out) const;

 private:
  struct Waiting {
    const AgentPool* pool;
    Delegate<void()> done;
  };
  // One open that may have to be hedged.
  struct Silence {
    SessionPools& pools;
    const uint64_t id;
    AgentPool& pool;
    const tmesh_mux* mux;  // of the open's stream, which is not released before the Ticket is gone
    const Delegate<void()> done;
    uint64_t in_bytes;  // read by then; one more, and the link lives
    Ticket timer;
    void wait(uint64_t us);
    void on_due() { pools.on_silence_due(id); }
  };

  AgentPool* pool_of(std::string_view agent_id);
  void on_pool_change(AgentPool& pool);
  void wake(const AgentPool& pool);
  void forget(const AgentPool& pool);
  void plan_evaluation();
  void on_evaluation();
  void plan_sweep();
  void on_sweep();
  void on_silence_due(uint64_t id);

  PoolParts parts_;
  Stats stats_;
  HedgeBudget hedges_;
  std::map<std::string, std::unique_ptr<AgentPool>, std::less<>> pools_;
  std::list<std::unique_ptr<AgentPool>> leaving_;  // no entry names their agent any more
  std::map<uint64_t, Waiting> waiting_;            // for a link; one per local connection
  std::map<uint64_t, Silence> silences_;           // one per open under way
  uint64_t next_id_ = 0;
  Ticket evaluation_;
  Ticket sweep_;
  bool is_started_ = false;
  bool is_stopping_ = false;
};

}  // namespace tmesh::client
