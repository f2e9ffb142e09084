// Whether a token row may be used now. There is no status column: validity follows
// from the token, its owner, its agent and the server nodes it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cpp/base/result.hpp"
#include "cpp/server/scope.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

struct LiveToken {
  std::string owner_user_id;  // of an agent token without an owner: its agent's
  Scope scope;
  std::optional<int64_t> expires_at_us;
};

enum class TokenStatus { active, revoked, expired, unavailable };

// Not revoked, not expired, owner there and neither disabled nor deleted; the bound
// agent there, enabled and of the same owner; every node of the scope there, enabled,
// not deleted, not expired.
// TMESH_E_POLICY: one of these fails (`text` says which; not for the peer).
// TMESH_E_INVALID: a value of the row cannot be read. Else as db.hpp.
Result<LiveToken> check_token(storage::Db& db, const storage::TokenRecord& token, int64_t now_us);

// For lists. A row that cannot be read is unavailable; database errors as db.hpp.
Result<TokenStatus> token_status(storage::Db& db, const storage::TokenRecord& token, int64_t now_us);

const char* token_status_name(TokenStatus status);

}  // namespace tmesh::server
