// Changes to service tokens, each with its audit entry, for the command line and the
// HTTP API alike.
//
// Works inside the caller's change and commits nothing: several changes can be one
// unit. Checks what its callers' users type. A new secret is returned once; it is kept only
// where there is a SecretBox, and then sealed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/secret_box.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

struct NewToken {
  TokenType type = TokenType::client;
  std::string owner_user_id;  // agent tokens: empty, or the agent's; node tokens: may be empty
  std::string agent_id;       // agent tokens: required; others: empty
  Scope scope;                // client tokens; of node tokens the server nodes only
  std::optional<int64_t> expires_at_us;
};

struct CreatedToken {
  storage::TokenRecord token;
  Secret secret;
};

// nullopt: as it is.
struct TokenChange {
  std::optional<Scope> scope;
  std::optional<std::optional<int64_t>> expires_at_us;  // nullopt inside: never
};

class TokenService {
 public:
  // Tokens of one owner that are not revoked: rows that one user can fill the database with.
  static constexpr int64_t tokens_per_owner_max = 1000;

  // `box` may be nullptr and outlives this.
  TokenService(const ChangeScope& scope, const SecretBox* box = nullptr) : scope_(scope), box_(box) {}

  // The row to change, as it stays until the change is over.
  Result<std::optional<storage::TokenRecord>> find(std::string_view id) const;

  // Errors of all that follow: TMESH_E_INVALID (malformed, the text names the member; an
  // owner, agent or node that is not there; a time that is not in the future), TMESH_E_STATE
  // (no such row; revoked or expired; too many; not kept); the rest as db.hpp. Each changes
  // `token`, a row that find() gave, along with the database.
  Result<CreatedToken> create(const NewToken& wanted);
  Result<void> update(storage::TokenRecord& token, const TokenChange& wanted);
  Result<void> revoke(storage::TokenRecord& token);
  // A new secret with the same rights; the old one is revoked.
  Result<CreatedToken> rotate(storage::TokenRecord& token);
  // The secret again, of a token that is neither revoked nor expired.
  Result<Secret> reveal(const storage::TokenRecord& token);

 private:
  CreatedToken blank_token() const;
  Result<void> insert_sealed(const CreatedToken& made);
  Result<void> check_usable(const storage::TokenRecord& token) const;
  Result<void> check_owner(const storage::TokenRecord& token) const;
  // Agents and nodes that `scope` names and `known` does not.
  Result<void> check_scope(const storage::TokenRecord& token, const Scope& scope, const Scope& known) const;

  const ChangeScope& scope_;
  const SecretBox* box_;
};

}  // namespace tmesh::server
