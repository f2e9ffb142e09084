// `--allow` patterns: the short way to write a policy.
//
//   HOST:PORTS   HOST  = * | *.example.com | name | address | CIDR | [IPv6] | [IPv6/len]
//                PORTS = * | 443 | 80,443 | 8000-8100 | any mix with commas
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/server/policy_lists.hpp"

namespace tmesh::server {

// As a policy row has it.
struct TargetPattern {
  std::string target_host;   // canonical: lower case, no brackets, CIDR bits cleared
  uint16_t target_port = 0;  // 0: any, or `allowed_ports` decides
  std::vector<PortRange> allowed_ports;
};

inline constexpr const char* target_pattern_help =
    "HOST:PORTS, where HOST is *, *.example.com, a name, an address, a CIDR or [IPv6], "
    "and PORTS is *, 443, 80,443 or 8000-8100";

// The host of a policy as it is stored: * | *.example.com | name | address | CIDR, lower
// case, without a trailing dot, CIDR bits cleared. TMESH_E_INVALID with what is wrong.
Result<std::string> canonical_target_host(std::string_view host);

// TMESH_E_INVALID with what is wrong.
Result<TargetPattern> parse_target_pattern(std::string_view text);

}  // namespace tmesh::server
