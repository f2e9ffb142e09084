// What the head and the body of a request must look like before an endpoint sees it.
// Pure functions; no I/O. Texts of refusals repeat nothing but a name, cut.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/address.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/http/message.hpp"
#include "cpp/server/admin_api/api_match.hpp"

namespace tmesh::server {

// Secrets of ours have 43 characters; this bounds what is hashed before anybody is known.
inline constexpr std::size_t kApiBearerBytesMax = 512;
inline constexpr std::size_t kApiIdempotencyKeyBytesMax = 255;

// "Authorization: Bearer …", once. 401 otherwise.
ApiFound<Secret> bearer_of(const http::Headers& headers);

// Idempotency-Key: at most once, 1 to 255 printable ASCII characters. nullopt: none. 400.
ApiFound<std::optional<std::string>> idempotency_key_of(const http::Headers& headers);

// A body has a Content-Type, and it is JSON: 415. A request that reads has no body: 400.
ApiFound<void> check_content(const http::Request& request);

// Strict JSON, one object, with no member but those given, none of them twice. 400 that says
// what is wrong; 413 beyond the limits of json.hpp. Without members: no body or {}; the
// document is then empty.
ApiFound<json::Document> parse_body(std::span<const char* const> members, std::string_view text);

// Who sent the request, for limits per address: the peer, or, where that is one of the
// trusted proxies, the last entry of X-Forwarded-For that is not one. Entries before it are
// the client's own words. The peer where the field is missing or malformed.
IpAddress client_address(const IpAddress& peer, const http::Headers& headers,
                         const std::vector<Cidr>& trusted_proxies);

}  // namespace tmesh::server
