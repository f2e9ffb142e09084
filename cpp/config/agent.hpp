// Configuration of tunnelmesh-agent (INTERFACE 5.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/config/common.hpp"

namespace tmesh::config {

struct AgentStreamSettings {
  enum class Resolver : uint8_t { async, system };
  uint64_t concurrent_dials_max = 32;
  uint64_t pending_dials_max = 128;
  uint64_t connect_timeout_us = 5000000;
  uint64_t open_timeout_us = 8000000;
  uint64_t inbound_buffer_bytes = 262144;
  uint64_t active_max = 1024;  // 0 = no limit
  Resolver resolver = Resolver::async;
  std::string tls_ca_file;  // for https targets; empty: the system's bundle
};

// The operator's own networks, checked on every resolved address (STORAGE); the
// agent's policy unit says how they combine with the built-in denials.
struct AgentPolicySettings {
  std::vector<Cidr> allow;
  std::vector<Cidr> deny;
};

struct AgentConfig : ProgramSettings {
  ServerLink server;
  std::string id;
  std::string instance_id;       // empty: kept in instance_id_path
  std::string instance_id_path;  // made on first use
  Secret token;
  PoolSettings connections;
  AgentStreamSettings streams;
  AgentPolicySettings policy;
  std::vector<MetadataItem> metadata;
};

}  // namespace tmesh::config
