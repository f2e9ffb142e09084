#include "cpp/client/live_config.hpp"

#include <algorithm>
#include <utility>

namespace tmesh::client {

void take_live(config::ClientConfig& running, config::ClientConfig&& fresh) {
  // New links show the new token and trust the new certificates.
  running.token = std::move(fresh.token);
  running.server.ca_file = std::move(fresh.server.ca_file);
  running.connections = fresh.connections;
  running.inbound_buffer_bytes = fresh.inbound_buffer_bytes;
  // The budget is the loop's and stays; one stream must not be able to take more than a quarter.
  running.limits.max_window_bytes =
      std::min(fresh.limits.max_window_bytes, running.limits.memory_budget_bytes / 4);
  running.limits.window_violations_count = fresh.limits.window_violations_count;
  running.limits.window_violations_interval_us = fresh.limits.window_violations_interval_us;
  running.open_timeout_us = fresh.open_timeout_us;
  running.handshake_timeout_us = fresh.handshake_timeout_us;
  running.udp_idle_timeout_us = fresh.udp_idle_timeout_us;
  running.remote_validation = fresh.remote_validation;
  running.metadata = std::move(fresh.metadata);
  running.tunnels = std::move(fresh.tunnels);
  running.socks5 = std::move(fresh.socks5);
  running.http_proxy = std::move(fresh.http_proxy);
  running.shutdown_timeout_us = fresh.shutdown_timeout_us;
  running.log = fresh.log;
  running.watches_files = fresh.watches_files;
}

}  // namespace tmesh::client
