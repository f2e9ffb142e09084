// Changes to the servers of the installation, each with its audit entry, for the command
// line and the HTTP API alike.
//
// Works inside the caller's change and commits nothing. A server that is disabled or deleted
// refuses to start, and one that runs takes no links until it is enabled or restored again;
// tokens whose scope names it are no longer valid.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "cpp/base/result.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/presence_records.hpp"

namespace tmesh::server {

// "online", "offline", "disabled" or "deleted".
const char* node_status_name(const storage::NodeRecord& node, int64_t now_us);

class NodeService {
 public:
  NodeService(const ChangeScope& scope) : scope_(scope) {}

  Result<std::optional<storage::NodeRecord>> find(std::string_view id) const;

  // Errors of all that follow: TMESH_E_INVALID (malformed name), TMESH_E_STATE (deleted
  // already, or not); the rest as db.hpp. Each changes `node`, a row that find() gave, along
  // with the database; one that is as wanted stays as it is, without an audit entry.
  Result<void> rename(storage::NodeRecord& node, std::string_view name);
  Result<void> set_enabled(storage::NodeRecord& node, bool is_enabled);
  Result<void> remove(storage::NodeRecord& node);
  Result<void> restore(storage::NodeRecord& node);

 private:
  const ChangeScope& scope_;
};

}  // namespace tmesh::server
