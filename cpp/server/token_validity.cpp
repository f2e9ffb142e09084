#include "cpp/server/token_validity.hpp"

#include <utility>

#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {
namespace {

std::unexpected<Error> denied(const char* text) {
  return fail(TMESH_E_POLICY, text);
}

// True once the time in `text` has come; an empty text never comes.
Result<bool> is_past(const std::string& text, int64_t now_us, std::optional<int64_t>* at_us = nullptr) {
  if (text.empty()) return false;
  const std::optional<int64_t> at = storage::parse_timestamp(text);
  if (!at) return fail(TMESH_E_INVALID, "a stored expiry time is malformed");
  if (at_us != nullptr) *at_us = at;
  return *at <= now_us;
}

// The row of that id, nullptr if there is none; `read` is asked once per id.
template <class T, class Repository>
Result<const T*> keep(std::map<std::string, std::optional<T>, std::less<>>& kept, Repository rows,
                      const std::string& id) {
  auto known = kept.find(id);
  if (known == kept.end()) {
    Result<std::optional<T>> found = rows.find(id);
    if (!found) return std::unexpected(found.error());
    known = kept.emplace(id, std::move(*found)).first;
  }
  return storage::row_of(known->second);
}

}  // namespace

Result<const storage::AgentRecord*> TokenChecker::agent(const std::string& agent_id) {
  return keep(agents_, storage::AgentRepository(db_), agent_id);
}

Result<void> TokenChecker::check_agent(const std::string& agent_id, std::string& owner) {
  const Result<const storage::AgentRecord*> found = agent(agent_id);
  if (!found) return std::unexpected(found.error());
  if (*found == nullptr) return denied("the token's agent does not exist");
  if (!(*found)->is_enabled) return denied("the token's agent is disabled");
  if (owner.empty()) owner = (*found)->owner_user_id;
  if (owner != (*found)->owner_user_id) return denied("the token's agent has another owner");
  return {};
}

Result<void> TokenChecker::check_owner(const std::string& owner) {
  if (owner.empty()) return denied("the token has no owner");
  Result<const storage::UserRecord*> user = keep(users_, storage::UserRepository(db_), owner);
  if (!user) return std::unexpected(user.error());
  if (*user == nullptr) return denied("the token's owner does not exist");
  if ((*user)->is_disabled) return denied("the token's owner is disabled");
  if (!(*user)->deleted_at.empty()) return denied("the token's owner is deleted");
  return {};
}

Result<void> TokenChecker::check_node(const std::string& node_id, int64_t now_us) {
  Result<const storage::NodeRecord*> node = keep(nodes_, storage::NodeRepository(db_), node_id);
  if (!node) return std::unexpected(node.error());
  if (*node == nullptr || !(*node)->is_enabled || !(*node)->deleted_at.empty()) {
    return denied("a server node of the token's scope is not there, disabled or deleted");
  }
  if (node_id == node_id_) return {};  // it asks, so it lives, whenever it could last say so
  const Result<bool> expired = is_past((*node)->expires_at, now_us);
  if (!expired) return std::unexpected(expired.error());
  if (*expired) return denied("a server node of the token's scope has expired");
  return {};
}

Result<LiveToken> TokenChecker::check(const storage::TokenRecord& token, int64_t now_us) {
  if (!token.revoked_at.empty()) return denied("the token is revoked");
  LiveToken live;
  const Result<bool> expired = is_past(token.expires_at, now_us, &live.expires_at_us);
  if (!expired) return std::unexpected(expired.error());
  if (*expired) return denied("the token has expired");
  Result<Scope> scope = parse_scope(token.scope);
  if (!scope) return std::unexpected(scope.error());
  live.scope = std::move(*scope);
  live.owner_user_id = token.owner_user_id;
  if (!token.agent_id.empty()) {
    if (Result<void> done = check_agent(token.agent_id, live.owner_user_id); !done)
      return std::unexpected(done.error());
  }
  // Node tokens belong to the installation: they may have no owner.
  if (token.token_type != "server_node" || !live.owner_user_id.empty()) {
    if (Result<void> done = check_owner(live.owner_user_id); !done) return std::unexpected(done.error());
  }
  if (!live.scope.allows_server(node_id_)) return denied("the token's scope does not name this server");
  for (const std::string& node_id : live.scope.server_node_ids) {
    if (Result<void> done = check_node(node_id, now_us); !done) return std::unexpected(done.error());
  }
  return live;
}

Result<TokenStatus> TokenChecker::status(const storage::TokenRecord& token, int64_t now_us) {
  if (!token.revoked_at.empty()) return TokenStatus::revoked;
  const Result<bool> expired = is_past(token.expires_at, now_us);
  if (expired && *expired) return TokenStatus::expired;
  const Result<LiveToken> live = check(token, now_us);
  if (live) return TokenStatus::active;
  const tmesh_code code = live.error().code;
  if (code == TMESH_E_POLICY || code == TMESH_E_INVALID || code == TMESH_E_TOO_LARGE)
    return TokenStatus::unavailable;
  return std::unexpected(live.error());
}

Result<LiveToken> check_token(storage::Db& db, const storage::TokenRecord& token, int64_t now_us,
                              std::string_view node_id) {
  return TokenChecker(db, node_id).check(token, now_us);
}

Result<TokenStatus> token_status(storage::Db& db, const storage::TokenRecord& token, int64_t now_us) {
  return TokenChecker(db).status(token, now_us);
}

const char* token_status_name(TokenStatus status) {
  switch (status) {
    case TokenStatus::active:
      return "active";
    case TokenStatus::revoked:
      return "revoked";
    case TokenStatus::expired:
      return "expired";
    case TokenStatus::unavailable:
      return "unavailable";
  }
  return "unavailable";
}

}  // namespace tmesh::server
