#include "cpp/server/target.hpp"

#include <algorithm>
#include <array>

#include "cpp/base/parse.hpp"

namespace tmesh::server {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_hex_digit(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f');
}

// Whether inet_aton would take this last label as a number.
bool is_number(std::string_view label) {
  if (label.starts_with("0x")) return std::ranges::all_of(label.substr(2), is_hex_digit);
  return std::ranges::all_of(label, is_digit);
}

bool has_good_labels(std::string_view name) {
  constexpr size_t label_bytes_max = 63;  // RFC 1035 2.3.4
  while (true) {
    const size_t dot = name.find('.');
    const std::string_view label = name.substr(0, dot);
    if (label.empty() || label.size() > label_bytes_max) return false;
    if (dot == std::string_view::npos) return !is_number(label);
    name.remove_prefix(dot + 1);
  }
}

}  // namespace

std::optional<std::string> normalize_protocol(std::string_view text) {
  if (text.size() > protocol_bytes_max) return std::nullopt;
  std::string protocol = ascii_lower(trim(text));
  if (protocol == "websocket") protocol = "ws";
  for (const std::string_view known : {"tcp", "udp", "http", "ws"}) {
    if (protocol == known) return protocol;
  }
  return std::nullopt;
}

std::optional<std::string> normalize_host_name(std::string_view text) {
  if (text.ends_with('.')) text.remove_suffix(1);
  if (!is_host_name(text)) return std::nullopt;
  std::string name = ascii_lower(text);
  if (!has_good_labels(name)) return std::nullopt;
  return name;
}

bool holds(const Cidr& network, const std::optional<IpAddress>& ip) {
  return ip && network.base.is_v4() == ip->is_v4() && network.contains(*ip);
}

Result<Target> normalize_target(std::string_view protocol, std::string_view host, uint16_t port) {
  std::optional<std::string> known = normalize_protocol(protocol);
  if (!known) return fail(TMESH_E_POLICY, "unknown protocol");
  if (port == 0) return fail(TMESH_E_POLICY, "port 0 is no target");
  if (host.size() > host_bytes_max) return fail(TMESH_E_POLICY, "the target host is too long");
  Target target{std::move(*known), {}, std::nullopt, port};
  if (Result<IpAddress> ip = parse_ip(host); ip) {
    target.host = format_ip(*ip);
    target.ip = *ip;
    return target;
  }
  std::optional<std::string> name = normalize_host_name(host);
  if (!name) return fail(TMESH_E_POLICY, "the target host is neither an address nor a host name");
  target.host = std::move(*name);
  return target;
}

}  // namespace tmesh::server
