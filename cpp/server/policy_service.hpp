// Changes to the policies of agents, each with its audit entry, for the command line
// and the HTTP API alike.
//
// Works inside the caller's change and commits nothing: several changes can be one
// unit. Checks what its callers' users type: what it accepts is what PolicyRule reads, in
// its canonical form, so that no row of ours ever refuses a whole agent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/server/policy_lists.hpp"
#include "cpp/server/target_pattern.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// The members of a policy that a request names; the others keep their value.
struct PolicyChange {
  std::optional<std::string> target_host;  // as in policy_match.hpp
  std::optional<int64_t> target_port;      // 0: any
  std::optional<std::string> protocol;
  std::optional<std::vector<std::string>> allowed_cidrs;
  std::optional<std::vector<PortRange>> allowed_ports;
};

// What `pattern` says, as a change of every member.
PolicyChange policy_of(const TargetPattern& pattern, std::string_view protocol);

class PolicyService {
 public:
  static constexpr int64_t policies_per_agent_max = 4000;
  static constexpr std::size_t cidrs_max = 128;  // as in a token's scope
  static constexpr std::size_t ports_max = 1024;
  // So the authoriser never refuses an agent for what was accepted here.
  static_assert(policies_per_agent_max < static_cast<int64_t>(Authorizer::policies_max));
  static_assert(policies_per_agent_max * (cidrs_max * sizeof(Cidr) + ports_max * sizeof(PortRange)) <=
                Authorizer::policy_lists_bytes_max);

  PolicyService(const ChangeScope& scope) : scope_(scope) {}

  // The row to change, as it stays until the change is over.
  Result<std::optional<storage::PolicyRecord>> find(std::string_view id) const;

  // Errors of all that follow: TMESH_E_INVALID (malformed, the text names the member; no
  // such agent), TMESH_E_STATE (no such row; the agent has too many); the rest as db.hpp.

  // Host and protocol are required; no port is any port, no list no restriction.
  Result<storage::PolicyRecord> create(std::string_view agent_id, const PolicyChange& wanted);
  Result<storage::PolicyRecord> create(std::string_view agent_id, const TargetPattern& pattern,
                                       std::string_view protocol) {
    return create(agent_id, policy_of(pattern, protocol));
  }
  // Changes `policy`, a row that find() gave, along with the database; one that is as wanted
  // stays as it is. A row with an unreadable member is refused unless it is replaced.
  Result<void> update(storage::PolicyRecord& policy, const PolicyChange& wanted);
  Result<void> remove(const storage::PolicyRecord& policy);

 private:
  const ChangeScope& scope_;
};

}  // namespace tmesh::server
