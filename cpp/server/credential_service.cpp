#include "cpp/server/credential_service.hpp"

#include "cpp/base/redact.hpp"
#include "cpp/server/token_hash.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/token_repository.hpp"

namespace tmesh::server {
namespace {

constexpr size_t secret_bytes_max = 512;  // ours have 43; longer ones are not worth hashing
constexpr const char* type_names[] = {"agent", "client", "server_node"};

}  // namespace

const char* token_type_name(TokenType type) {
  return type_names[static_cast<int>(type)];
}

std::optional<TokenType> parse_token_type(std::string_view name) {
  for (const TokenType type : {TokenType::agent, TokenType::client, TokenType::server_node}) {
    if (name == token_type_name(type)) return type;
  }
  return std::nullopt;
}

Result<Identity> CredentialService::authenticate(std::string_view secret, TokenType type) {
  if (secret.empty() || secret.size() > secret_bytes_max)
    return fail(TMESH_E_POLICY, "no token has this secret");
  const TokenDigest digest = digest_token(secret);
  // One view of token, owner and agent, so that a change in between is seen whole or not at all.
  Result<storage::Transaction> view = storage::Transaction::read(db_);
  if (!view) return std::unexpected(view.error());
  Result<std::optional<storage::TokenRecord>> found =
      storage::TokenRepository(db_).find_by_hash(digest.hex, digest.base64url);
  if (!found) return std::unexpected(found.error());
  const storage::TokenRecord* row = storage::row_of(*found);
  if (row == nullptr) return fail(TMESH_E_POLICY, "no token has this secret");
  const storage::TokenRecord& token = *row;
  // A database may compare text without regard to case; a digest is compared as it is.
  if (!equal_constant_time(token.token_hash, digest.hex) &&
      !equal_constant_time(token.token_hash, digest.base64url)) {
    return fail(TMESH_E_POLICY, "no token has this secret");
  }
  if (token.token_type != token_type_name(type)) return fail(TMESH_E_POLICY, "the token is of another type");
  if (type == TokenType::agent && token.agent_id.empty())
    return fail(TMESH_E_POLICY, "the agent token names no agent");
  const int64_t now_us = clock_();
  Result<LiveToken> live = check_token(db_, token, now_us, node_id_);
  if (!live) return std::unexpected(live.error());
  const std::optional<int64_t> used_us = storage::parse_timestamp(token.last_used_at);
  const bool is_use_noted = used_us && *used_us <= now_us && now_us - *used_us < use_note_interval_us;
  return Identity{
      token.id,    type, live->owner_user_id, token.agent_id, std::move(live->scope), live->expires_at_us,
      is_use_noted};
}

std::vector<Result<LiveToken>> CredentialService::recheck(std::span<const std::string> token_ids) {
  std::vector<Result<LiveToken>> answers;
  answers.reserve(token_ids.size());
  const Result<storage::Transaction> view = storage::Transaction::read(db_);
  const int64_t now_us = clock_();
  TokenChecker checker(db_, node_id_);
  for (const std::string& id : token_ids) {
    if (!view) {
      answers.emplace_back(std::unexpected(view.error()));
      continue;
    }
    const Result<std::optional<storage::TokenRecord>> found = storage::TokenRepository(db_).find(id);
    if (!found) {
      answers.emplace_back(std::unexpected(found.error()));
    } else if (const storage::TokenRecord* row = storage::row_of(*found); row == nullptr) {
      answers.emplace_back(fail(TMESH_E_POLICY, "the token does not exist"));
    } else {
      answers.push_back(checker.check(*row, now_us));
    }
  }
  return answers;
}

Result<void> CredentialService::note_uses(std::span<const std::string> token_ids) {
  return storage::change(db_, [&](storage::Transaction& tx) -> Result<void> {
    const std::string now = storage::format_timestamp(clock_());
    for (const std::string& id : token_ids) {
      Result<void> done = storage::TokenRepository::touch_last_used(tx, id, now);
      if (!done && done.error().code != TMESH_E_STATE) return done;
    }
    return {};
  });
}

}  // namespace tmesh::server
