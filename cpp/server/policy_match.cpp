#include "cpp/server/policy_match.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "cpp/base/parse.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> malformed(const char* text) {
  return fail(TMESH_E_INVALID, text);
}

bool is_subdomain(std::string_view host, std::string_view of) {
  return host.size() > of.size() + 1 && host.ends_with(of) && host[host.size() - of.size() - 1] == '.';
}

}  // namespace

Result<void> PolicyRule::read_host(std::string_view text) {
  const std::string_view pattern = trim(text);
  if (pattern.empty() || pattern.size() > host_bytes_max || has_space_or_control(pattern)) {
    return malformed("a policy's host is empty or malformed");
  }
  if (pattern == "*") {
    host_ = Host::any;
    return {};
  }
  if (pattern.find('*') != std::string_view::npos) {
    if (!pattern.starts_with("*.")) return malformed("a policy's host has a wildcard in the wrong place");
    std::optional<std::string> domain = normalize_host_name(pattern.substr(2));
    if (!domain) return malformed("a policy's host has a wildcard without a domain");
    host_ = Host::subdomains;
    name_ = std::move(*domain);
    return {};
  }
  if (const Result<Cidr> network = parse_cidr(pattern); network) {
    host_ = Host::network;
    network_ = *network;
    return {};
  }
  if (pattern.find('/') != std::string_view::npos) return malformed("a policy's host is a malformed CIDR");
  if (std::optional<std::string> name = normalize_host_name(pattern); name) {
    host_ = Host::name;
    name_ = std::move(*name);
  }
  return {};
}

Result<PolicyRule> PolicyRule::read(const storage::PolicyRecord& policy) {
  PolicyRule rule;
  if (Result<void> host = rule.read_host(policy.target_host); !host) return std::unexpected(host.error());
  if (policy.target_port < 0 || policy.target_port > 65535)
    return malformed("a policy's port is out of range");
  rule.port_ = static_cast<uint16_t>(policy.target_port);
  Result<std::vector<Cidr>> cidrs = parse_cidr_list(policy.allowed_cidrs);
  if (!cidrs) return std::unexpected(cidrs.error());
  rule.cidrs_ = std::move(*cidrs);
  Result<std::vector<PortRange>> ports = parse_port_list(policy.allowed_ports);
  if (!ports) return std::unexpected(ports.error());
  rule.ports_ = std::move(*ports);
  rule.protocol_ = normalize_protocol(policy.protocol).value_or("");
  return rule;
}

bool PolicyRule::allows_host(const Target& target) const {
  switch (host_) {
    case Host::nothing:
      return false;
    case Host::any:
      return true;
    case Host::subdomains:
      return !target.ip && is_subdomain(target.host, name_);
    case Host::name:
      return !target.ip && target.host == name_;
    case Host::network:
      return holds(network_, target.ip);
  }
  return false;
}

// The cheapest question first: most rows of a long list fail it.
bool PolicyRule::allows(const Target& target) const {
  if (port_ != 0 && port_ != target.port) return false;
  if (protocol_ != target.protocol || !allows_host(target)) return false;
  const auto has_port = [&target](const PortRange& range) { return range.contains(target.port); };
  if (!ports_.empty() && std::ranges::none_of(ports_, has_port)) return false;
  const auto has_ip = [&target](const Cidr& cidr) { return holds(cidr, target.ip); };
  return cidrs_.empty() || std::ranges::any_of(cidrs_, has_ip);
}

std::string PolicyRule::only_host() const {
  if (host_ == Host::name) return name_;
  const bool is_one_address =
      host_ == Host::network && network_.prefix_bits == (network_.base.is_v4() ? 32 : 128);
  return is_one_address ? format_ip(network_.base) : std::string();
}

void PolicyRules::add(PolicyRule rule) {
  ++size_;
  list_bytes_ += rule.list_bytes();
  std::string host = rule.only_host();
  std::vector<PolicyRule>& rules = host.empty() ? others_ : by_host_[std::move(host)];
  rules.push_back(std::move(rule));
}

bool PolicyRules::allows(const Target& target) const {
  const auto allows = [&target](const PolicyRule& rule) { return rule.allows(target); };
  const auto of_host = by_host_.find(target.host);
  return (of_host != by_host_.end() && std::ranges::any_of(of_host->second, allows)) ||
         std::ranges::any_of(others_, allows);
}

}  // namespace tmesh::server
