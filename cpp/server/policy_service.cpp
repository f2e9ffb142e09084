#include "cpp/server/policy_service.hpp"

#include <algorithm>
#include <utility>

#include "cpp/base/parse.hpp"
#include "cpp/server/ids.hpp"
#include "cpp/server/policy_match.hpp"
#include "cpp/server/target.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/policy_repository.hpp"

namespace tmesh::server {
namespace {

using storage::PolicyRepository;

Result<std::string> stored_host(std::string_view text) {
  text = trim(text);
  if (text.size() > host_bytes_max) return fail(TMESH_E_INVALID, "targetHost is longer than 255 bytes");
  Result<std::string> host = canonical_target_host(text);
  if (!host) {
    return fail(TMESH_E_INVALID, "targetHost is not *, *.example.com, a host name, an address or a CIDR");
  }
  return host;
}

Result<std::string> stored_cidrs(const std::vector<std::string>& texts) {
  if (texts.size() > PolicyService::cidrs_max)
    return fail(TMESH_E_INVALID, "allowedCIDRs has more than 128 items");
  std::vector<std::string> cidrs;
  for (const std::string& text : texts) {
    const Result<Cidr> cidr = parse_cidr(trim(text));
    if (!cidr) return fail(TMESH_E_INVALID, "allowedCIDRs has an item that is no CIDR");
    cidrs.push_back(format_cidr(*cidr));
  }
  std::ranges::sort(cidrs);
  const auto repeats = std::ranges::unique(cidrs);
  cidrs.erase(repeats.begin(), repeats.end());
  return format_cidr_list(cidrs);
}

Result<std::string> stored_ports(std::vector<PortRange> ranges) {
  if (ranges.size() > PolicyService::ports_max)
    return fail(TMESH_E_INVALID, "allowedPorts has more than 1024 items");
  for (const PortRange& range : ranges) {
    if (range.first == 0 || range.first > range.last)
      return fail(TMESH_E_INVALID, "allowedPorts has an item that is neither a port nor a range of ports");
  }
  return format_port_list(std::move(ranges));
}

// Puts `stored` in the column, if there is one.
Result<void> put(std::string& column, Result<std::string> stored) {
  if (!stored) return std::unexpected(stored.error());
  column = std::move(*stored);
  return {};
}

Result<void> apply(storage::PolicyRecord& policy, const PolicyChange& wanted) {
  Result<void> done;
  if (wanted.target_host) done = put(policy.target_host, stored_host(*wanted.target_host));
  if (!done) return done;
  if (wanted.target_port) {
    if (*wanted.target_port < 0 || *wanted.target_port > 65535)
      return fail(TMESH_E_INVALID, "targetPort is not a port from 1 to 65535, or 0 for any");
    policy.target_port = *wanted.target_port;
  }
  if (wanted.protocol) {
    std::optional<std::string> known = normalize_protocol(*wanted.protocol);
    if (!known) return fail(TMESH_E_INVALID, "a protocol is tcp, udp, http or ws");
    policy.protocol = std::move(*known);
  }
  if (wanted.allowed_cidrs) done = put(policy.allowed_cidrs, stored_cidrs(*wanted.allowed_cidrs));
  if (!done) return done;
  if (wanted.allowed_ports) done = put(policy.allowed_ports, stored_ports(*wanted.allowed_ports));
  if (!done) return done;
  // The rule of the authoriser is the last word, also about members that stay as they are.
  if (const Result<PolicyRule> rule = PolicyRule::read(policy); !rule) return std::unexpected(rule.error());
  return {};
}

bool is_same(const storage::PolicyRecord& a, const storage::PolicyRecord& b) {
  return a.target_host == b.target_host && a.target_port == b.target_port && a.protocol == b.protocol &&
         a.allowed_cidrs == b.allowed_cidrs && a.allowed_ports == b.allowed_ports;
}

}  // namespace

PolicyChange policy_of(const TargetPattern& pattern, std::string_view protocol) {
  PolicyChange change;
  change.target_host = pattern.target_host;
  change.target_port = pattern.target_port;
  change.protocol = protocol;
  change.allowed_cidrs.emplace();
  change.allowed_ports = pattern.allowed_ports;
  return change;
}

Result<std::optional<storage::PolicyRecord>> PolicyService::find(std::string_view id) const {
  return PolicyRepository(scope_.tx()).find(id);
}

Result<storage::PolicyRecord> PolicyService::create(std::string_view agent_id, const PolicyChange& wanted) {
  if (!wanted.target_host) return fail(TMESH_E_INVALID, "targetHost is missing");
  if (!wanted.protocol) return fail(TMESH_E_INVALID, "protocol is missing");
  storage::PolicyRecord policy;
  if (Result<void> good = apply(policy, wanted); !good) return std::unexpected(good.error());
  // Locked, so that an agent that is being deleted leaves no policy behind.
  const Result<std::optional<storage::AgentRecord>> agent =
      storage::AgentRepository(scope_.tx()).find(agent_id);
  if (!agent) return std::unexpected(agent.error());
  if (!*agent) return fail(TMESH_E_INVALID, "there is no such agent");
  const Result<int64_t> policies = PolicyRepository(scope_.tx()).count_of_agent(agent_id);
  if (!policies) return std::unexpected(policies.error());
  if (*policies >= policies_per_agent_max) return fail(TMESH_E_STATE, "the agent has 4000 policies already");
  policy.id = new_id("policy");
  policy.agent_id = agent_id;
  policy.created_at = scope_.now();
  policy.updated_at = scope_.now();
  if (Result<void> done = PolicyRepository::create(scope_.tx(), policy); !done)
    return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("policy.create", "policy", policy.id); !done)
    return std::unexpected(done.error());
  return policy;
}

Result<void> PolicyService::update(storage::PolicyRecord& policy, const PolicyChange& wanted) {
  storage::PolicyRecord changed = policy;
  if (Result<void> good = apply(changed, wanted); !good) return good;
  if (is_same(policy, changed)) return {};
  changed.updated_at = scope_.now();
  if (Result<void> done = PolicyRepository::update(scope_.tx(), changed); !done) return done;
  policy = std::move(changed);
  return scope_.audit("policy.update", "policy", policy.id);
}

Result<void> PolicyService::remove(const storage::PolicyRecord& policy) {
  if (Result<void> done = PolicyRepository::remove(scope_.tx(), policy.id, scope_.now()); !done) return done;
  return scope_.audit("policy.delete", "policy", policy.id);
}

}  // namespace tmesh::server
