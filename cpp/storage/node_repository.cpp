#include "cpp/storage/node_repository.hpp"

#include "cpp/storage/rows.hpp"

namespace tmesh::storage {

Result<std::optional<NodeStatus>> NodeRepository::find(std::string_view id) {
  const auto read = [](RowReader& row) {
    NodeStatus node;
    node.is_enabled = row.boolean();
    node.deleted_at = row.optional_text();
    node.expires_at = row.optional_text();
    return node;
  };
  const Param params[] = {id};
  return query_one<NodeStatus>(db_, "SELECT enabled, deleted_at, expires_at FROM server_nodes WHERE id = ?",
                               params, read);
}

}  // namespace tmesh::storage
