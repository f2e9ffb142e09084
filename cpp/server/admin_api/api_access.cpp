#include "cpp/server/admin_api/api_access.hpp"

#include <optional>
#include <utility>
#include <vector>

#include "cpp/storage/agent_repository.hpp"

namespace tmesh::server {

ApiFound<storage::AgentRecord> agent_of_path(const ApiCall& call) {
  using storage::AgentRepository;
  AgentRepository agents =
      call.change != nullptr ? AgentRepository(call.change->tx()) : AgentRepository(call.db);
  Result<std::optional<storage::AgentRecord>> found = agents.find(call.path.front());
  if (!found) return api_database_error(found.error());
  const storage::AgentRecord* agent = storage::row_of(*found);
  if (agent == nullptr || (!call.is_admin() && agent->owner_user_id != call.caller.id))
    return api_error(404, "there is no such agent");
  return std::move(**found);
}

std::span<const ApiRoute> access_routes() {
  static const std::vector<ApiRoute> all = [] {
    std::vector<ApiRoute> routes;
    for (const std::span<const ApiRoute> table : {agent_routes(), policy_routes(), token_routes()})
      routes.insert(routes.end(), table.begin(), table.end());
    return routes;
  }();
  return all;
}

}  // namespace tmesh::server
