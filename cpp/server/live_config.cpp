#include "cpp/server/live_config.hpp"

#include <algorithm>
#include <utility>

namespace tmesh::server {

void take_live(config::ServerConfig& running, config::ServerConfig&& fresh) {
  running.stream.concurrent_opens_max = fresh.stream.concurrent_opens_max;
  running.stream.pending_opens_max = fresh.stream.pending_opens_max;
  running.stream.opens_per_link_max = fresh.stream.opens_per_link_max;
  running.stream.active_per_link_max = fresh.stream.active_per_link_max;
  running.stream.active_per_token_max = fresh.stream.active_per_token_max;
  running.stream.active_per_agent_max = fresh.stream.active_per_agent_max;
  // Of links made from now on. The budget and the first window stay, and a window lies between them.
  running.limits.max_window_bytes =
      std::clamp(fresh.limits.max_window_bytes, running.stream.initial_window_bytes,
                 std::max(running.stream.initial_window_bytes, running.limits.memory_budget_bytes / 4));
  running.limits.window_violations_count = fresh.limits.window_violations_count;
  running.limits.window_violations_interval_us = fresh.limits.window_violations_interval_us;
  running.tls.cert_file = std::move(fresh.tls.cert_file);
  running.tls.key_file = std::move(fresh.tls.key_file);
  running.tls.needs_tls13 = fresh.tls.needs_tls13;
  running.shutdown_timeout_us = fresh.shutdown_timeout_us;
  running.log = fresh.log;
  running.watches_files = fresh.watches_files;
}

}  // namespace tmesh::server
