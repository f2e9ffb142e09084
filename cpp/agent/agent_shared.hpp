// What the links of one agent have in common and change: live streams, what their opens
// took, what the server said, warnings given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

#include "cpp/agent/load_samples.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/config/agent.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::agent {

// Live streams of the whole agent, over all its links (agent.streams.max_active, LESSONS
// R21). A stream takes its place before anybody sees it and gives it back by the
// destruction of its Ticket, so exactly once (R27). Outlives the Tickets.
class StreamCeiling {
 public:
  explicit StreamCeiling(uint64_t max) : max_(max) {}  // 0 = no limit
  StreamCeiling(const StreamCeiling&) = delete;
  StreamCeiling& operator=(const StreamCeiling&) = delete;

  // LIMIT: answer queue_full.
  Result<Ticket> claim() {
    if (max_ != 0 && count_ >= max_) return fail(TMESH_E_LIMIT, "too many live streams");
    count_++;
    return Ticket(this, 0, [](void* self, uint64_t) { static_cast<StreamCeiling*>(self)->count_--; });
  }
  std::size_t count() const { return count_; }
  // Streams that are above a lower one stay.
  void set_max(uint64_t max) { max_ = max; }

 private:
  uint64_t max_;
  std::size_t count_ = 0;
};

struct AgentShared {
  explicit AgentShared(const config::AgentConfig& config) : ceiling(config.streams.active_max) {}

  StreamCeiling ceiling;
  LoadSamples samples;
  uint64_t datagrams_dropped_count = 0;         // of all udp targets there were
  const net::TlsContext* target_tls = nullptr;  // whom https targets are verified with; null: no https
  // Of the last acknowledgement.
  bool is_pool_supported = false;
  uint32_t server_max = 0;  // links per agent; 0 = it named none
  // Ceilings of the server that were warned of; all below connections.max, so at most 511.
  std::set<uint32_t> warned_ceilings;
};

}  // namespace tmesh::agent
