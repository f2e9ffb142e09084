#include "cpp/server/admin_token_options.hpp"

#include <array>

#include "cpp/base/parse.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

constexpr std::array scope_flags = {"scope-agent", "scope-node", "scope-protocol", "scope-cidr",
                                    "scope-port"};

// --expires: a duration from now, or a time, in the future either way; `never` where there
// may be an expiry to take away.
AdminFound<std::optional<std::optional<int64_t>>> expiry(const AdminContext& context, bool may_be_never) {
  using Wanted = std::optional<std::optional<int64_t>>;
  const std::optional<std::string_view> text = context.option("expires");
  if (!text) return Wanted();
  if (may_be_never && *text == "never") return Wanted(std::optional<int64_t>());
  std::optional<int64_t> at_us = storage::parse_timestamp(*text);
  if (const Result<uint64_t> duration_us = parse_duration_us(*text); !at_us && duration_us) {
    at_us = context.now_us + static_cast<int64_t>(*duration_us);
  }
  if (!at_us || *at_us <= context.now_us) {
    return admin_usage(
        "--expires is neither a duration like 720h nor a future time like 2027-01-31T00:00:00Z");
  }
  return Wanted(at_us);
}

AdminResult read_ids(const AdminContext& context, TokenOptions& options) {
  for (const std::string_view named : context.options("scope-agent")) {
    AdminFound<storage::AgentRecord> agent = context.agent(named);
    if (!agent) return std::unexpected(agent.error());
    if (!options.agent_ids) options.agent_ids.emplace();
    options.agent_ids->push_back(agent->id);
  }
  for (const std::string_view id : context.options("scope-node")) {
    if (!options.server_node_ids) options.server_node_ids.emplace();
    options.server_node_ids->emplace_back(id);
  }
  return {};
}

AdminResult read_targets(const AdminContext& context, TokenOptions& options) {
  for (const std::string_view text : context.options("scope-protocol")) {
    std::optional<std::string> protocol = normalize_protocol(text);
    if (!protocol) return admin_usage("--scope-protocol is not tcp, udp, http or ws");
    if (!options.protocols) options.protocols.emplace();
    options.protocols->push_back(std::move(*protocol));
  }
  for (const std::string_view text : context.options("scope-cidr")) {
    const Result<Cidr> cidr = parse_cidr(text);
    if (!cidr) return admin_usage("--scope-cidr " + std::string(text) + " is not a CIDR");
    if (!options.target_cidrs) options.target_cidrs.emplace();
    options.target_cidrs->push_back(*cidr);
  }
  for (const std::string_view text : context.options("scope-port")) {
    const Result<uint16_t> port = parse_port(text);
    if (!port) return admin_usage("--scope-port " + std::string(text) + " is not a port from 1 to 65535");
    if (!options.target_ports) options.target_ports.emplace();
    options.target_ports->push_back(*port);
  }
  return {};
}

// --any-X takes a restriction away.
template <class T>
AdminResult take_away(const AdminContext& context, const char* name, std::optional<std::vector<T>>& list) {
  const std::string any = std::string("any-") + name;
  if (!context.option(any)) return {};
  if (list) return admin_usage("--scope-" + std::string(name) + " and --" + any + " exclude each other");
  list.emplace();
  return {};
}

}  // namespace

Scope TokenOptions::applied_to(Scope scope) const {
  if (agent_ids) scope.agent_ids = *agent_ids;
  if (server_node_ids) scope.server_node_ids = *server_node_ids;
  if (protocols) scope.protocols = *protocols;
  if (target_cidrs) scope.target_cidrs = *target_cidrs;
  if (target_ports) scope.target_ports = *target_ports;
  return scope;
}

Result<TokenChange> TokenOptions::applied_to(const storage::TokenRecord& token) const {
  TokenChange change{std::nullopt, expires_at_us};
  if (!has_scope()) return change;
  Result<Scope> scope = parse_scope(token.scope);
  if (!scope) return fail(TMESH_E_STATE, "the token's scope cannot be read; revoke it and make another");
  change.scope = applied_to(std::move(*scope));
  return change;
}

AdminFound<NewToken> new_token_options(const AdminContext& context) {
  const std::optional<TokenType> type = parse_token_type(context.option("type").value_or(""));
  if (!type) return admin_usage("--type is agent, client or server_node");
  AdminFound<std::optional<std::optional<int64_t>>> expires_at_us = expiry(context, false);
  if (!expires_at_us) return std::unexpected(expires_at_us.error());
  NewToken wanted{*type, {}, {}, {}, expires_at_us->value_or(std::nullopt)};
  if (*type == TokenType::agent) {
    if (context.option("owner")) return admin_usage("--owner is not for agent tokens");
    for (const char* name : scope_flags) {
      if (context.option(name)) return admin_usage(std::string("--") + name + " is not for agent tokens");
    }
    if (!context.option("agent")) return admin_usage("an agent token needs --agent");
    AdminFound<storage::AgentRecord> agent = context.agent(*context.option("agent"));
    if (!agent) return std::unexpected(agent.error());
    wanted.agent_id = agent->id;
    wanted.owner_user_id = agent->owner_user_id;
    return wanted;
  }
  if (context.option("agent"))
    return admin_usage("--agent is for agent tokens; to restrict a client token use --scope-agent");
  // A node token belongs to the installation unless somebody is named.
  if (*type == TokenType::client || context.option("owner")) {
    AdminFound<storage::UserRecord> owner = context.owner();
    if (!owner) return std::unexpected(owner.error());
    wanted.owner_user_id = owner->id;
  }
  TokenOptions options;
  if (AdminResult read = read_ids(context, options); !read) return std::unexpected(read.error());
  if (AdminResult read = read_targets(context, options); !read) return std::unexpected(read.error());
  wanted.scope = options.applied_to(Scope());
  return wanted;
}

AdminFound<TokenOptions> changed_token_options(const AdminContext& context) {
  if (context.request.options.empty())
    return admin_usage("there is nothing to change: give --expires, --scope-... or --any-...");
  TokenOptions options;
  AdminFound<std::optional<std::optional<int64_t>>> expires_at_us = expiry(context, true);
  if (!expires_at_us) return std::unexpected(expires_at_us.error());
  options.expires_at_us = *expires_at_us;
  AdminResult read = read_ids(context, options);
  if (read) read = read_targets(context, options);
  if (read) read = take_away(context, "agent", options.agent_ids);
  if (read) read = take_away(context, "node", options.server_node_ids);
  if (read) read = take_away(context, "protocol", options.protocols);
  if (read) read = take_away(context, "cidr", options.target_cidrs);
  if (read) read = take_away(context, "port", options.target_ports);
  if (!read) return std::unexpected(read.error());
  return options;
}

}  // namespace tmesh::server
