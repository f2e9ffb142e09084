// What an intermediary is there for. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/redact.hpp"

namespace tmesh::http {

struct ProxyRules {
  // false: a forward proxy (absolute-form and CONNECT); true: a gateway to one target.
  bool is_gateway = false;

  // Forward proxy: what a client must show (RFC 7617), if anything.
  bool has_login = false;
  std::string username;
  Secret password;

  // Gateway: where every request goes, and the names it may be addressed to besides
  // localhost and the listener's own address: "name" (on any port) or "name:port", in lower case.
  HostPort target;
  bool is_target_https = false;
  std::vector<std::string> hosts;

  // "host", or "host:port" where the port is not the scheme's.
  std::string target_authority() const;
  // "https://host:8443": what an Origin field holds.
  std::string target_origin() const;
};

}  // namespace tmesh::http
