// Configuration of tunnelmesh-client (INTERFACE 5.2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/config/common.hpp"

namespace tmesh::config {

// User name and password that a local proxy entry demands (requirement J6: from
// the environment or a secret file, never from YAML).
struct Credentials {
  std::string username;
  Secret password;
  bool empty() const { return username.empty() && password.empty(); }
};

// One local entry: client.tunnels[] or the one a `forward` command describes.
struct Tunnel {
  enum class Protocol : uint8_t { tcp, udp, http, socks5, http_proxy };
  enum class Auth : uint8_t { none, password, basic };

  std::string name;  // unique; "tunnel-N" when the file has none
  Protocol protocol = Protocol::socks5;
  HostPort listen;          // host empty = every address; unused when socket_path is set
  std::string socket_path;  // a Unix socket ("unix:/path" in the file); counts as local
  std::string agent_id;
  std::string target_host;  // tcp, udp, http only
  uint16_t target_port = 0;
  bool is_target_https = false;  // http: the agent speaks TLS to the target
  std::string tls_server_name;   // with it; empty = target_host
  Auth auth = Auth::none;
  std::string auth_url;  // remote validation; empty = none
  bool allow_remote = false;
  std::vector<std::string> hosts;  // http: further names it answers to
  uint32_t socket_mode = 0600;
  std::string socket_owner;  // "user" or "user:group"; empty = own

  bool operator==(const Tunnel&) const = default;

  // Whether only this machine can reach the listener.
  bool is_local() const { return !socket_path.empty() || is_loopback_host(listen.host); }
};

struct RemoteValidationSettings {
  uint64_t positive_ttl_us = 15000000;
  uint64_t negative_ttl_us = 2000000;
  uint64_t timeout_us = 3000000;
  uint64_t entries_max = 10000;
  std::string ca_file;  // for https; empty = the system's
};

struct ClientConfig : ProgramSettings {
  ServerLink server;
  Secret token;
  std::string instance_id;       // empty: kept in instance_id_path
  std::string instance_id_path;  // made on first use
  PoolSettings connections;
  uint64_t open_timeout_us = 8000000;
  uint64_t inbound_buffer_bytes = 262144;
  uint64_t handshake_timeout_us = 10000000;  // of one local connection, until its request is read
  uint64_t udp_idle_timeout_us = 60000000;
  RemoteValidationSettings remote_validation;
  std::vector<MetadataItem> metadata;
  std::vector<Tunnel> tunnels;
  Credentials socks5;      // for tunnels with auth password
  Credentials http_proxy;  // for tunnels with auth basic
};

// "socks5", "http-proxy", ...
std::string_view protocol_name(Tunnel::Protocol protocol);

}  // namespace tmesh::config
