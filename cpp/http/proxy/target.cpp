#include "cpp/http/proxy/target.hpp"

#include <algorithm>

#include "cpp/http/message.hpp"

namespace tmesh::http {
namespace {

// What stands in a target as it is: no control character, space, byte of another charset,
// fragment.
bool is_clean(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > 0x20 && c < 0x7f && c != '#'; });
}

// Where the colon of the port stands, behind an IPv6 literal if there is one; size() = none.
std::size_t port_colon(std::string_view text) {
  const std::size_t from = text.starts_with('[') ? text.find(']') : 0;
  return from == std::string_view::npos ? text.size() : std::min(text.find(':', from), text.size());
}

}  // namespace

std::optional<HostPort> parse_authority(std::string_view text, uint16_t default_port) {
  const std::size_t colon = port_colon(text);
  std::string full(text);
  if (colon >= text.size()) full += ':';
  if (full.ends_with(':')) full += std::to_string(default_port);
  const auto parsed = parse_host_port(full);
  if (!parsed || parsed->host.empty() || parsed->port == 0) return std::nullopt;
  return *parsed;
}

std::optional<HostPort> parse_connect_target(std::string_view text) {
  const auto parsed = parse_host_port(text);
  if (!parsed || parsed->host.empty() || parsed->port == 0) return std::nullopt;
  return *parsed;
}

std::optional<AbsoluteForm> parse_absolute_form(std::string_view text, bool is_options) {
  constexpr std::string_view kScheme = "http://";
  if (!equals_ignoring_case(text.substr(0, kScheme.size()), kScheme) || !is_clean(text)) return std::nullopt;
  text.remove_prefix(kScheme.size());
  const std::size_t end = std::min(text.find_first_of("/?"), text.size());
  AbsoluteForm out;
  const std::string_view authority = text.substr(0, end);
  const auto place = parse_authority(authority, 80);
  if (!place) return std::nullopt;
  out.place = *place;
  out.authority = authority.ends_with(':') ? authority.substr(0, authority.size() - 1) : authority;
  const std::string_view rest = text.substr(end);
  if (rest.empty()) {
    out.origin_form = is_options ? "*" : "/";
  } else {
    out.origin_form = rest.starts_with('?') ? "/" + std::string(rest) : std::string(rest);
  }
  return out;
}

bool is_origin_form(std::string_view text) {
  return text.starts_with('/') && is_clean(text);
}

}  // namespace tmesh::http
