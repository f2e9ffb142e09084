// Who this server is among the servers of one database: docs/decisions/0015.
//
//   node.id                      as configured
//   the file node.id_path        made by `init-node-id`
//   "server-" and 32 hex digits  from machine, host name and listen address: the same at
//                                every start as long as these are
//
// Blocking, for start-up; keeps nothing.
#pragma once

#include <string>
#include <string_view>

#include "cpp/base/address.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::server {

struct NodeIdSource {
  std::string configured;  // node.id
  std::string path;        // node.id_path
};

// TMESH_E_IO or TMESH_E_INVALID: the file is there and holds no id.
Result<std::string> node_id(const NodeIdSource& source, const HostPort& listen);

// As it goes into the database: where people and other servers look for this one. A listener
// on every address is named by the host.
std::string node_address(const HostPort& listen);

// Pure.
std::string derive_node_id(std::string_view machine_id, std::string_view host_name, const HostPort& listen);

struct InitialNodeId {
  std::string id;
  bool is_new = false;
};
// What `init-node-id` does: an id for node.id_path unless there is one. Errors as node_id(),
// and TMESH_E_IO when the file cannot be written.
Result<InitialNodeId> init_node_id(const NodeIdSource& source);

}  // namespace tmesh::server
