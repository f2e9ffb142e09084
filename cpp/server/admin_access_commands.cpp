// policy and token
#include "cpp/base/parse.hpp"
#include "cpp/server/admin_context.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

AdminRow describe(const storage::PolicyRecord& policy) {
  return {{"id", policy.id},
          {"agentId", policy.agent_id},
          {"protocol", policy.protocol},
          {"targetHost", policy.target_host},
          {"targetPort", policy.target_port},
          {"allowedCIDRs", policy.allowed_cidrs},
          {"allowedPorts", policy.allowed_ports},
          {"createdAt", admin_text(policy.created_at)},
          {"updatedAt", admin_text(policy.updated_at)}};
}

AdminFound<AdminRow> describe(const AdminContext& context, const storage::TokenRecord& token) {
  const Result<TokenStatus> status = token_status(context.db, token, context.now_us);
  if (!status) return admin_failure(status.error());
  // A scope that cannot be read is shown as the text it is.
  const bool is_scope_good = parse_scope(token.scope).has_value();
  return AdminRow{{"id", token.id},
                  {"type", token.token_type},
                  {"prefix", token.token_prefix},
                  {"status", std::string(token_status_name(*status))},
                  {"ownerUserId", admin_text(token.owner_user_id)},
                  {"agentId", admin_text(token.agent_id)},
                  {"scope", is_scope_good ? AdminValue(AdminJson{token.scope}) : AdminValue(token.scope)},
                  {"expiresAt", admin_text(token.expires_at)},
                  {"revokedAt", admin_text(token.revoked_at)},
                  {"lastUsedAt", admin_text(token.last_used_at)},
                  {"createdAt", admin_text(token.created_at)},
                  {"updatedAt", admin_text(token.updated_at)}};
}

AdminFound<std::vector<TargetPattern>> allow_patterns(const AdminContext& context) {
  std::vector<TargetPattern> patterns;
  for (const std::string_view text : context.options("allow")) {
    Result<TargetPattern> pattern = parse_target_pattern(text);
    if (!pattern) return admin_usage("--allow " + std::string(text) + ": " + pattern.error().text);
    patterns.push_back(std::move(*pattern));
  }
  return patterns;
}

AdminResult create_policies(const AdminContext& context) {
  AdminFound<storage::AgentRecord> agent = context.agent(context.option("agent").value_or(""));
  if (!agent) return std::unexpected(agent.error());
  AdminFound<std::vector<TargetPattern>> patterns = allow_patterns(context);
  if (!patterns) return std::unexpected(patterns.error());
  std::vector<std::string_view> protocols = context.options("protocol");
  if (protocols.empty()) protocols.emplace_back("tcp");
  using Rows = std::vector<AdminRow>;
  AdminFound<Rows> rows = context.change([&](AdminService& service) -> Result<Rows> {
    Rows made;
    for (const TargetPattern& pattern : *patterns) {
      for (const std::string_view protocol : protocols) {
        Result<storage::PolicyRecord> policy = service.create_policy(agent->id, pattern, protocol);
        if (!policy) return std::unexpected(policy.error());
        made.push_back(describe(*policy));
      }
    }
    return made;
  });
  if (!rows) return std::unexpected(rows.error());
  context.print(*rows);
  return {};
}

AdminResult list_policies(const AdminContext& context) {
  std::string agent_id;
  if (const std::optional<std::string_view> named = context.option("agent")) {
    AdminFound<storage::AgentRecord> agent = context.agent(*named);
    if (!agent) return std::unexpected(agent.error());
    agent_id = agent->id;
  }
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::PolicyRepository(context.db).list(page, agent_id);
  };
  AdminFound<std::vector<storage::PolicyRecord>> policies = context.all<storage::PolicyRecord>(fetch);
  if (!policies) return std::unexpected(policies.error());
  std::vector<AdminRow> rows;
  for (const storage::PolicyRecord& policy : *policies) rows.push_back(describe(policy));
  context.print(rows);
  return {};
}

// --expires: a duration from now, or a time; in the future either way.
AdminFound<std::optional<int64_t>> expiry(const AdminContext& context) {
  const std::optional<std::string_view> text = context.option("expires");
  if (!text) return std::optional<int64_t>();
  std::optional<int64_t> at_us = storage::parse_timestamp(*text);
  if (const Result<uint64_t> duration_us = parse_duration_us(*text); !at_us && duration_us) {
    at_us = context.now_us + static_cast<int64_t>(*duration_us);
  }
  if (!at_us || *at_us <= context.now_us) {
    return admin_usage(
        "--expires is neither a duration like 720h nor a future time like 2027-01-31T00:00:00Z");
  }
  return at_us;
}

AdminFound<Scope> scope_options(const AdminContext& context) {
  Scope scope;
  for (const std::string_view named : context.options("scope-agent")) {
    AdminFound<storage::AgentRecord> agent = context.agent(named);
    if (!agent) return std::unexpected(agent.error());
    scope.agent_ids.push_back(agent->id);
  }
  for (const std::string_view text : context.options("scope-protocol")) {
    std::optional<std::string> protocol = normalize_protocol(text);
    if (!protocol) return admin_usage("--scope-protocol is not tcp, udp, http or ws");
    scope.protocols.push_back(std::move(*protocol));
  }
  for (const std::string_view text : context.options("scope-cidr")) {
    const Result<Cidr> cidr = parse_cidr(text);
    if (!cidr) return admin_usage("--scope-cidr " + std::string(text) + " is not a CIDR");
    scope.target_cidrs.push_back(*cidr);
  }
  for (const std::string_view text : context.options("scope-port")) {
    const Result<uint16_t> port = parse_port(text);
    if (!port) return admin_usage("--scope-port " + std::string(text) + " is not a port from 1 to 65535");
    scope.target_ports.push_back(*port);
  }
  // The reader's bounds are the writer's too.
  if (const Result<Scope> read = parse_scope(format_scope(scope)); !read)
    return admin_usage(read.error().text);
  return scope;
}

AdminFound<NewToken> wanted_token(const AdminContext& context) {
  const std::optional<TokenType> type = parse_token_type(context.option("type").value_or(""));
  if (!type || *type == TokenType::server_node) return admin_usage("--type is agent or client");
  AdminFound<std::optional<int64_t>> expires_at_us = expiry(context);
  if (!expires_at_us) return std::unexpected(expires_at_us.error());
  NewToken wanted{*type, {}, {}, {}, *expires_at_us};
  if (*type == TokenType::agent) {
    for (const char* name : {"owner", "scope-agent", "scope-protocol", "scope-cidr", "scope-port"}) {
      if (context.option(name)) return admin_usage(std::string("--") + name + " is for client tokens");
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
  AdminFound<storage::UserRecord> owner = context.owner();
  if (!owner) return std::unexpected(owner.error());
  wanted.owner_user_id = owner->id;
  AdminFound<Scope> scope = scope_options(context);
  if (!scope) return std::unexpected(scope.error());
  wanted.scope = std::move(*scope);
  return wanted;
}

AdminResult print_created(const AdminContext& context, const CreatedToken& made) {
  AdminFound<AdminRow> row = describe(context, made.token);
  if (!row) return std::unexpected(row.error());
  row->push_back({"secret", std::string(made.secret.reveal())});
  context.print(*row);
  context.note("note: the secret is shown only this once");
  return {};
}

AdminResult create_token(const AdminContext& context) {
  AdminFound<NewToken> wanted = wanted_token(context);
  if (!wanted) return std::unexpected(wanted.error());
  AdminFound<CreatedToken> made =
      context.change([&](AdminService& service) { return service.create_token(*wanted); });
  if (!made) return std::unexpected(made.error());
  return print_created(context, *made);
}

AdminResult list_tokens(const AdminContext& context) {
  std::string owner_id;
  if (const std::optional<std::string_view> named = context.option("owner")) {
    AdminFound<storage::UserRecord> owner = context.user(*named);
    if (!owner) return std::unexpected(owner.error());
    owner_id = owner->id;
  }
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::TokenRepository(context.db).list(page, owner_id);
  };
  AdminFound<std::vector<storage::TokenRecord>> tokens = context.all<storage::TokenRecord>(fetch);
  if (!tokens) return std::unexpected(tokens.error());
  std::vector<AdminRow> rows;
  for (const storage::TokenRecord& token : *tokens) {
    AdminFound<AdminRow> row = describe(context, token);
    if (!row) return std::unexpected(row.error());
    rows.push_back(std::move(*row));
  }
  context.print(rows);
  return {};
}

AdminResult revoke_token(const AdminContext& context, const storage::TokenRecord& token) {
  AdminFound<void> done = context.change([&](AdminService& service) { return service.revoke_token(token); });
  if (!done) return std::unexpected(done.error());
  storage::TokenRecord now = token;
  now.revoked_at = storage::format_timestamp(context.now_us);
  now.updated_at = now.revoked_at;
  AdminFound<AdminRow> row = describe(context, now);
  if (!row) return std::unexpected(row.error());
  context.print(*row);
  return {};
}

}  // namespace

AdminResult run_policy_command(const AdminContext& context) {
  if (context.request.verb == "create") return create_policies(context);
  if (context.request.verb == "list") return list_policies(context);
  Result<std::optional<storage::PolicyRecord>> found =
      storage::PolicyRepository(context.db).find(context.argument());
  if (!found) return admin_failure(found.error());
  const storage::PolicyRecord* policy = storage::row_of(*found);
  if (policy == nullptr) return admin_failure("there is no such policy");
  if (context.request.verb == "delete") {
    AdminFound<void> done =
        context.change([&](AdminService& service) { return service.delete_policy(*policy); });
    if (!done) return std::unexpected(done.error());
  }
  context.print(describe(*policy));
  return {};
}

AdminResult run_token_command(const AdminContext& context) {
  if (context.request.verb == "create") return create_token(context);
  if (context.request.verb == "list") return list_tokens(context);
  Result<std::optional<storage::TokenRecord>> found =
      storage::TokenRepository(context.db).find(context.argument());
  if (!found) return admin_failure(found.error());
  const storage::TokenRecord* token = storage::row_of(*found);
  if (token == nullptr) return admin_failure("there is no such token");
  if (context.request.verb == "revoke") return revoke_token(context, *token);
  if (context.request.verb == "rotate") {
    AdminFound<CreatedToken> made =
        context.change([&](AdminService& service) { return service.rotate_token(*token); });
    if (!made) return std::unexpected(made.error());
    return print_created(context, *made);
  }
  AdminFound<AdminRow> row = describe(context, *token);
  if (!row) return std::unexpected(row.error());
  context.print(*row);
  return {};
}

}  // namespace tmesh::server
