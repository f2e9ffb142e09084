#include "cpp/agent/live_config.hpp"

#include <algorithm>
#include <utility>

namespace tmesh::agent {

void take_live(config::AgentConfig& running, config::AgentConfig&& fresh) {
  // New links show the new token and trust the new certificates.
  running.token = std::move(fresh.token);
  running.server.ca_file = std::move(fresh.server.ca_file);
  running.connections = fresh.connections;
  const auto resolver = running.streams.resolver;
  running.streams = std::move(fresh.streams);
  running.streams.resolver = resolver;
  running.policy = std::move(fresh.policy);
  running.metadata = std::move(fresh.metadata);
  // The budget is the loop's and stays; one stream must not be able to take more than a quarter.
  running.limits.max_window_bytes =
      std::min(fresh.limits.max_window_bytes, running.limits.memory_budget_bytes / 4);
  running.limits.window_violations_count = fresh.limits.window_violations_count;
  running.limits.window_violations_interval_us = fresh.limits.window_violations_interval_us;
  running.shutdown_timeout_us = fresh.shutdown_timeout_us;
  running.log = fresh.log;
  running.watches_files = fresh.watches_files;
}

}  // namespace tmesh::agent
