#include "cpp/server/node_service.hpp"

#include "cpp/server/agent_service.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

using storage::NodeRecord;
using storage::NodeRepository;

const char* node_status_name(const NodeRecord& node, int64_t now_us) {
  if (!node.deleted_at.empty()) return "deleted";
  if (!node.is_enabled) return "disabled";
  const std::optional<int64_t> expires_us = storage::parse_timestamp(node.expires_at);
  return expires_us && *expires_us > now_us ? "online" : "offline";
}

Result<std::optional<NodeRecord>> NodeService::find(std::string_view id) const {
  return NodeRepository(scope_.db()).find(id);
}

Result<void> NodeService::rename(NodeRecord& node, std::string_view name) {
  if (!check_agent_name(name))
    return fail(TMESH_E_INVALID, "a server name has 1 to 255 printable bytes, and no space at an end");
  if (node.name == name) return {};
  if (Result<void> done = NodeRepository::rename(scope_.tx(), node.id, name, scope_.now()); !done)
    return done;
  node.name = name;
  node.updated_at = scope_.now();
  return scope_.audit("node.rename", "server_node", node.id);
}

Result<void> NodeService::set_enabled(NodeRecord& node, bool is_enabled) {
  if (!node.deleted_at.empty()) return fail(TMESH_E_STATE, "the server is deleted");
  if (node.is_enabled == is_enabled) return {};
  Result<void> done = NodeRepository::set_enabled(scope_.tx(), node.id, is_enabled, scope_.now());
  if (!done) return done;
  node.is_enabled = is_enabled;
  node.updated_at = scope_.now();
  return scope_.audit(is_enabled ? "node.enable" : "node.disable", "server_node", node.id);
}

Result<void> NodeService::remove(NodeRecord& node) {
  if (!node.deleted_at.empty()) return fail(TMESH_E_STATE, "the server is deleted already");
  if (Result<void> done = NodeRepository::mark_deleted(scope_.tx(), node.id, scope_.now()); !done)
    return done;
  node.deleted_at = node.updated_at = scope_.now();
  return scope_.audit("node.delete", "server_node", node.id);
}

Result<void> NodeService::restore(NodeRecord& node) {
  if (node.deleted_at.empty()) return fail(TMESH_E_STATE, "the server is not deleted");
  if (Result<void> done = NodeRepository::restore(scope_.tx(), node.id, scope_.now()); !done) return done;
  node.deleted_at.clear();
  node.updated_at = scope_.now();
  return scope_.audit("node.restore", "server_node", node.id);
}

}  // namespace tmesh::server
