// Whether a request may become a WebSocket (WIRE 2). A pure function over a Request;
// it opens nothing and asks nobody. What it accepts still has to prove its token.
//
// Extensions are read over and never negotiated (LESSONS P-H7). A refusal's text names
// the header at fault, because the usual cause is a reverse proxy that drops it
// (LESSONS P-H6); it repeats nothing that the peer sent.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/redact.hpp"
#include "cpp/http/message.hpp"

namespace tmesh::http {

struct WsPolicy {
  std::vector<std::string> allowed_hosts;    // exact but for case, the port counts; empty = any
  std::vector<std::string> allowed_origins;  // as parse_origin normalises them; empty = any
};

enum class WsRefusal : uint8_t {
  path,                // 404
  method,              // 405
  no_upgrade,          // 426: no "Upgrade: websocket"
  no_connection,       // 426: no "Connection: Upgrade"
  version,             // 426: Sec-WebSocket-Version is not 13
  key,                 // 400
  query,               // 400: a token in the URL ends in logs
  body,                // 400: a request body
  protocols,           // 400: malformed or more than kWsOffersMax sub-protocols
  host,                // 403: not among allowed_hosts
  origin_missing,      // 403
  origin_repeated,     // 403
  origin_malformed,    // 403
  origin_not_allowed,  // 403
  auth_missing,        // 401
  auth_malformed,      // 401
};
inline constexpr std::size_t kWsRefusalCount = 16;

// Clients offer four; a longer list is not one of ours, and the list is scanned per offer.
inline constexpr std::size_t kWsOffersMax = 32;
// Tokens are under 100 bytes; this bounds what is hashed before anybody is known.
inline constexpr std::size_t kWsTokenMaxBytes = 512;

struct WsAccepted {
  std::string key;                     // Sec-WebSocket-Key as sent
  std::vector<std::string> protocols;  // offered sub-protocols in order
  Secret token;
  std::string origin;  // normalised
  std::string host;    // as sent
};

// path: the one path this endpoint answers to ("/ws/agent").
std::expected<WsAccepted, WsRefusal> check_ws_request(const Request& request, std::string_view path,
                                                      const WsPolicy& policy);

// The answer for a refusal: status, the header fields that go with it, one line of text.
Response ws_refusal_response(WsRefusal refusal);
// Stable name for logs and counters ("origin_missing").
std::string_view ws_refusal_name(WsRefusal refusal);

// The fields of the 101: Upgrade, Sec-WebSocket-Accept and, unless empty, the chosen
// sub-protocol, which must be one of those offered.
Headers ws_switching_fields(const WsAccepted& accepted, std::string_view protocol);

}  // namespace tmesh::http
