// `tunnelmesh-server explain`: why a client's token may or may not open a target, for the
// administrator. Decides with the server's own Authorizer, straight on the database, and
// changes nothing in it. Blocking, like the administration commands.
#pragma once

#include "cpp/server/admin_commands.hpp"

namespace tmesh::server {

// request.arguments: HOST:PORT. Options: `agent` (id or name), one of `token-id` and `user`
// (id or name: all client tokens of theirs), `protocol` (default tcp), `node` (the server at
// which the token is used; without one a scope of servers is not judged). resource and verb
// are not looked at. For each token: allowed or not and the reason, then what each policy of
// the agent says. What the agent itself refuses (agent.policy) and where a name leads is not
// known here. 0: allowed, of several tokens at least one; 1: denied, or something failed;
// 2: usage.
[[nodiscard]] int run_explain(const AdminRequest& request);

}  // namespace tmesh::server
