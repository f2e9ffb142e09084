// policy
#include "cpp/server/admin_context.hpp"
#include "cpp/server/policy_service.hpp"
#include "cpp/storage/policy_repository.hpp"

namespace tmesh::server {
namespace {

AdminRow describe(const storage::PolicyRecord& policy) {
  return {{"id", policy.id},
          {"agentId", policy.agent_id},
          {"protocol", policy.protocol},
          {"targetHost", policy.target_host},
          {"targetPort", policy.target_port},
          {"allowedCIDRs", AdminJson{cidr_list_json(policy.allowed_cidrs)}},
          {"allowedPorts", AdminJson{port_list_json(policy.allowed_ports)}},
          {"createdAt", admin_text(policy.created_at)},
          {"updatedAt", admin_text(policy.updated_at)}};
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

std::vector<std::string> cidr_options(const AdminContext& context) {
  const std::vector<std::string_view> texts = context.options("cidr");
  return {texts.begin(), texts.end()};
}

AdminResult create_policies(const AdminContext& context) {
  AdminFound<storage::AgentRecord> agent = context.agent(context.option("agent").value_or(""));
  if (!agent) return std::unexpected(agent.error());
  AdminFound<std::vector<TargetPattern>> patterns = allow_patterns(context);
  if (!patterns) return std::unexpected(patterns.error());
  std::vector<std::string_view> protocols = context.options("protocol");
  if (protocols.empty()) protocols.emplace_back("tcp");
  using Rows = std::vector<AdminRow>;
  AdminFound<Rows> rows = context.change([&](PolicyService service) -> Result<Rows> {
    Rows made;
    for (const TargetPattern& pattern : *patterns) {
      for (const std::string_view protocol : protocols) {
        PolicyChange wanted = policy_of(pattern, protocol);
        wanted.allowed_cidrs = cidr_options(context);
        Result<storage::PolicyRecord> policy = service.create(agent->id, wanted);
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

// What `policy update` says.
AdminFound<PolicyChange> wanted_change(const AdminContext& context) {
  if (context.request.options.empty())
    return admin_usage("there is nothing to change: give --allow, --protocol, --cidr or --any-cidr");
  if (context.option("cidr") && context.option("any-cidr"))
    return admin_usage("--cidr and --any-cidr exclude each other");
  AdminFound<std::vector<TargetPattern>> patterns = allow_patterns(context);
  if (!patterns) return std::unexpected(patterns.error());
  PolicyChange change;
  if (!patterns->empty()) {
    const TargetPattern& pattern = patterns->front();
    change.target_host = pattern.target_host;
    change.target_port = pattern.target_port;
    change.allowed_ports = pattern.allowed_ports;
  }
  if (const std::optional<std::string_view> protocol = context.option("protocol"))
    change.protocol = *protocol;
  if (context.option("cidr") || context.option("any-cidr")) change.allowed_cidrs = cidr_options(context);
  return change;
}

AdminResult change_policy(const AdminContext& context) {
  const bool is_update = context.request.verb == "update";
  AdminFound<PolicyChange> wanted = is_update ? wanted_change(context) : PolicyChange();
  if (!wanted) return std::unexpected(wanted.error());
  AdminFound<storage::PolicyRecord> changed =
      context.change([&](PolicyService service) -> Result<storage::PolicyRecord> {
        Result<std::optional<storage::PolicyRecord>> policy = service.find(context.argument());
        if (!policy) return std::unexpected(policy.error());
        if (!*policy) return fail(TMESH_E_STATE, "there is no such policy");
        Result<void> done = is_update ? service.update(**policy, *wanted) : service.remove(**policy);
        if (!done) return std::unexpected(done.error());
        return std::move(**policy);
      });
  if (!changed) return std::unexpected(changed.error());
  context.print(describe(*changed));
  return {};
}

}  // namespace

AdminResult run_policy_command(const AdminContext& context) {
  if (context.request.verb == "create") return create_policies(context);
  if (context.request.verb == "list") return list_policies(context);
  if (context.request.verb != "show") return change_policy(context);
  Result<std::optional<storage::PolicyRecord>> found =
      storage::PolicyRepository(context.db).find(context.argument());
  if (!found) return admin_failure(found.error());
  const storage::PolicyRecord* policy = storage::row_of(*found);
  if (policy == nullptr) return admin_failure("there is no such policy");
  context.print(describe(*policy));
  return {};
}

}  // namespace tmesh::server
