// Whether a token row may be used now. There is no status column: validity follows
// from the token, its owner, its agent and the server nodes it names.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cpp/base/result.hpp"
#include "cpp/server/scope.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/records.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

struct LiveToken {
  std::string owner_user_id;  // of an agent token without an owner: its agent's
  Scope scope;
  std::optional<int64_t> expires_at_us;
};

// When and at which server a decision is made.
struct DecisionContext {
  storage::WallClock clock;
  std::string node_id;  // empty: none, and no scope of servers is judged
};

enum class TokenStatus { active, revoked, expired, unavailable };

// For several tokens on one view of the database: each user, agent and node that they rest
// on is read once and kept, so it lives no longer than that view. Keeps at most what the
// tokens name.
class TokenChecker {
 public:
  // `node_id`: of the server where the tokens are to be used, which is alive and whose scope
  // must name it; empty for none.
  explicit TokenChecker(storage::Db& db, std::string_view node_id = {}) : db_(db), node_id_(node_id) {}

  // Not revoked, not expired, owner there and neither disabled nor deleted; the bound
  // agent there, enabled and of the same owner; every node of the scope there, enabled,
  // not deleted, not expired, and this server among them unless the scope names none. A token expires at
  // `expires_at`, not after it. TMESH_E_POLICY: one of these fails (`text` says which; not for the peer).
  // TMESH_E_INVALID: a value of the row cannot be read. Else as db.hpp.
  Result<LiveToken> check(const storage::TokenRecord& token, int64_t now_us);

  // For lists. A row that cannot be read is unavailable; database errors as db.hpp.
  Result<TokenStatus> status(const storage::TokenRecord& token, int64_t now_us);

  // An agent's row, nullptr if there is none; valid as long as this.
  Result<const storage::AgentRecord*> agent(const std::string& agent_id);

 private:
  template <class T>
  using Kept = std::map<std::string, std::optional<T>, std::less<>>;

  Result<void> check_agent(const std::string& agent_id, std::string& owner);
  Result<void> check_owner(const std::string& owner);
  Result<void> check_node(const std::string& node_id, int64_t now_us);

  storage::Db& db_;
  const std::string node_id_;
  Kept<storage::UserRecord> users_;
  Kept<storage::AgentRecord> agents_;
  Kept<storage::NodeRecord> nodes_;
};

// The same for one token.
Result<LiveToken> check_token(storage::Db& db, const storage::TokenRecord& token, int64_t now_us,
                              std::string_view node_id = {});
Result<TokenStatus> token_status(storage::Db& db, const storage::TokenRecord& token, int64_t now_us);

const char* token_status_name(TokenStatus status);

}  // namespace tmesh::server
