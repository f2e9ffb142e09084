// Table `server_nodes`, as far as tokens refer to it. Errors are those of db.hpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

struct NodeStatus {
  bool is_enabled = false;
  std::string deleted_at;
  std::string expires_at;
};

class NodeRepository {
 public:
  explicit NodeRepository(Db& db) : db_(db) {}
  Result<std::optional<NodeStatus>> find(std::string_view id);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
