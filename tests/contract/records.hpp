// Records that the contract tests put into a database.
#pragma once

#include <string>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/policy_repository.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::test {

inline constexpr const char* write_time = "2027-01-15T09:00:00Z";

inline storage::UserRecord user_row(const std::string& name, const char* at = write_time) {
  return {"user-" + name, name, "user", "hash", false, "", at, at};
}
inline storage::AgentRecord agent_row(const std::string& name, const char* at = write_time) {
  return {"agent-" + name, name, "user-alice", "[]", true, at, at};
}
inline storage::PolicyRecord policy_row(const std::string& name, const std::string& agent_id,
                                        const char* at = write_time) {
  return {"policy-" + name, agent_id, "*", 443, "tcp", "[]", "80,443", at, at};
}
inline storage::TokenRecord token_row(const std::string& name, const char* at = write_time) {
  storage::TokenRecord made;
  made.id = "stok_" + name;
  made.token_type = "client";
  made.owner_user_id = "user-alice";
  made.token_prefix = "abcdefgh";
  made.token_hash = "hash-of-" + name;
  made.created_at = at;
  made.updated_at = at;
  return made;
}

}  // namespace tmesh::test
