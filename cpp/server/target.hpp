// What a client wants to reach, in the one form that rules are compared with.
// Pure functions and small values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/address.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::server {

inline constexpr size_t agent_id_bytes_max = 255;
inline constexpr size_t protocol_bytes_max = 32;
inline constexpr size_t host_bytes_max = 255;

struct Target {
  std::string protocol;         // "tcp", "udp", "http" or "ws"
  std::string host;             // lower case, no trailing dot; an address in canonical text
  std::optional<IpAddress> ip;  // set exactly when `host` is an address; mapped ones are IPv4
  uint16_t port = 0;
};

// Lower case, trimmed, "websocket" is "ws"; nullopt unless it is one of the four.
std::optional<std::string> normalize_protocol(std::string_view text);

// Lower case without a trailing dot, if that is a host name; nullopt if not. A name
// whose last label is a number in any notation ("127.1", "0x7f.1", "2130706433") is
// not one: resolvers would read it as an address that no rule has seen.
std::optional<std::string> normalize_host_name(std::string_view text);

// Whether the network holds the address, each in its own family: as deployed servers
// have it, "::/0" is no permission for IPv4.
bool holds(const Cidr& network, const std::optional<IpAddress>& ip);

// TMESH_E_POLICY: an unknown protocol, port 0, or a host that is neither an address
// nor a host name (zones and brackets included).
Result<Target> normalize_target(std::string_view protocol, std::string_view host, uint16_t port);

}  // namespace tmesh::server
