// agent
#include "cpp/server/admin_context.hpp"
#include "cpp/server/agent_service.hpp"
#include "cpp/server/agent_status.hpp"

namespace tmesh::server {
namespace {

AdminRow describe(const storage::AgentRecord& agent, const char* status) {
  return {{"id", agent.id},
          {"name", agent.name},
          {"ownerUserId", agent.owner_user_id},
          {"capabilities", AdminJson{capabilities_json(agent)}},
          {"enabled", agent.is_enabled},
          {"status", std::string(status)},
          {"createdAt", admin_text(agent.created_at)},
          {"updatedAt", admin_text(agent.updated_at)}};
}

AdminResult print(const AdminContext& context, const storage::AgentRecord& agent) {
  const Result<std::vector<const char*>> status =
      agent_statuses(context.db, std::span(&agent, 1), context.now_us);
  if (!status) return admin_failure(status.error());
  context.print(describe(agent, status->front()));
  return {};
}

std::vector<std::string> capabilities(const AdminContext& context) {
  const std::vector<std::string_view> named = context.options("capability");
  return {named.begin(), named.end()};
}

AdminResult create_agent(const AdminContext& context) {
  AdminFound<storage::UserRecord> owner = context.owner();
  if (!owner) return std::unexpected(owner.error());
  const AgentOptions options{capabilities(context), !context.option("disabled")};
  AdminFound<storage::AgentRecord> made = context.change(
      [&](AgentService service) { return service.create(context.argument(), *owner, options); });
  if (!made) return std::unexpected(made.error());
  return print(context, *made);
}

AdminResult list_agents(const AdminContext& context) {
  const AdminFound<std::string> owner_id = context.owner_filter();
  if (!owner_id) return std::unexpected(owner_id.error());
  const auto fetch = [&](const storage::PageRequest& page) {
    return storage::AgentRepository(context.db).list(page, *owner_id);
  };
  AdminFound<std::vector<storage::AgentRecord>> agents = context.all<storage::AgentRecord>(fetch);
  if (!agents) return std::unexpected(agents.error());
  const Result<std::vector<const char*>> statuses = agent_statuses(context.db, *agents, context.now_us);
  if (!statuses) return admin_failure(statuses.error());
  std::vector<AdminRow> rows;
  rows.reserve(agents->size());
  for (size_t i = 0; i < agents->size(); ++i) rows.push_back(describe((*agents)[i], (*statuses)[i]));
  context.print(rows);
  return {};
}

// What `agent update` says, in one change.
Result<void> update(AgentService& service, const AdminContext& context, storage::AgentRecord& agent,
                    const std::optional<storage::UserRecord>& owner) {
  Result<void> done;
  if (const std::optional<std::string_view> name = context.option("name"))
    done = service.rename(agent, *name);
  if (done && (context.option("capability") || context.option("clear-capabilities")))
    done = service.set_capabilities(agent, capabilities(context));
  if (done && owner) done = service.set_owner(agent, owner->id);
  return done;
}

AdminFound<std::optional<storage::UserRecord>> new_owner(const AdminContext& context) {
  if (!context.option("owner")) return std::optional<storage::UserRecord>();
  AdminFound<storage::UserRecord> owner = context.owner();
  if (!owner) return std::unexpected(owner.error());
  return std::optional<storage::UserRecord>(std::move(*owner));
}

AdminResult change_agent(const AdminContext& context, const std::string& id) {
  const std::string& verb = context.request.verb;
  if (verb == "update" && context.request.options.empty())
    return admin_usage(
        "there is nothing to change: give --name, --capability, --clear-capabilities or --owner");
  if (context.option("capability") && context.option("clear-capabilities"))
    return admin_usage("--capability and --clear-capabilities exclude each other");
  AdminFound<std::optional<storage::UserRecord>> owner = new_owner(context);
  if (!owner) return std::unexpected(owner.error());
  AdminFound<storage::AgentRecord> changed =
      context.change([&](AgentService service) -> Result<storage::AgentRecord> {
        Result<std::optional<storage::AgentRecord>> agent = service.find(id);
        if (!agent) return std::unexpected(agent.error());
        if (!*agent) return fail(TMESH_E_STATE, "there is no such agent");
        Result<void> done = verb == "delete"   ? service.remove(**agent)
                            : verb == "update" ? update(service, context, **agent, *owner)
                                               : service.set_enabled(**agent, verb == "enable");
        if (!done) return std::unexpected(done.error());
        return std::move(**agent);
      });
  if (!changed) return std::unexpected(changed.error());
  return print(context, *changed);
}

}  // namespace

AdminResult run_agent_command(const AdminContext& context) {
  if (context.request.verb == "create") return create_agent(context);
  if (context.request.verb == "list") return list_agents(context);
  AdminFound<storage::AgentRecord> agent = context.agent(context.argument());
  if (!agent) return std::unexpected(agent.error());
  if (context.request.verb == "show") return print(context, *agent);
  return change_agent(context, agent->id);
}

}  // namespace tmesh::server
