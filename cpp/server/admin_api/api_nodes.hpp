// The endpoints of /server-nodes; rows of presence_routes(). Internal to admin_api.
#pragma once

#include "cpp/server/admin_api/api.hpp"

namespace tmesh::server {

ApiResult list_server_nodes(ApiCall& call);
ApiResult show_server_node(ApiCall& call);
ApiResult update_server_node(ApiCall& call);
ApiResult delete_server_node(ApiCall& call);
ApiResult restore_server_node(ApiCall& call);

}  // namespace tmesh::server
