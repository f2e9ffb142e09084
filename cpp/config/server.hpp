// Configuration of tunnelmesh-server (INTERFACE 5.2).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/config/common.hpp"

namespace tmesh::config {

struct StorageSettings {
  enum class Driver : uint8_t { sqlite, mysql };
  Driver driver = Driver::sqlite;
  std::string sqlite_path = "tunnelmesh.db";
  bool is_auto_init = true;
  Secret mysql_dsn;
  bool is_mysql_tls = false;
  std::string mysql_ca_file, mysql_cert_file, mysql_key_file;
};

struct ServerStreamSettings {
  uint64_t concurrent_opens_max = 256;
  uint64_t pending_opens_max = 1024;
  uint64_t opens_per_link_max = 128;
  uint64_t active_per_link_max = 16384;
  uint64_t active_per_token_max = 16384;
  uint64_t active_per_agent_max = 1024;  // 0 = no limit
  uint64_t initial_window_bytes = 262144;
  uint64_t window_update_threshold_bytes = 131072;
};

struct AuthorizationCacheSettings {
  bool is_enabled = true;
  uint64_t local_positive_ttl_us = 5000000;
  uint64_t cluster_positive_ttl_us = 300000000;
  uint64_t negative_ttl_us = 3000000;
  uint64_t revision_poll_interval_us = 2000000;
  uint64_t stale_on_poll_error_max_us = 5000000;
  uint64_t entries_max = 100000;
  bool revoke_open_streams = true;
};

struct HttpSettings {
  uint64_t read_header_timeout_us = 10000000;
  uint64_t idle_timeout_us = 120000000;
  uint64_t header_bytes_max = 1048576;
  uint64_t body_timeout_us = 30000000;
  uint64_t connections_max = 0;  // 0 = derived from the open-file limit
};

// security.auth.login_throttle
struct LoginThrottleSettings {
  uint64_t attempts_max = 10;
  uint64_t window_us = 300000000;
  uint64_t block_us = 600000000;
};

struct ServerTlsSettings {
  bool is_enabled = false;
  std::string cert_file, key_file;
  bool needs_tls13 = false;  // tls.min_version 1.3
};

struct ServerConfig : ProgramSettings {
  bool is_cluster = false;  // mode
  std::string node_id;      // empty: from node_id_path, or derived
  std::string node_id_path;
  HostPort http_addr{"", 80};
  StorageSettings storage;
  ServerStreamSettings stream;
  AuthorizationCacheSettings authorization_cache;
  HttpSettings http;
  ServerTlsSettings tls;
  uint64_t connections_per_agent_max = 64;
  Secret metrics_token;
  Secret token_encryption_key;          // empty: secrets of tokens are not kept
  std::string token_encryption_key_id;  // empty: the default
  uint64_t audit_retention_days = 0;    // 0 = keep
  LoginThrottleSettings login_throttle;
  uint64_t session_token_ttl_us = 0;  // security.auth.session_token_ttl; 0 = no expiry
  std::vector<Cidr> trusted_proxies;
  std::vector<std::string> allowed_hosts;    // lower case; empty = any
  std::vector<std::string> allowed_origins;  // normalised; empty = any bare origin
  bool allow_legacy_connection_tokens = false;
};

}  // namespace tmesh::config
