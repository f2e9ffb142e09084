#include "cpp/server/live_config.hpp"

#include <algorithm>
#include <utility>

#include "cpp/reload/live_settings.hpp"

namespace tmesh::server {

void take_live(config::ServerConfig& running, config::ServerConfig&& fresh) {
  reload::take_live(running, fresh);
  running.stream.concurrent_opens_max = fresh.stream.concurrent_opens_max;
  running.stream.pending_opens_max = fresh.stream.pending_opens_max;
  running.stream.opens_per_link_max = fresh.stream.opens_per_link_max;
  running.stream.active_per_link_max = fresh.stream.active_per_link_max;
  running.stream.active_per_token_max = fresh.stream.active_per_token_max;
  running.stream.active_per_agent_max = fresh.stream.active_per_agent_max;
  // Of links made from now on. The first window stays, and none is below it.
  running.limits.max_window_bytes =
      std::max(running.limits.max_window_bytes, running.stream.initial_window_bytes);
  running.tls.cert_file = std::move(fresh.tls.cert_file);
  running.tls.key_file = std::move(fresh.tls.key_file);
  running.tls.needs_tls13 = fresh.tls.needs_tls13;
}

}  // namespace tmesh::server
