// Changes to agents, each with its audit entry, for the command line and the HTTP API
// alike.
//
// Works inside the caller's change and commits nothing: several changes can be one
// unit. Checks what its callers' users type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// 1 to 255 bytes of UTF-8 without control characters or space at an end. TMESH_E_INVALID.
Result<void> check_agent_name(std::string_view name);

// The stored capabilities as a JSON array, [] where they are none: deployed rows may hold "null".
std::string capabilities_json(const storage::AgentRecord& agent);

struct AgentOptions {
  std::vector<std::string> capabilities;  // what people note about it; decides nothing
  bool is_enabled = true;
};

class AgentService {
 public:
  // Rows that one user can fill the database and every list with.
  static constexpr int64_t agents_per_owner_max = 1000;
  static constexpr std::size_t capabilities_max = 64;
  static constexpr std::size_t capability_bytes_max = 64;

  AgentService(const ChangeScope& scope) : scope_(scope) {}

  // The row to change, as it stays until the change is over.
  Result<std::optional<storage::AgentRecord>> find(std::string_view id) const;

  // Errors of all that follow: TMESH_E_INVALID (malformed; the owner is not there, disabled
  // or deleted), TMESH_E_STATE (no such row; the owner has too many); the rest as db.hpp.
  // Each changes `agent`, a row that find() gave, along with the database; one that is as
  // wanted stays as it is, without an audit entry or a step of the revision.
  Result<storage::AgentRecord> create(std::string_view name, const storage::UserRecord& owner,
                                      const AgentOptions& options = {});
  Result<void> rename(storage::AgentRecord& agent, std::string_view name);
  Result<void> set_capabilities(storage::AgentRecord& agent, const std::vector<std::string>& capabilities);
  Result<void> set_enabled(storage::AgentRecord& agent, bool is_enabled);
  // The agent's tokens stay with the old owner and are unavailable from then on.
  Result<void> set_owner(storage::AgentRecord& agent, std::string_view owner_user_id);
  // With its policies. Its tokens stay and are unavailable.
  Result<void> remove(const storage::AgentRecord& agent);

 private:
  Result<void> check_new_owner(std::string_view user_id) const;

  const ChangeScope& scope_;
};

}  // namespace tmesh::server
