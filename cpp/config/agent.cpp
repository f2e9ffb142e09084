#include "cpp/config/agent.hpp"

#include "cpp/config/build.hpp"

namespace tmesh::config {
namespace {

std::vector<Cidr> networks(const Settings& settings, std::string_view path) {
  std::vector<Cidr> out;
  for (const std::string& text : settings.list(path)) {
    if (const Result<Cidr> cidr = parse_cidr(text)) out.push_back(*cidr);
  }
  return out;
}

AgentStreamSettings build_streams(Build& build) {
  const Settings& s = build.settings;
  AgentStreamSettings streams;
  build.require_readable("agent.streams.tls_ca_file");
  streams.concurrent_dials_max = s.number("agent.streams.max_concurrent_dials");
  streams.pending_dials_max = s.number("agent.streams.max_pending_dials");
  streams.connect_timeout_us = s.number("agent.streams.connect_timeout");
  streams.open_timeout_us = s.number("agent.streams.open_timeout");
  streams.inbound_buffer_bytes = s.number("agent.streams.inbound_buffer_bytes");
  streams.active_max = s.number("agent.streams.max_active");
  streams.resolver = s.text("agent.streams.resolver") == "system" ? AgentStreamSettings::Resolver::system
                                                                  : AgentStreamSettings::Resolver::async;
  streams.tls_ca_file = s.string("agent.streams.tls_ca_file");
  return streams;
}

}  // namespace

AgentConfig build_agent(Build& build) {
  const Settings& s = build.settings;
  AgentConfig config;
  config.server = build_server_link(build, "agent", "/ws/agent");
  build.require("agent.id");
  config.id = s.string("agent.id");
  config.instance_id = s.string("agent.instance_id");
  config.instance_id_path = s.string("agent.instance_id_path");
  config.token = build_token(build, "agent");
  config.connections = build_pool(build, "agent");
  config.streams = build_streams(build);
  config.policy.allow = networks(s, "agent.policy.allow");
  config.policy.deny = networks(s, "agent.policy.deny");
  config.metadata = build_metadata(build, "agent");
  build_program(build, "agent", config);
  return config;
}

}  // namespace tmesh::config
