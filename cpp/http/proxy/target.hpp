// Where a request is to go: the forms of a request target (RFC 9112 section 3.2). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/address.hpp"

namespace tmesh::http {

// "host", "host:80", "[::1]:80", "host:" with the port that is meant when none is named.
// Nothing for user information, bare IPv6, zones, percent-encoding, port 0 and the empty host.
std::optional<HostPort> parse_authority(std::string_view text, uint16_t default_port);

// "host:443" as CONNECT has it: the port is required.
std::optional<HostPort> parse_connect_target(std::string_view text);

struct AbsoluteForm {
  HostPort place;
  std::string authority;    // as Host carries it: as sent, without an empty port
  std::string origin_form;  // path and query; "*" when there is neither and the method is OPTIONS
};
// "http://host[:port]/path?query"; nothing for other schemes and fragments.
std::optional<AbsoluteForm> parse_absolute_form(std::string_view text, bool is_options);

// A path (with a query or not) of visible characters, no fragment.
bool is_origin_form(std::string_view text);

}  // namespace tmesh::http
