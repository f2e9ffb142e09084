#include "cpp/agent/live_config.hpp"

#include <utility>

#include "cpp/reload/live_settings.hpp"

namespace tmesh::agent {

void take_live(config::AgentConfig& running, config::AgentConfig&& fresh) {
  reload::take_live(running, fresh);
  // New links show the new token and trust the new certificates.
  running.token = std::move(fresh.token);
  running.server.ca_file = std::move(fresh.server.ca_file);
  running.connections = fresh.connections;
  const auto resolver = running.streams.resolver;
  running.streams = std::move(fresh.streams);
  running.streams.resolver = resolver;
  running.policy = std::move(fresh.policy);
  running.metadata = std::move(fresh.metadata);
}

}  // namespace tmesh::agent
