// Opens and running streams of all clients: between the WebSocket handlers above and
// authoriser, registry and agents below.
//
// Owns the flows in flight and the relays; a handler hands a stream in and never hears
// of it again. Rapid reset (an open and its reset at wire speed) cannot pass the
// limits: an orphaned flow keeps its executor slot until its work ended, and a link
// that goes on cancelling is refused for a while.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string_view>

#include "cpp/config/server.hpp"
#include "cpp/server/active_slots.hpp"
#include "cpp/server/cancel_guard.hpp"
#include "cpp/server/open_executor.hpp"
#include "cpp/server/open_flow.hpp"
#include "cpp/server/stream_relay.hpp"

namespace tmesh::server {

class ClientStreamService final : private OpenFlowOwner {
 public:
  struct Stats {
    uint64_t opened_count = 0;
    uint64_t capability_gap_count = 0;
    uint64_t capacity_refused_count = 0;  // error_class capacity (LESSONS R26), also by the agent
    uint64_t rapid_reset_refused_count = 0;
  };

  // revocation outlives the service; null: streams stay when they are no longer allowed.
  ClientStreamService(Timers& timers, StreamAuthorizer& authorizer, AgentRegistry& registry,
                      const config::ServerStreamSettings& settings, LiveRevocation* revocation = nullptr);
  ~ClientStreamService();

  // A stream that a client just opened on its link; it is attached to before this
  // returns. token_id: whose link; link_id: one per link, never used again.
  void open(std::string_view token_id, uint64_t link_id, tmesh_stream* stream, const tmesh_open_stream& open);

  // New limits for what comes; what runs stays.
  void use(const config::ServerStreamSettings& settings);

  std::size_t flows_count() const { return flows_.size(); }
  std::size_t relays_count() const { return relays_.size(); }
  const OpenExecutor& executor() const { return executor_; }
  const ActiveSlots& slots() const { return slots_; }
  const Stats& stats() const { return stats_; }

 private:
  void on_opened(std::list<StreamRelay>& made, unsigned agent_events) override;
  void on_flow_over(OpenFlow& flow) override;
  void on_capability_gap() override { stats_.capability_gap_count++; }
  void on_capacity_refusal() override { stats_.capacity_refused_count++; }
  void on_cancelled(uint64_t client_key) override { cancels_.note(client_key, timers_.now_us()); }
  void on_relay_done(StreamRelay& relay, tmesh_status why);

  Timers& timers_;
  StreamAuthorizer& authorizer_;
  AgentRegistry& registry_;
  LiveRevocation* const revocation_;
  Stats stats_;
  ActiveSlots slots_;
  OpenExecutor executor_;
  CancelGuard cancels_;
  std::list<std::unique_ptr<OpenFlow>> flows_;
  std::list<StreamRelay> relays_;
};

}  // namespace tmesh::server
