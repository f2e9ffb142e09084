// Changes to users, agents, policies and tokens, each with its audit entry, for the
// command line and the HTTP API alike.
//
// Works inside the caller's write transaction and commits nothing: several changes
// can be one unit. Checks what its callers' users type; what the schema checks is
// left to it. Keeps no secret: it returns a new one once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/target_pattern.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

struct NewToken {
  TokenType type = TokenType::client;
  std::string owner_user_id;
  std::string agent_id;  // agent tokens: required
  Scope scope;           // client tokens
  std::optional<int64_t> expires_at_us;
};

struct CreatedToken {
  storage::TokenRecord token;
  Secret secret;
};

// 3 to 64 of letters, digits, '.', '_', '-'. TMESH_E_INVALID.
Result<void> check_username(std::string_view username);
// 1 to 255 bytes of UTF-8 without control characters or space at an end. TMESH_E_INVALID.
Result<void> check_agent_name(std::string_view name);

class AdminService {
 public:
  // `actor_user_id` empty: the command line.
  AdminService(storage::Transaction& tx, int64_t now_us, std::string actor_user_id);

  // Errors: TMESH_E_INVALID and TMESH_E_STATE say what is wrong with the request
  // (malformed; name taken; no such row; the last administrator); the rest as db.hpp.
  Result<storage::UserRecord> create_user(std::string_view username, std::string_view role,
                                          std::string_view password_hash);
  Result<void> set_user_disabled(const storage::UserRecord& user, bool is_disabled);
  Result<void> delete_user(const storage::UserRecord& user);

  Result<storage::AgentRecord> create_agent(std::string_view name, const storage::UserRecord& owner);
  Result<void> set_agent_enabled(const storage::AgentRecord& agent, bool is_enabled);
  Result<void> delete_agent(const storage::AgentRecord& agent);

  Result<storage::PolicyRecord> create_policy(std::string_view agent_id, const TargetPattern& pattern,
                                              std::string_view protocol);
  Result<void> delete_policy(const storage::PolicyRecord& policy);

  Result<CreatedToken> create_token(const NewToken& wanted);
  Result<void> revoke_token(const storage::TokenRecord& token);
  // A new secret with the same rights; the old one is revoked.
  Result<CreatedToken> rotate_token(const storage::TokenRecord& token);

 private:
  Result<void> keep_an_admin(const storage::UserRecord& user);
  Result<void> audit(std::string_view action, std::string_view resource_type, std::string_view resource_id);
  CreatedToken blank_token() const;

  storage::Transaction& tx_;
  std::string now_;
  std::string actor_user_id_;
};

}  // namespace tmesh::server
