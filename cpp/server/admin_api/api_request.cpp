#include "cpp/server/admin_api/api_request.hpp"

#include <algorithm>

#include "cpp/base/parse.hpp"

namespace tmesh::server {
namespace {

// The characters of RFC 6750's b64token.
bool is_token(std::string_view text) {
  if (text.empty() || text.size() > kApiBearerBytesMax) return false;
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-._~+/=").find(c) != std::string_view::npos;
  });
}

bool is_json_type(std::string_view value) {
  const std::string_view type = trim(value.substr(0, value.find(';')));
  if (!http::equals_ignoring_case(type, "application/json")) return false;
  if (type.size() == trim(value).size()) return true;
  const std::string_view parameter = trim(value.substr(value.find(';') + 1));
  return http::equals_ignoring_case(parameter, "charset=utf-8") ||
         http::equals_ignoring_case(parameter, "charset=\"utf-8\"");
}

bool is_trusted(const IpAddress& ip, const std::vector<Cidr>& networks) {
  return std::ranges::any_of(networks, [&](const Cidr& network) { return network.contains(ip); });
}

ApiFound<void> check_members(json::Value root, std::span<const char* const> members) {
  std::vector<std::string_view> known(members.begin(), members.end());
  std::vector<bool> is_seen(known.size(), false);
  for (const json::Value member : root) {
    const auto at = std::ranges::find(known, member.key());
    if (at == known.end()) return std::unexpected(unknown_name("the member", member.key(), known));
    const std::size_t index = static_cast<std::size_t>(at - known.begin());
    if (is_seen[index]) return api_error(400, std::string(*at) + ": is given twice");
    is_seen[index] = true;
  }
  return {};
}

}  // namespace

ApiFound<Secret> bearer_of(const http::Headers& headers) {
  constexpr std::string_view scheme = "Bearer ";
  if (headers.count("Authorization") == 0) return api_error(401, "a bearer token is required");
  const std::string_view value = *headers.find("Authorization");
  if (headers.count("Authorization") > 1 || value.size() <= scheme.size() ||
      !http::equals_ignoring_case(value.substr(0, scheme.size()), scheme) ||
      !is_token(value.substr(scheme.size()))) {
    return api_error(401, "Authorization must be given once, as \"Bearer\" and a token");
  }
  return Secret(value.substr(scheme.size()));
}

ApiFound<std::optional<std::string>> idempotency_key_of(const http::Headers& headers) {
  const std::string* key = headers.find("Idempotency-Key");
  if (key == nullptr) return std::nullopt;
  const bool is_printable = std::ranges::all_of(*key, [](char c) { return c >= 0x20 && c < 0x7F; });
  if (headers.count("Idempotency-Key") > 1 || key->empty() || key->size() > kApiIdempotencyKeyBytesMax ||
      !is_printable) {
    return api_error(400, "Idempotency-Key must be given once, as 1 to 255 printable characters");
  }
  return *key;
}

ApiFound<void> check_content(const http::Request& request) {
  if (request.body.empty()) return {};
  if (request.method == http::Method::get || request.method == http::Method::head ||
      request.method == http::Method::options) {
    return api_error(400, "this request takes no body");
  }
  const std::string* type = request.headers.find("Content-Type");
  if (type == nullptr || request.headers.count("Content-Type") > 1 || !is_json_type(*type)) {
    return api_error(415, "the body must be application/json in UTF-8");
  }
  return {};
}

ApiFound<json::Document> parse_body(std::span<const char* const> members, std::string_view text) {
  if (text.empty()) {
    if (members.empty()) return json::Document();
    return api_error(400, "a JSON object is expected as the body");
  }
  auto parsed = json::parse(text);
  if (!parsed) {
    if (parsed.error().code == TMESH_E_TOO_LARGE) return api_error(413, parsed.error().text);
    if (parsed.error().code != TMESH_E_INVALID) return api_error(parsed.error());
    return api_error(400, std::string("the body is not JSON: ") + parsed.error().text);
  }
  if (!parsed->root().is_object()) return api_error(400, "a JSON object is expected as the body");
  if (auto checked = check_members(parsed->root(), members); !checked) {
    return std::unexpected(std::move(checked.error()));
  }
  return std::move(*parsed);
}

IpAddress client_address(const IpAddress& peer, const http::Headers& headers,
                         const std::vector<Cidr>& trusted_proxies) {
  if (!is_trusted(peer, trusted_proxies)) return peer;
  // Several fields are one list, in their order (RFC 9110 section 5.3).
  std::string list;
  for (const http::Header& field : headers) {
    if (!http::equals_ignoring_case(field.name, "X-Forwarded-For")) continue;
    if (!list.empty()) list += ',';
    list += field.value;
  }
  IpAddress client = peer;
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t comma = rest.rfind(',');
    const std::string_view entry = trim(comma == std::string_view::npos ? rest : rest.substr(comma + 1));
    const auto ip = parse_ip(entry);
    if (!ip) return client;
    client = *ip;
    if (comma == std::string_view::npos || !is_trusted(client, trusted_proxies)) return client;
    rest = rest.substr(0, comma);
  }
  return client;
}

}  // namespace tmesh::server
