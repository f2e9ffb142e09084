// /tokens: everybody has his own; administrators all, node tokens and kept secrets.
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "cpp/server/admin_api/api_access.hpp"
#include "cpp/server/token_service.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/agent_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

using storage::TokenRecord;

void write_token(json::Writer& out, const TokenRecord& token, TokenStatus status, const Secret* secret) {
  out.begin_object().member("id", token.id).member("type", token.token_type);
  member_or_null(out, "ownerUserId", token.owner_user_id);
  member_or_null(out, "agentId", token.agent_id);
  member_or_null(out, "nodeId", token.node_id);
  out.member("prefix", token.token_prefix).key("scope");
  // Null: it cannot be read, and the token is unavailable; {} would be "no restriction".
  if (const Result<Scope> scope = parse_scope(token.scope); scope) {
    out.raw(format_scope(*scope));
  } else {
    out.null();
  }
  out.member("status", token_status_name(status));
  member_or_null(out, "expiresAt", token.expires_at);
  member_or_null(out, "revokedAt", token.revoked_at);
  member_or_null(out, "lastUsedAt", token.last_used_at);
  out.member("createdAt", token.created_at).member("updatedAt", token.updated_at);
  if (secret != nullptr) out.member("secret", secret->reveal());
  out.end_object();
}

ApiFound<std::string> token_json(const ApiCall& call, const TokenRecord& token,
                                 const Secret* secret = nullptr) {
  const Result<TokenStatus> status = token_status(call.db, token, call.now_us);
  if (!status) return api_database_error(status.error());
  std::string text;
  json::Writer out(text);
  write_token(out, token, *status, secret);
  return text;
}

ApiResult token_reply(const ApiCall& call, const TokenRecord& token) {
  auto text = token_json(call, token);
  if (!text) return std::unexpected(text.error());
  return ApiReply{200, std::move(*text)};
}

ApiResult created_reply(const ApiCall& call, const CreatedToken& made) {
  auto text = token_json(call, made.token, &made.secret);
  if (!text) return std::unexpected(text.error());
  auto replay = token_json(call, made.token);
  if (!replay) return std::unexpected(replay.error());
  return ApiReply{201, std::move(*text), std::move(*replay), true};
}

// An agent's token without an owner belongs to its agent's.
ApiFound<bool> is_visible(const ApiCall& call, const TokenRecord& token) {
  if (call.is_admin() || token.owner_user_id == call.caller.id) return true;
  if (!token.owner_user_id.empty() || token.agent_id.empty()) return false;
  const auto agent = storage::AgentRepository(call.db).find(token.agent_id);
  if (!agent) return api_database_error(agent.error());
  return *agent && (*agent)->owner_user_id == call.caller.id;
}

ApiFound<TokenRecord> token_of_path(const ApiCall& call) {
  using storage::TokenRepository;
  TokenRepository tokens =
      call.change != nullptr ? TokenRepository(call.change->tx()) : TokenRepository(call.db);
  Result<std::optional<TokenRecord>> found = tokens.find(call.path.front());
  if (!found) return api_database_error(found.error());
  if (!*found) return api_error(404, "there is no such token");
  const auto visible = is_visible(call, **found);
  if (!visible) return std::unexpected(visible.error());
  if (!*visible) return api_error(404, "there is no such token");
  return std::move(**found);
}

// For a change of what the token allows. A node token may be somebody's, who then sees and
// ends it; the servers it is for remain the administrators' business.
ApiFound<TokenRecord> changeable_token(const ApiCall& call) {
  auto token = token_of_path(call);
  if (token && !call.is_admin() && token->token_type == token_type_name(TokenType::server_node))
    return api_error(403, "only administrators may change node tokens");
  return token;
}

ApiResult list_tokens(ApiCall& call) {
  const auto request = page_request(call);
  if (!request) return std::unexpected(request.error());
  const std::string_view owner = call.is_admin() ? std::string_view() : call.caller.id;
  const auto page = storage::TokenRepository(call.db).list(*request, owner);
  if (!page) return api_database_error(page.error());
  TokenChecker checker(call.db);
  std::vector<TokenStatus> statuses;
  for (const TokenRecord& token : page->items) {
    const Result<TokenStatus> status = checker.status(token, call.now_us);
    if (!status) return api_database_error(status.error());
    statuses.push_back(*status);
  }
  size_t at = 0;
  return ApiReply{200, page_json(*page, [&](json::Writer& out, const TokenRecord& token) {
                    write_token(out, token, statuses[at++], nullptr);
                  })};
}

ApiResult get_token(ApiCall& call) {
  const auto token = token_of_path(call);
  if (!token) return std::unexpected(token.error());
  return token_reply(call, *token);
}

// ---- bodies ----

// nullopt: absent. Inside nullopt: null, which is never.
ApiFound<std::optional<std::optional<int64_t>>> body_expiry(const ApiCall& call) {
  using Expiry = std::optional<std::optional<int64_t>>;
  const json::Value value = call.body.get("expiresAt");
  if (!value) return Expiry();
  if (value.is_null()) return Expiry(std::optional<int64_t>());
  const std::optional<int64_t> at_us = storage::parse_timestamp(value.as_string().value_or(""));
  if (!at_us) return api_error(400, "expiresAt: null or a time like 2027-01-31T00:00:00Z is expected");
  return Expiry(at_us);
}

// `scope` merged into what there is.
ApiFound<std::optional<Scope>> body_scope(const ApiCall& call, Scope scope) {
  const json::Value value = call.body.get("scope");
  if (!value) return std::nullopt;
  if (Result<void> merged = merge_scope(value, scope); !merged) return api_error(merged.error());
  return scope;
}

// The agent that a user's new token is for; a foreign one is not there.
ApiFound<void> check_own_agent(const ApiCall& call, const std::string& agent_id) {
  if (call.is_admin() || agent_id.empty()) return {};
  const auto agent = storage::AgentRepository(call.db).find(agent_id);
  if (!agent) return api_database_error(agent.error());
  if (!*agent || (*agent)->owner_user_id != call.caller.id)
    return api_error(400, "agentId: there is no such agent");
  return {};
}

// Whose the new token is: a user's are his own, and he learns of no other user.
ApiFound<std::string> new_owner(const ApiCall& call, TokenType type) {
  auto owner = body_text(call, "ownerUserId");
  if (!owner) return std::unexpected(owner.error());
  if (*owner && !call.is_admin() && **owner != call.caller.id)
    return api_error(403, "ownerUserId: a user's tokens are his own");
  if (*owner) return std::move(**owner);
  // An agent's token is its agent's owner's, a node's nobody's.
  return type == TokenType::client || !call.is_admin() ? call.caller.id : std::string();
}

ApiFound<NewToken> read_new_token(const ApiCall& call) {
  const auto type_name = required_text(call, "type");
  if (!type_name) return std::unexpected(type_name.error());
  const std::optional<TokenType> type = parse_token_type(*type_name);
  if (!type) return api_error(400, "type: one of agent, client and server_node is expected");
  if (*type == TokenType::server_node && !call.is_admin())
    return api_error(403, "only administrators may make node tokens");
  auto owner = new_owner(call, *type);
  if (!owner) return std::unexpected(owner.error());
  auto agent_id = body_text(call, "agentId");
  if (!agent_id) return std::unexpected(agent_id.error());
  NewToken wanted{*type, std::move(*owner), agent_id->value_or(""), {}, {}};
  if (auto good = check_own_agent(call, wanted.agent_id); !good) return std::unexpected(good.error());
  auto scope = body_scope(call, Scope());
  if (!scope) return std::unexpected(scope.error());
  if (*scope) wanted.scope = std::move(**scope);
  // The older spelling of a scope with one node.
  const auto node_id = body_text(call, "nodeId");
  if (!node_id) return std::unexpected(node_id.error());
  if (*node_id && !(*node_id)->empty()) {
    if (*type != TokenType::server_node || !wanted.scope.server_node_ids.empty())
      return api_error(400, "nodeId: is for node tokens; scope.serverNodeIds is the present form");
    wanted.scope.server_node_ids.push_back(**node_id);
  }
  const auto expiry = body_expiry(call);
  if (!expiry) return std::unexpected(expiry.error());
  wanted.expires_at_us = expiry->value_or(std::nullopt);
  return wanted;
}

// ---- changes ----

ApiResult create_token(ApiCall& call) {
  const auto wanted = read_new_token(call);
  if (!wanted) return std::unexpected(wanted.error());
  const auto made = TokenService(*call.change, call.secret_box).create(*wanted);
  if (!made) return api_error(made.error());
  return created_reply(call, *made);
}

ApiResult patch_token(ApiCall& call) {
  auto token = changeable_token(call);
  if (!token) return std::unexpected(token.error());
  const auto expiry = body_expiry(call);
  if (!expiry) return std::unexpected(expiry.error());
  const Result<Scope> present = parse_scope(token->scope);
  if (!present && call.body.get("scope"))
    return api_error(409, "the token's scope cannot be read; revoke it and make another");
  auto scope = body_scope(call, present ? *present : Scope());
  if (!scope) return std::unexpected(scope.error());
  const TokenChange change{std::move(*scope), *expiry};
  if (const Result<void> done = TokenService(*call.change).update(*token, change); !done)
    return api_error(done.error());
  return token_reply(call, *token);
}

ApiResult revoke_token(ApiCall& call) {
  auto token = token_of_path(call);
  if (!token) return std::unexpected(token.error());
  if (const Result<void> done = TokenService(*call.change).revoke(*token); !done)
    return api_error(done.error());
  return token_reply(call, *token);
}

ApiResult rotate_token(ApiCall& call) {
  auto token = changeable_token(call);
  if (!token) return std::unexpected(token.error());
  const auto made = TokenService(*call.change, call.secret_box).rotate(*token);
  if (!made) return api_error(made.error());
  return created_reply(call, *made);
}

std::string revealed_json(const ApiCall& call, const TokenRecord& token, const Secret* secret) {
  std::string text;
  json::Writer out(text);
  out.begin_object().member("tokenId", token.id).member("type", token.token_type);
  if (secret != nullptr) out.member("secret", secret->reveal());
  member_or_null(out, "expiresAt", token.expires_at);
  out.member("revealedAt", call.change->now()).member("oneTime", true).end_object();
  return text;
}

bool has_field(const ApiCall& call, const char* name) {
  const std::string* value = call.headers->find(name);
  return value != nullptr && !value->empty();
}

// The two fields are what keeps a link that somebody clicked from showing a secret, and a
// repetition from being read as a second reading.
ApiResult reveal_token(ApiCall& call) {
  if (!has_field(call, "X-Token-Reveal-Confirm"))
    return api_error(400, "the header X-Token-Reveal-Confirm is missing");
  if (!has_field(call, "Idempotency-Key")) return api_error(400, "the header Idempotency-Key is missing");
  const auto acknowledged = body_bool(call, "acknowledgeRisk");
  if (!acknowledged) return std::unexpected(acknowledged.error());
  if (!acknowledged->value_or(true)) return api_error(400, "acknowledgeRisk: true is expected");
  const auto reason = body_text(call, "reason");
  if (!reason) return std::unexpected(reason.error());
  const auto token = token_of_path(call);
  if (!token) return std::unexpected(token.error());
  const auto secret = TokenService(*call.change, call.secret_box).reveal(*token);
  if (!secret) return api_error(secret.error());
  return ApiReply{200, revealed_json(call, *token, &*secret), revealed_json(call, *token, nullptr), true};
}

constexpr std::array kNewMembers = {"type", "ownerUserId", "agentId", "nodeId", "scope", "expiresAt"};
constexpr std::array kPatchMembers = {"scope", "expiresAt"};
constexpr std::array kRevealMembers = {"reason", "acknowledgeRisk"};

using http::Method;
constexpr ApiRoute kRoutes[] = {
    {.method = Method::get, .path = "/tokens", .who = ApiWho::user, .run = list_tokens, .is_list = true},
    {.method = Method::post,
     .path = "/tokens",
     .who = ApiWho::user,
     .run = create_token,
     .body_members = kNewMembers},
    {.method = Method::get, .path = "/tokens/{id}", .who = ApiWho::user, .run = get_token},
    {.method = Method::patch,
     .path = "/tokens/{id}",
     .who = ApiWho::user,
     .run = patch_token,
     .body_members = kPatchMembers},
    {.method = Method::post, .path = "/tokens/{id}/rotate", .who = ApiWho::user, .run = rotate_token},
    {.method = Method::post, .path = "/tokens/{id}/revoke", .who = ApiWho::user, .run = revoke_token},
    {.method = Method::post,
     .path = "/tokens/{id}/reveal",
     .run = reveal_token,
     .body_members = kRevealMembers},
};

}  // namespace

std::span<const ApiRoute> token_routes() {
  return kRoutes;
}

}  // namespace tmesh::server
