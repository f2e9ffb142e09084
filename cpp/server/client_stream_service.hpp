// Opens and running streams of all clients: between the WebSocket handlers above and
// authoriser, registry and agents below.
//
// Owns the flows in flight and the relays; a handler hands a stream in and never hears
// of it again. Rapid reset (an open and its reset at wire speed) cannot pass the
// limits: an orphaned flow keeps its executor slot until its work ended.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "cpp/config/server.hpp"
#include "cpp/server/active_slots.hpp"
#include "cpp/server/client_link.hpp"
#include "cpp/server/open_executor.hpp"
#include "cpp/server/open_flow.hpp"
#include "cpp/server/stream_relay.hpp"

namespace tmesh::server {

class ClientStreamService final : private OpenFlowOwner {
 public:
  struct Stats {
    uint64_t opened_count = 0;
    uint64_t capability_gap_count = 0;
  };

  ClientStreamService(Timers& timers, StreamAuthorizer& authorizer, AgentRegistry& registry,
                      const config::ServerStreamSettings& settings);
  ~ClientStreamService();

  void open(const ClientLink& link, tmesh_stream* stream, const tmesh_open_stream& open);

  std::size_t flows_count() const { return flows_.size(); }
  std::size_t relays_count() const { return relays_.size(); }
  const Stats& stats() const { return stats_; }

 private:
  void on_opened(tmesh_stream* client_side, tmesh_stream* agent_side, ActiveSlots::Slot slot) override;
  void on_flow_over(OpenFlow& flow) override;
  void on_capability_gap() override { stats_.capability_gap_count++; }
  void on_relay_done(StreamRelay& relay, tmesh_status why);

  Timers& timers_;
  StreamAuthorizer& authorizer_;
  AgentRegistry& registry_;
  Stats stats_;
  ActiveSlots slots_;
  OpenExecutor executor_;
  std::list<std::unique_ptr<OpenFlow>> flows_;
  std::list<StreamRelay> relays_;
};

}  // namespace tmesh::server
