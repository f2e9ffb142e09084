#include "cpp/http/ws_request.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "core/base/check.h"
#include "core/wire/ws_upgrade.h"
#include "cpp/base/url.hpp"

namespace tmesh::http {

namespace {

struct RefusalRow {
  std::string_view name;
  int status;
  std::string_view text;
};

// In the order of WsRefusal.
constexpr std::array<RefusalRow, kWsRefusalCount> kRefusals = {{
    {"path", 404, "not found"},
    {"method", 405, "a WebSocket handshake is a GET request"},
    {"no_upgrade", 426,
     "this is a WebSocket endpoint and the request has no \"Upgrade: websocket\" header; "
     "a reverse proxy in front must pass Upgrade and Connection on"},
    {"no_connection", 426,
     "this is a WebSocket endpoint and the request has no \"Connection: Upgrade\" header; "
     "a reverse proxy in front must pass Upgrade and Connection on"},
    {"version", 426, "Sec-WebSocket-Version must be 13"},
    {"key", 400, "Sec-WebSocket-Key must be given once and be the base64 of 16 bytes"},
    {"query", 400,
     "the WebSocket URL takes no query parameters; a token belongs in the Authorization header"},
    {"body", 400, "a WebSocket handshake has no request body"},
    {"protocols", 400, "Sec-WebSocket-Protocol is malformed or offers too many sub-protocols"},
    {"host", 403, "the Host header is not in security.allowed_hosts"},
    {"origin_missing", 403, "the request has no Origin header"},
    {"origin_repeated", 403, "the request has more than one Origin header"},
    {"origin_malformed", 403, "Origin must be http(s)://host[:port] and nothing else"},
    {"origin_not_allowed", 403, "the Origin header is not in security.allowed_origins"},
    {"auth_missing", 401, "the request has no Authorization header"},
    {"auth_malformed", 401, "Authorization must be given once, as \"Bearer\" and a token"},
}};

const RefusalRow& row_of(WsRefusal refusal) {
  return kRefusals[static_cast<std::size_t>(refusal)];
}

// token68 of RFC 9110 section 11.2.
bool is_token_text(std::string_view text) {
  static constexpr std::string_view kOther = "-._~+/=";
  return !text.empty() && text.size() <= kWsTokenMaxBytes &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  kOther.find(c) != std::string_view::npos;
         });
}

bool is_protocol_name(std::string_view text) {
  static constexpr std::string_view kSeparators = "()<>@,;:\\\"/[]?={} \t";
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c > 0x20 && c < 0x7f && kSeparators.find(c) == std::string_view::npos;
  });
}

std::optional<WsRefusal> check_handshake(const Request& request, WsAccepted& out) {
  if (!request.headers.has_token("upgrade", "websocket")) return WsRefusal::no_upgrade;
  if (!request.headers.has_token("connection", "upgrade") || request.minor_version == 0) {
    return WsRefusal::no_connection;
  }
  const std::string* version = request.headers.find("sec-websocket-version");
  if (version == nullptr || request.headers.count("sec-websocket-version") != 1 || *version != "13") {
    return WsRefusal::version;
  }
  const std::string* key = request.headers.find("sec-websocket-key");
  if (key == nullptr || request.headers.count("sec-websocket-key") != 1 ||
      !tmesh_ws_key_valid(key->data(), key->size())) {
    return WsRefusal::key;
  }
  out.key = *key;
  if (request.has_query) return WsRefusal::query;
  if (!request.body.empty()) return WsRefusal::body;
  return std::nullopt;
}

std::optional<WsRefusal> read_protocols(const Request& request, WsAccepted& out) {
  for (const Header& field : request.headers) {
    if (!equals_ignoring_case(field.name, "sec-websocket-protocol")) continue;
    tmesh_http_list list = tmesh_http_list_init(field.value.data(), field.value.size());
    const char* item = nullptr;
    std::size_t item_bytes = 0;
    while (tmesh_http_list_next(&list, &item, &item_bytes)) {
      std::string_view name(item, item_bytes);
      if (!is_protocol_name(name) || out.protocols.size() == kWsOffersMax) return WsRefusal::protocols;
      out.protocols.emplace_back(name);
    }
  }
  return std::nullopt;
}

std::optional<WsRefusal> check_places(const Request& request, const WsPolicy& policy, WsAccepted& out) {
  out.host = request.host();
  if (!policy.allowed_hosts.empty() &&
      std::none_of(policy.allowed_hosts.begin(), policy.allowed_hosts.end(),
                   [&](const std::string& allowed) { return equals_ignoring_case(allowed, out.host); })) {
    return WsRefusal::host;
  }
  std::size_t origins = request.headers.count("origin");
  if (origins == 0) return WsRefusal::origin_missing;
  if (origins > 1) return WsRefusal::origin_repeated;
  Result<std::string> origin = parse_origin(*request.headers.find("origin"));
  if (!origin) return WsRefusal::origin_malformed;
  out.origin = std::move(*origin);
  if (!policy.allowed_origins.empty() &&
      std::find(policy.allowed_origins.begin(), policy.allowed_origins.end(), out.origin) ==
          policy.allowed_origins.end()) {
    return WsRefusal::origin_not_allowed;
  }
  return std::nullopt;
}

std::optional<WsRefusal> read_token(const Request& request, WsAccepted& out) {
  const std::string* field = request.headers.find("authorization");
  if (field == nullptr) return WsRefusal::auth_missing;
  constexpr std::string_view kScheme = "Bearer ";
  std::string_view value = *field;
  if (request.headers.count("authorization") != 1 ||
      !equals_ignoring_case(value.substr(0, std::min(value.size(), kScheme.size())), kScheme)) {
    return WsRefusal::auth_malformed;
  }
  std::string_view token = value.substr(kScheme.size());
  if (!is_token_text(token)) return WsRefusal::auth_malformed;
  out.token = Secret(token);
  return std::nullopt;
}

}  // namespace

std::expected<WsAccepted, WsRefusal> check_ws_request(const Request& request, std::string_view path,
                                                      const WsPolicy& policy) {
  if (request.path != path) return std::unexpected(WsRefusal::path);
  if (request.method != Method::get) return std::unexpected(WsRefusal::method);
  WsAccepted accepted;
  if (auto refusal = check_handshake(request, accepted)) return std::unexpected(*refusal);
  if (auto refusal = read_protocols(request, accepted)) return std::unexpected(*refusal);
  if (auto refusal = check_places(request, policy, accepted)) return std::unexpected(*refusal);
  if (auto refusal = read_token(request, accepted)) return std::unexpected(*refusal);
  return accepted;
}

Response ws_refusal_response(WsRefusal refusal) {
  const RefusalRow& row = row_of(refusal);
  Response response = Response::plain(row.status, row.text);
  if (row.status == 405) response.headers.add("Allow", "GET");
  if (row.status == 426) response.headers.add("Upgrade", "websocket");
  if (refusal == WsRefusal::version) response.headers.add("Sec-WebSocket-Version", "13");
  if (row.status == 401) response.headers.add("WWW-Authenticate", "Bearer realm=\"tunnelmesh\"");
  return response;
}

std::string_view ws_refusal_name(WsRefusal refusal) {
  return row_of(refusal).name;
}

Headers ws_switching_fields(const WsAccepted& accepted, std::string_view protocol) {
  std::array<char, TMESH_WS_ACCEPT_TEXT_BYTES> accept{};
  tmesh_ws_accept_key(accepted.key.data(), accepted.key.size(), accept.data());
  Headers fields = {{"Upgrade", "websocket"}, {"Sec-WebSocket-Accept", accept.data()}};
  if (!protocol.empty()) {
    TMESH_ASSERT(std::find(accepted.protocols.begin(), accepted.protocols.end(), protocol) !=
                 accepted.protocols.end());
    fields.add("Sec-WebSocket-Protocol", protocol);
  }
  return fields;
}

}  // namespace tmesh::http
