// What the flags of `token create` and `token update` say. Internal to the administration
// commands.
#pragma once

#include <cstdint>
#include <optional>

#include "cpp/server/admin_context.hpp"
#include "cpp/server/scope.hpp"
#include "cpp/server/token_service.hpp"

namespace tmesh::server {

// A change that depends on the token's present scope, because each list of it has its own flag.
struct TokenOptions {
  std::optional<std::vector<std::string>> agent_ids, server_node_ids, protocols;
  std::optional<std::vector<Cidr>> target_cidrs;
  std::optional<std::vector<uint16_t>> target_ports;
  std::optional<std::optional<int64_t>> expires_at_us;

  bool has_scope() const { return agent_ids || server_node_ids || protocols || target_cidrs || target_ports; }
  Scope applied_to(Scope scope) const;
  // TMESH_E_STATE: the token's scope cannot be read.
  Result<TokenChange> applied_to(const storage::TokenRecord& token) const;
};

AdminFound<NewToken> new_token_options(const AdminContext& context);
AdminFound<TokenOptions> changed_token_options(const AdminContext& context);

}  // namespace tmesh::server
