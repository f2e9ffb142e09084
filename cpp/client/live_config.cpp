#include "cpp/client/live_config.hpp"

#include <utility>

#include "cpp/reload/live_settings.hpp"

namespace tmesh::client {

void take_live(config::ClientConfig& running, config::ClientConfig&& fresh) {
  reload::take_live(running, fresh);
  // New links show the new token and trust the new certificates.
  running.token = std::move(fresh.token);
  running.server.ca_file = std::move(fresh.server.ca_file);
  running.connections = fresh.connections;
  running.inbound_buffer_bytes = fresh.inbound_buffer_bytes;
  running.open_timeout_us = fresh.open_timeout_us;
  running.handshake_timeout_us = fresh.handshake_timeout_us;
  running.udp_idle_timeout_us = fresh.udp_idle_timeout_us;
  running.remote_validation = fresh.remote_validation;
  running.metadata = std::move(fresh.metadata);
  running.tunnels = std::move(fresh.tunnels);
  running.socks5 = std::move(fresh.socks5);
  running.http_proxy = std::move(fresh.http_proxy);
}

}  // namespace tmesh::client
