// Who a bearer secret belongs to. Blocking: runs on a database worker. Borrows the
// database; keeps nothing between calls.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"
#include "cpp/server/scope.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

enum class TokenType { agent, client, server_node };
// "agent", "client", "server_node", as in the database.
const char* token_type_name(TokenType type);
std::optional<TokenType> parse_token_type(std::string_view name);

struct Identity {
  std::string token_id;
  TokenType type = TokenType::client;
  std::string owner_user_id;  // empty only for a server_node token
  std::string agent_id;       // agent: the agent it is. client: usually empty, else the only one it may use
  Scope scope;
  std::optional<int64_t> expires_at_us;  // microseconds since 1970; nullopt: never
};

class CredentialService {
 public:
  CredentialService(storage::Db& db, storage::WallClock clock) : db_(db), clock_(clock) {}

  // TMESH_E_POLICY: no such secret, of another type, or not valid now; `text` tells
  // which, for the log, and the peer is told only that it was refused.
  // TMESH_E_INVALID: the row is malformed. Every other code: the database failed, and
  // nothing is known about the secret.
  Result<Identity> authenticate(std::string_view secret, TokenType type);

  // Notes the time of use. Does not step the revision. Errors as db.hpp.
  Result<void> note_use(std::string_view token_id);

 private:
  storage::Db& db_;
  storage::WallClock clock_;
};

}  // namespace tmesh::server
