// /agents and /agents/{id}: everybody reads his own, administrators read and write all.
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/server/admin_api/api_access.hpp"
#include "cpp/server/agent_service.hpp"
#include "cpp/server/agent_status.hpp"
#include "cpp/storage/agent_repository.hpp"

namespace tmesh::server {
namespace {

using storage::AgentRecord;

void write_agent(json::Writer& out, const AgentRecord& agent, const char* status) {
  out.begin_object()
      .member("id", agent.id)
      .member("name", agent.name)
      .member("ownerUserId", agent.owner_user_id)
      .key("capabilities")
      .raw(capabilities_json(agent));
  out.member("enabled", agent.is_enabled)
      .member("status", status)
      .member("createdAt", agent.created_at)
      .member("updatedAt", agent.updated_at)
      .end_object();
}

ApiResult agent_reply(const ApiCall& call, const AgentRecord& agent, int status = 200) {
  const auto statuses = agent_statuses(call.db, std::span(&agent, 1), call.now_us);
  if (!statuses) return api_database_error(statuses.error());
  ApiReply reply{status, {}};
  reply.data.clear();
  json::Writer out(reply.data);
  write_agent(out, agent, statuses->front());
  return reply;
}

ApiResult list_agents(ApiCall& call) {
  const auto request = page_request(call);
  if (!request) return std::unexpected(request.error());
  const std::string_view owner = call.is_admin() ? std::string_view() : call.caller.id;
  const auto page = storage::AgentRepository(call.db).list(*request, owner);
  if (!page) return api_database_error(page.error());
  const auto statuses = agent_statuses(call.db, page->items, call.now_us);
  if (!statuses) return api_database_error(statuses.error());
  size_t at = 0;
  return ApiReply{200, page_json(*page, [&](json::Writer& out, const AgentRecord& agent) {
                    write_agent(out, agent, (*statuses)[at++]);
                  })};
}

ApiResult get_agent(ApiCall& call) {
  const auto agent = agent_of_path(call);
  if (!agent) return std::unexpected(agent.error());
  return agent_reply(call, *agent);
}

// The members of a body; absent ones are nullopt.
struct AgentMembers {
  std::optional<std::string> name;
  std::optional<std::vector<std::string>> capabilities;
  std::optional<bool> enabled;
  std::optional<std::string> owner_user_id;
};

ApiFound<AgentMembers> read_members(const ApiCall& call) {
  auto name = body_text(call, "name");
  if (!name) return std::unexpected(name.error());
  auto capabilities = body_texts(call, "capabilities");
  if (!capabilities) return std::unexpected(capabilities.error());
  const auto enabled = body_bool(call, "enabled");
  if (!enabled) return std::unexpected(enabled.error());
  auto owner = body_text(call, "ownerUserId");
  if (!owner) return std::unexpected(owner.error());
  return AgentMembers{std::move(*name), std::move(*capabilities), *enabled, std::move(*owner)};
}

ApiResult create_agent(ApiCall& call) {
  auto members = read_members(call);
  if (!members) return std::unexpected(members.error());
  if (!members->name) return api_error(400, "name: is required");
  storage::UserRecord owner = call.caller;
  if (members->owner_user_id) owner.id = *members->owner_user_id;
  const AgentOptions options{members->capabilities.value_or(std::vector<std::string>()),
                             members->enabled.value_or(true)};
  const auto agent = AgentService(*call.change).create(*members->name, owner, options);
  if (!agent) return api_error(agent.error());
  return agent_reply(call, *agent, 201);
}

Result<void> apply(AgentService service, AgentRecord& agent, const AgentMembers& members) {
  Result<void> done;
  if (members.name) done = service.rename(agent, *members.name);
  if (done && members.capabilities) done = service.set_capabilities(agent, *members.capabilities);
  if (done && members.enabled) done = service.set_enabled(agent, *members.enabled);
  if (done && members.owner_user_id) done = service.set_owner(agent, *members.owner_user_id);
  return done;
}

ApiResult change_agent(ApiCall& call, const AgentMembers& members) {
  auto agent = agent_of_path(call);
  if (!agent) return std::unexpected(agent.error());
  if (const Result<void> done = apply(AgentService(*call.change), *agent, members); !done)
    return api_error(done.error());
  return agent_reply(call, *agent);
}

ApiResult patch_agent(ApiCall& call) {
  const auto members = read_members(call);
  if (!members) return std::unexpected(members.error());
  return change_agent(call, *members);
}

// Replaces what can be written but the owner, so nothing of it may be left to a default that
// somebody forgot about.
ApiResult put_agent(ApiCall& call) {
  const auto members = read_members(call);
  if (!members) return std::unexpected(members.error());
  if (!members->name) return api_error(400, "name: is required");
  if (!members->capabilities) return api_error(400, "capabilities: is required");
  if (!members->enabled) return api_error(400, "enabled: is required");
  return change_agent(call, *members);
}

ApiResult delete_agent(ApiCall& call) {
  const auto agent = agent_of_path(call);
  if (!agent) return std::unexpected(agent.error());
  if (const Result<void> done = AgentService(*call.change).remove(*agent); !done)
    return api_error(done.error());
  return agent_reply(call, *agent);
}

constexpr std::array kAgentMembers = {"name", "capabilities", "enabled", "ownerUserId"};

using http::Method;
constexpr ApiRoute kRoutes[] = {
    {.method = Method::get, .path = "/agents", .who = ApiWho::user, .run = list_agents, .is_list = true},
    {.method = Method::post, .path = "/agents", .run = create_agent, .body_members = kAgentMembers},
    {.method = Method::get, .path = "/agents/{id}", .who = ApiWho::user, .run = get_agent},
    {.method = Method::put, .path = "/agents/{id}", .run = put_agent, .body_members = kAgentMembers},
    {.method = Method::patch, .path = "/agents/{id}", .run = patch_agent, .body_members = kAgentMembers},
    {.method = Method::del, .path = "/agents/{id}", .run = delete_agent},
};

}  // namespace

std::span<const ApiRoute> agent_routes() {
  return kRoutes;
}

}  // namespace tmesh::server
