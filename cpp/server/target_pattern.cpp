#include "cpp/server/target_pattern.hpp"

#include "cpp/base/address.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/server/policy_lists.hpp"
#include "cpp/server/target.hpp"

namespace tmesh::server {
namespace {

struct Halves {
  std::string_view host;
  std::string_view ports;
  bool is_bracketed = false;
};

Result<Halves> split(std::string_view text) {
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == std::string_view::npos) return fail(TMESH_E_INVALID, "the bracket is not closed");
    if (close + 1 >= text.size() || text[close + 1] != ':')
      return fail(TMESH_E_INVALID, "there is no :PORT at the end");
    return Halves{text.substr(1, close - 1), text.substr(close + 2), true};
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return fail(TMESH_E_INVALID, "there is no :PORT at the end");
  if (text.find(':') != colon) return fail(TMESH_E_INVALID, "an IPv6 address needs brackets");
  return Halves{text.substr(0, colon), text.substr(colon + 1), false};
}

}  // namespace

Result<std::string> canonical_target_host(std::string_view host) {
  if (host.empty()) return fail(TMESH_E_INVALID, "the host is empty");
  if (const Result<Cidr> cidr = parse_cidr(host); cidr)
    return host.find('/') == std::string_view::npos ? format_ip(cidr->base) : format_cidr(*cidr);
  if (host.find('/') != std::string_view::npos) return fail(TMESH_E_INVALID, "the CIDR is malformed");
  if (host == "*") return std::string(host);
  const bool is_wildcard = host.starts_with("*.");
  const std::string_view name = is_wildcard ? host.substr(2) : host;
  if (name.find('*') != std::string_view::npos)
    return fail(TMESH_E_INVALID, "a * stands alone or as *. at the start");
  const std::optional<std::string> canonical = normalize_host_name(name);
  if (!canonical) return fail(TMESH_E_INVALID, "the host is neither an address nor a host name");
  return (is_wildcard ? "*." : "") + *canonical;
}

namespace {

Result<TargetPattern> with_ports(std::string host, std::string_view ports) {
  TargetPattern pattern{std::move(host), 0, {}};
  if (ports == "*") return pattern;
  Result<std::vector<PortRange>> ranges = parse_port_list(ports);
  if (!ranges || ranges->empty() || ports.front() == '[') {
    return fail(TMESH_E_INVALID, "the port is not *, a number from 1 to 65535, a range or a list of these");
  }
  if (ranges->size() == 1 && ranges->front().first == ranges->front().last) {
    pattern.target_port = ranges->front().first;
  } else {
    pattern.allowed_ports = std::move(*ranges);
  }
  return pattern;
}

}  // namespace

Result<TargetPattern> parse_target_pattern(std::string_view text) {
  if (has_space_or_control(text)) return fail(TMESH_E_INVALID, "it contains a space or control character");
  const Result<Halves> halves = split(text);
  if (!halves) return std::unexpected(halves.error());
  const bool is_ipv6 = halves->host.find(':') != std::string_view::npos && parse_cidr(halves->host);
  if (halves->is_bracketed && !halves->host.empty() && !is_ipv6)
    return fail(TMESH_E_INVALID, "brackets are for IPv6 addresses");
  Result<std::string> host = canonical_target_host(halves->host);
  if (!host) return std::unexpected(host.error());
  return with_ports(std::move(*host), halves->ports);
}

}  // namespace tmesh::server
