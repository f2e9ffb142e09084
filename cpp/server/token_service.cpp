#include "cpp/server/token_service.hpp"

#include <algorithm>
#include <utility>

#include "cpp/server/ids.hpp"
#include "cpp/server/owner.hpp"
#include "cpp/server/token_hash.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

using storage::TokenRepository;

Result<void> check_expiry(const std::optional<int64_t>& at_us, int64_t now_us) {
  if (at_us && *at_us <= now_us) return fail(TMESH_E_INVALID, "expiresAt is not in the future");
  return {};
}

std::string expiry_text(const std::optional<int64_t>& at_us) {
  return at_us ? storage::format_timestamp(*at_us) : std::string();
}

bool has_item(const std::vector<std::string>& list, const std::string& item) {
  return std::ranges::find(list, item) != list.end();
}

// Which restrictions mean something for which type.
Result<void> check_scope_of_type(std::string_view type, const Scope& scope) {
  const bool has_nodes = !scope.server_node_ids.empty();
  const bool has_others = !scope.agent_ids.empty() || !scope.protocols.empty() ||
                          !scope.target_cidrs.empty() || !scope.target_ports.empty();
  if (type == token_type_name(TokenType::agent) && (has_nodes || has_others))
    return fail(TMESH_E_INVALID, "scope: an agent token has none");
  if (type == token_type_name(TokenType::server_node) && has_others)
    return fail(TMESH_E_INVALID, "scope: a node token has serverNodeIds only");
  return {};
}

}  // namespace

Result<std::optional<storage::TokenRecord>> TokenService::find(std::string_view id) const {
  return TokenRepository(scope_.tx()).find(id);
}

CreatedToken TokenService::blank_token() const {
  CreatedToken made{{}, new_token_secret()};
  made.token.id = new_token_id();
  made.token.token_prefix = token_display_prefix(made.secret);
  made.token.token_hash = digest_token(made.secret.reveal()).hex;
  made.token.created_at = scope_.now();
  made.token.updated_at = scope_.now();
  return made;
}

Result<void> TokenService::insert_sealed(const CreatedToken& made) {
  if (box_ == nullptr) return {};
  const Result<storage::SealedSecretRecord> sealed = box_->seal(made.secret);
  if (!sealed) return std::unexpected(sealed.error());
  return TokenRepository::set_sealed_secret(scope_.tx(), made.token.id, *sealed);
}

Result<void> TokenService::check_usable(const storage::TokenRecord& token) const {
  if (!token.revoked_at.empty()) return fail(TMESH_E_STATE, "the token is already revoked");
  const std::optional<int64_t> at_us = storage::parse_timestamp(token.expires_at);
  if (!token.expires_at.empty() && (!at_us || *at_us <= scope_.now_us()))
    return fail(TMESH_E_STATE, "the token has expired");
  return {};
}

Result<void> TokenService::check_owner(const storage::TokenRecord& token) const {
  if (token.owner_user_id.empty()) {
    if (token.token_type == token_type_name(TokenType::server_node)) return {};
    return fail(TMESH_E_INVALID, "ownerUserId is missing");
  }
  if (Result<void> good = check_live_owner(scope_, token.owner_user_id); !good) return good;
  const Result<int64_t> tokens = TokenRepository(scope_.tx()).count_of_owner(token.owner_user_id);
  if (!tokens) return std::unexpected(tokens.error());
  if (*tokens >= tokens_per_owner_max) return fail(TMESH_E_STATE, "the owner has 1000 tokens already");
  return {};
}

Result<void> TokenService::check_scope(const storage::TokenRecord& token, const Scope& scope,
                                       const Scope& known) const {
  if (Result<void> good = check_scope_of_type(token.token_type, scope); !good) return good;
  for (const std::string& id : scope.agent_ids) {
    if (has_item(known.agent_ids, id)) continue;
    const Result<std::optional<storage::AgentRecord>> found = storage::AgentRepository(scope_.db()).find(id);
    if (!found) return std::unexpected(found.error());
    const storage::AgentRecord* agent = storage::row_of(*found);
    if (agent == nullptr || agent->owner_user_id != token.owner_user_id)
      return fail(TMESH_E_INVALID, "scope.agentIds: the owner has no such agent");
  }
  for (const std::string& id : scope.server_node_ids) {
    if (has_item(known.server_node_ids, id)) continue;
    const Result<std::optional<storage::NodeRecord>> found = storage::NodeRepository(scope_.db()).find(id);
    if (!found) return std::unexpected(found.error());
    const storage::NodeRecord* node = storage::row_of(*found);
    if (node == nullptr || !node->deleted_at.empty())
      return fail(TMESH_E_INVALID, "scope.serverNodeIds: there is no such node");
  }
  return {};
}

Result<CreatedToken> TokenService::create(const NewToken& wanted) {
  CreatedToken made = blank_token();
  storage::TokenRecord& token = made.token;
  token.token_type = token_type_name(wanted.type);
  token.owner_user_id = wanted.owner_user_id;
  token.agent_id = wanted.agent_id;
  const bool is_agent = wanted.type == TokenType::agent;
  if (is_agent == wanted.agent_id.empty()) {
    return fail(TMESH_E_INVALID, is_agent ? "agentId: an agent token needs an agent"
                                          : "agentId is for agent tokens; scope.agentIds restricts others");
  }
  if (Result<void> good = check_expiry(wanted.expires_at_us, scope_.now_us()); !good)
    return std::unexpected(good.error());
  if (is_agent) {
    const Result<std::optional<storage::AgentRecord>> found =
        storage::AgentRepository(scope_.tx()).find(wanted.agent_id);
    if (!found) return std::unexpected(found.error());
    const storage::AgentRecord* agent = storage::row_of(*found);
    if (agent == nullptr) return fail(TMESH_E_INVALID, "agentId: there is no such agent");
    if (token.owner_user_id.empty()) token.owner_user_id = agent->owner_user_id;
    if (token.owner_user_id != agent->owner_user_id)
      return fail(TMESH_E_INVALID, "ownerUserId: the agent has another owner");
  }
  if (Result<void> good = check_owner(token); !good) return std::unexpected(good.error());
  if (Result<void> good = check_scope(token, wanted.scope, {}); !good) return std::unexpected(good.error());
  token.scope = format_scope(wanted.scope);
  // What the reader refuses (size, an id of no length) must never be stored.
  if (const Result<Scope> readable = parse_scope(token.scope); !readable)
    return std::unexpected(readable.error());
  token.expires_at = expiry_text(wanted.expires_at_us);
  if (Result<void> done = TokenRepository::create(scope_.tx(), token); !done)
    return std::unexpected(done.error());
  if (Result<void> done = insert_sealed(made); !done) return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("token.create", "token", token.id); !done)
    return std::unexpected(done.error());
  return made;
}

Result<void> TokenService::update(storage::TokenRecord& token, const TokenChange& wanted) {
  if (!token.revoked_at.empty()) return fail(TMESH_E_STATE, "the token is already revoked");
  storage::TokenRecord changed = token;
  if (wanted.scope) {
    if (Result<void> good = check_scope(token, *wanted.scope, parse_scope(token.scope).value_or(Scope()));
        !good) {
      return good;
    }
    changed.scope = format_scope(*wanted.scope);
    if (const Result<Scope> readable = parse_scope(changed.scope); !readable)
      return std::unexpected(readable.error());
  }
  if (wanted.expires_at_us) {
    changed.expires_at = expiry_text(*wanted.expires_at_us);
    // A time that stays as it is may have passed.
    if (changed.expires_at != token.expires_at) {
      if (Result<void> good = check_expiry(*wanted.expires_at_us, scope_.now_us()); !good) return good;
    }
  }
  const bool is_other_scope = changed.scope != token.scope;
  const bool is_other_expiry = changed.expires_at != token.expires_at;
  if (!is_other_scope && !is_other_expiry) return {};
  changed.updated_at = scope_.now();
  if (is_other_scope) {
    if (Result<void> done =
            TokenRepository::set_scope(scope_.tx(), token.id, changed.scope, changed.updated_at);
        !done) {
      return done;
    }
  }
  if (is_other_expiry) {
    if (Result<void> done =
            TokenRepository::set_expiry(scope_.tx(), token.id, changed.expires_at, changed.updated_at);
        !done) {
      return done;
    }
  }
  token = std::move(changed);
  return scope_.audit("token.update", "token", token.id);
}

Result<void> TokenService::revoke(storage::TokenRecord& token) {
  if (!token.revoked_at.empty()) return fail(TMESH_E_STATE, "the token is already revoked");
  if (Result<void> done = TokenRepository::revoke(scope_.tx(), token.id, scope_.now()); !done) return done;
  token.revoked_at = scope_.now();
  token.updated_at = scope_.now();
  return scope_.audit("token.revoke", "token", token.id);
}

Result<CreatedToken> TokenService::rotate(storage::TokenRecord& token) {
  if (Result<void> good = check_usable(token); !good) return std::unexpected(good.error());
  const Result<Scope> scope = parse_scope(token.scope);
  if (!scope) return fail(TMESH_E_STATE, "the token's scope cannot be read; revoke it and make another");
  CreatedToken made = blank_token();
  made.token.token_type = token.token_type;
  made.token.owner_user_id = token.owner_user_id;
  made.token.agent_id = token.agent_id;
  made.token.node_id = token.node_id;
  made.token.scope = format_scope(*scope);
  made.token.expires_at = token.expires_at;
  if (Result<void> done = TokenRepository::rotate(scope_.tx(), token.id, made.token); !done)
    return std::unexpected(done.error());
  token.revoked_at = scope_.now();
  token.updated_at = scope_.now();
  if (Result<void> done = insert_sealed(made); !done) return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("token.rotate", "token", token.id); !done)
    return std::unexpected(done.error());
  return made;
}

Result<Secret> TokenService::reveal(const storage::TokenRecord& token) {
  if (Result<void> good = check_usable(token); !good) return std::unexpected(good.error());
  const Result<std::optional<storage::SealedSecretRecord>> found =
      TokenRepository(scope_.db()).sealed_secret(token.id);
  if (!found) return std::unexpected(found.error());
  const storage::SealedSecretRecord* sealed = storage::row_of(*found);
  if (sealed == nullptr) return fail(TMESH_E_STATE, "the token's secret was not kept; rotate the token");
  if (box_ == nullptr)
    return fail(TMESH_E_STATE, "the server has no TUNNELMESH_TOKEN_ENCRYPTION_KEY to read kept secrets with");
  Result<Secret> secret = box_->open(*sealed);
  if (!secret) return secret;
  const TokenDigest digest = digest_token(secret->reveal());
  if (token.token_hash != digest.hex && token.token_hash != digest.base64url)
    return fail(TMESH_E_STATE, "the kept secret is not the token's; rotate the token");
  if (Result<void> done = TokenRepository::touch_secret_read(scope_.tx(), token.id, scope_.now()); !done)
    return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("token.reveal", "token", token.id); !done)
    return std::unexpected(done.error());
  return secret;
}

}  // namespace tmesh::server
