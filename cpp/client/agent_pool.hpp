// The links of a client for one agent: between min and max of them, each kept connected by
// its slot (requirements J1 to J3).
//
// New streams go to the best ready link (pool_rules.hpp); a stream stays on the link it was
// opened on, and the counts are the muxes' own. A link that is too many drains: it takes no
// new streams and is closed when its last one ended; should the pool grow before that, it
// is taken back first, so there are never more than max. One thread; time comes from Timers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpp/base/timers.hpp"
#include "cpp/client/pool_rules.hpp"
#include "cpp/client/server_link.hpp"
#include "cpp/session/status_report.hpp"

namespace tmesh::client {

// What a pool is made of. Borrowed; outlives the pools.
struct PoolParts {
  net::Loop& loop;
  Timers& timers;
  Dialer& dialer;
  const ClientIdentity& identity;
  config::PoolSettings settings;  // may change while pools live: see AgentPool::fit
};

class AgentPool {
 public:
  // A link came or failed to come. Never called from inside a call to the pool.
  using Changed = Delegate<void(AgentPool&)>;

  // PINGs for the round-trip time are at least this far apart, whatever the evaluation interval.
  static constexpr uint64_t kSampleEvery_us = 1'000'000;

  AgentPool(const PoolParts& parts, std::string agent_id, Changed changed);
  // Streams of its links get their OVER events from the loop afterwards.
  ~AgentPool() = default;
  AgentPool(const AgentPool&) = delete;
  AgentPool& operator=(const AgentPool&) = delete;

  // Connects min links.
  void start();
  // For good: no new streams and no reconnects.
  void drain();
  // After settings changed: no fewer than min and no more than max.
  void fit();
  // Once per evaluation interval: measures round-trip times and grows or shrinks the pool.
  PoolChange evaluate();
  // Closes the links that drained. Whether some still drain.
  bool sweep();

  // On the best link; not_on: a mux that shall not carry it, and then only a link that can
  // answer and is not silent. CLOSED: no link is ready; otherwise as ServerLink::open.
  Result<OpenedStream> open(const OpenRequest& request, bool allow_strict, const tmesh_mux* not_on);
  // Whether open() with these arguments would find a link.
  bool has_other(const tmesh_mux& not_on) { return best(&not_on, nullptr) != nullptr; }
  bool has_ready() { return best(nullptr, nullptr) != nullptr; }
  // None is ready, and one is likely to be soon.
  bool is_link_coming();
  void open_timed_out(const tmesh_stream& stream);
  // The link whose mux this is, and its session; both null when the session is over.
  struct Carrier {
    ServerLink* link = nullptr;
    session::Session* session = nullptr;
  };
  Carrier carrier_of(const tmesh_mux* mux);

  const std::string& agent_id() const { return agent_id_; }
  bool has_streams();
  std::size_t links_count() const { return links_.size(); }
  std::size_t draining_count() const;
  void report(session::StatusReport& out) const;

 private:
  void on_link_change();
  void add();
  void shrink();
  PoolView view();
  // Null when no link is left.
  ServerLink* best(const tmesh_mux* not_on, const std::vector<const ServerLink*>* except);

  const PoolParts& parts_;
  const std::string agent_id_;
  const Changed changed_;
  std::vector<std::unique_ptr<ServerLink>> links_;  // by number, ascending; those that drain, too
  PoolMemory memory_;
  uint64_t sampled_us_ = 0;
  bool is_started_ = false;
  bool is_stopping_ = false;
};

}  // namespace tmesh::client
