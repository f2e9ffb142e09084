// /agents/{id}/policies: owners read, administrators write. A policy of another agent is not
// there.
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/server/admin_api/api_access.hpp"
#include "cpp/server/policy_service.hpp"
#include "cpp/storage/policy_repository.hpp"

namespace tmesh::server {
namespace {

using storage::PolicyRecord;

void write_policy(json::Writer& out, const PolicyRecord& policy) {
  out.begin_object()
      .member("id", policy.id)
      .member("agentId", policy.agent_id)
      .member("targetHost", policy.target_host)
      .member("targetPort", policy.target_port)
      .member("protocol", policy.protocol)
      .key("allowedCIDRs")
      .raw(cidr_list_json(policy.allowed_cidrs))
      .key("allowedPorts")
      .raw(port_list_json(policy.allowed_ports));
  out.member("createdAt", policy.created_at).member("updatedAt", policy.updated_at).end_object();
}

ApiReply policy_reply(const PolicyRecord& policy, int status = 200) {
  std::string text;
  json::Writer out(text);
  write_policy(out, policy);
  return {status, std::move(text)};
}

ApiFound<PolicyRecord> policy_of_path(const ApiCall& call) {
  const auto agent = agent_of_path(call);
  if (!agent) return std::unexpected(agent.error());
  using storage::PolicyRepository;
  PolicyRepository policies =
      call.change != nullptr ? PolicyRepository(call.change->tx()) : PolicyRepository(call.db);
  Result<std::optional<PolicyRecord>> found = policies.find(call.path[1]);
  if (!found) return api_database_error(found.error());
  if (!*found || (*found)->agent_id != agent->id) return api_error(404, "there is no such policy");
  return std::move(**found);
}

// Ports are numbers, ranges texts like "8000-8100".
ApiFound<std::optional<std::vector<PortRange>>> body_ports(const ApiCall& call) {
  const json::Value list = call.body.get("allowedPorts");
  if (!list) return std::nullopt;
  const auto malformed = [] {
    return api_error(
        400, "allowedPorts: a list of ports from 1 to 65535 and ranges like \"8000-8100\" is expected");
  };
  // What is beyond is the service's refusal; reading it all would be work for nothing.
  if (!list.is_array()) return malformed();
  std::vector<PortRange> ports;
  for (const json::Value item : list) {
    if (ports.size() > PolicyService::ports_max) break;
    const auto number = item.as_int();
    const auto text = item.as_string();
    const Result<PortRange> range = parse_port_range(text ? *text : std::to_string(number.value_or(0)));
    if (!range) return malformed();
    ports.push_back(*range);
  }
  return ports;
}

ApiFound<PolicyChange> read_members(const ApiCall& call) {
  auto host = body_text(call, "targetHost");
  if (!host) return std::unexpected(host.error());
  const auto port = body_int(call, "targetPort");
  if (!port) return std::unexpected(port.error());
  auto protocol = body_text(call, "protocol");
  if (!protocol) return std::unexpected(protocol.error());
  auto cidrs = body_texts(call, "allowedCIDRs");
  if (!cidrs) return std::unexpected(cidrs.error());
  auto ports = body_ports(call);
  if (!ports) return std::unexpected(ports.error());
  return PolicyChange{std::move(*host), *port, std::move(*protocol), std::move(*cidrs), std::move(*ports)};
}

// For a whole policy: the target must be said, no list is no restriction.
ApiFound<PolicyChange> read_whole(const ApiCall& call) {
  auto members = read_members(call);
  if (!members) return members;
  if (!members->target_host) return api_error(400, "targetHost: is required");
  if (!members->target_port) return api_error(400, "targetPort: is required; 0 is any port");
  if (!members->protocol) return api_error(400, "protocol: is required");
  if (!members->allowed_cidrs) members->allowed_cidrs.emplace();
  if (!members->allowed_ports) members->allowed_ports.emplace();
  return members;
}

ApiResult list_policies(ApiCall& call) {
  const auto agent = agent_of_path(call);
  if (!agent) return std::unexpected(agent.error());
  const auto request = page_request(call);
  if (!request) return std::unexpected(request.error());
  const auto page = storage::PolicyRepository(call.db).list(*request, agent->id);
  if (!page) return api_database_error(page.error());
  return ApiReply{200, page_json(*page, write_policy)};
}

ApiResult create_policy(ApiCall& call) {
  const auto agent = agent_of_path(call);
  if (!agent) return std::unexpected(agent.error());
  const auto wanted = read_whole(call);
  if (!wanted) return std::unexpected(wanted.error());
  const auto policy = PolicyService(*call.change).create(agent->id, *wanted);
  if (!policy) return api_error(policy.error());
  return policy_reply(*policy, 201);
}

ApiResult get_policy(ApiCall& call) {
  const auto policy = policy_of_path(call);
  if (!policy) return std::unexpected(policy.error());
  return policy_reply(*policy);
}

ApiResult change_policy(ApiCall& call, const ApiFound<PolicyChange>& wanted) {
  auto policy = policy_of_path(call);
  if (!policy) return std::unexpected(policy.error());
  if (!wanted) return std::unexpected(wanted.error());
  if (const Result<void> done = PolicyService(*call.change).update(*policy, *wanted); !done)
    return api_error(done.error());
  return policy_reply(*policy);
}

ApiResult put_policy(ApiCall& call) {
  return change_policy(call, read_whole(call));
}

ApiResult patch_policy(ApiCall& call) {
  return change_policy(call, read_members(call));
}

ApiResult delete_policy(ApiCall& call) {
  const auto policy = policy_of_path(call);
  if (!policy) return std::unexpected(policy.error());
  if (const Result<void> done = PolicyService(*call.change).remove(*policy); !done)
    return api_error(done.error());
  return policy_reply(*policy);
}

constexpr std::array kPolicyMembers = {"targetHost", "targetPort", "protocol", "allowedCIDRs",
                                       "allowedPorts"};
constexpr const char* kAll = "/agents/{id}/policies";
constexpr const char* kOne = "/agents/{id}/policies/{pid}";

using http::Method;
constexpr ApiRoute kRoutes[] = {
    {.method = Method::get, .path = kAll, .who = ApiWho::user, .run = list_policies, .is_list = true},
    {.method = Method::post, .path = kAll, .run = create_policy, .body_members = kPolicyMembers},
    {.method = Method::get, .path = kOne, .who = ApiWho::user, .run = get_policy},
    {.method = Method::put, .path = kOne, .run = put_policy, .body_members = kPolicyMembers},
    {.method = Method::patch, .path = kOne, .run = patch_policy, .body_members = kPolicyMembers},
    {.method = Method::del, .path = kOne, .run = delete_policy},
};

}  // namespace

std::span<const ApiRoute> policy_routes() {
  return kRoutes;
}

}  // namespace tmesh::server
