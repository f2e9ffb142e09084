// What the endpoints of agents, policies and tokens share. Internal to them.
//
// Whoever may not see a row gets the answer for a row that is not there, word for word: an
// id tells nobody whether somebody else has it.
#pragma once

#include <span>
#include <string>

#include "cpp/server/admin_api/api.hpp"

namespace tmesh::server {

std::span<const ApiRoute> agent_routes();
std::span<const ApiRoute> policy_routes();
std::span<const ApiRoute> token_routes();

// The agent of `{id}`, the first value of the path: an administrator's, or the caller's own.
// For a change the row stays as it is until that is over. 404.
ApiFound<storage::AgentRecord> agent_of_path(const ApiCall& call);

}  // namespace tmesh::server
