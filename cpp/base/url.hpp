// The few URLs that configuration holds: the server's WebSocket URL, the URL of a
// remote validation service, and Origins. Not a general URL parser.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh {

struct Url {
  bool is_tls = false;  // wss, https
  std::string host;     // lower case, IPv6 without brackets
  uint16_t port = 0;    // the scheme's default when the text has none
  std::string path;     // with its leading '/'; "/" when the text has none
};

// Absolute ws:// or wss:// (any case); no user info, query or fragment (a token
// in a URL ends in logs and proxies: WIRE 2). INVALID with the reason otherwise.
Result<Url> parse_ws_url(std::string_view text);
// Absolute http:// or https://; no user info or fragment; a query is kept in path.
Result<Url> parse_http_url(std::string_view text);
// "http(s)://host[:port]" and nothing behind it (RFC 6454). Returns it normalised:
// lower case, default port left out.
Result<std::string> parse_origin(std::string_view text);

// The Host header's value: the port is left out when it is the scheme's default.
std::string url_authority(const Url& url);

}  // namespace tmesh
