#include "cpp/server/policy_match.hpp"

#include <algorithm>

#include "cpp/base/parse.hpp"
#include "cpp/server/policy_lists.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> malformed(const char* text) {
  return fail(TMESH_E_INVALID, text);
}

bool is_subdomain(std::string_view host, std::string_view of) {
  return host.size() > of.size() + 1 && host.ends_with(of) && host[host.size() - of.size() - 1] == '.';
}

Result<bool> wildcard_allows(std::string_view pattern, const Target& target) {
  if (pattern == "*") return true;
  if (!pattern.starts_with("*.")) return malformed("a policy's host has a wildcard in the wrong place");
  const std::optional<std::string> domain = normalize_host_name(pattern.substr(2));
  if (!domain) return malformed("a policy's host has a wildcard without a domain");
  return !target.ip && is_subdomain(target.host, *domain);
}

Result<bool> host_allows(std::string_view text, const Target& target) {
  const std::string_view pattern = trim(text);
  if (pattern.empty() || pattern.size() > host_bytes_max || has_space_or_control(pattern)) {
    return malformed("a policy's host is empty or malformed");
  }
  if (pattern.find('*') != std::string_view::npos) return wildcard_allows(pattern, target);
  if (pattern.find('/') != std::string_view::npos) {
    const Result<Cidr> cidr = parse_cidr(pattern);
    if (!cidr) return malformed("a policy's host is a malformed CIDR");
    return holds(*cidr, target.ip);
  }
  if (const Result<IpAddress> ip = parse_ip(pattern); ip) return target.ip && *target.ip == *ip;
  // A text that is no host name (deployed rows may hold one) equals no target.
  const std::optional<std::string> name = normalize_host_name(pattern);
  return name && !target.ip && *name == target.host;
}

}  // namespace

Result<bool> policy_allows(const storage::PolicyRecord& policy, const Target& target) {
  const Result<bool> host = host_allows(policy.target_host, target);
  if (!host) return host;
  if (policy.target_port < 0 || policy.target_port > 65535)
    return malformed("a policy's port is out of range");
  const Result<std::vector<Cidr>> cidrs = parse_cidr_list(policy.allowed_cidrs);
  if (!cidrs) return std::unexpected(cidrs.error());
  const Result<std::vector<PortRange>> ports = parse_port_list(policy.allowed_ports);
  if (!ports) return std::unexpected(ports.error());

  const std::optional<std::string> protocol = normalize_protocol(policy.protocol);
  if (!*host || !protocol || *protocol != target.protocol) return false;
  if (policy.target_port != 0 && policy.target_port != target.port) return false;
  const auto has_ip = [&target](const Cidr& cidr) { return holds(cidr, target.ip); };
  if (!cidrs->empty() && std::ranges::none_of(*cidrs, has_ip)) return false;
  const auto has_port = [&target](const PortRange& range) { return range.contains(target.port); };
  return ports->empty() || std::ranges::any_of(*ports, has_port);
}

}  // namespace tmesh::server
