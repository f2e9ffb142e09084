#include "cpp/server/credential_service.hpp"

#include "cpp/base/redact.hpp"
#include "cpp/server/token_hash.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/revision_bump.hpp"
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
  Result<LiveToken> live = check_token(db_, token, now_us);
  if (!live) return std::unexpected(live.error());
  const std::optional<int64_t> used_us = storage::parse_timestamp(token.last_used_at);
  const bool is_use_noted = used_us && *used_us <= now_us && now_us - *used_us < use_note_interval_us;
  return Identity{
      token.id,    type, live->owner_user_id, token.agent_id, std::move(live->scope), live->expires_at_us,
      is_use_noted};
}

Result<TokenRecheck> CredentialService::recheck(const std::vector<std::string>& token_ids,
                                                std::optional<uint64_t> known_revision) {
  Result<storage::Transaction> view = storage::Transaction::read(db_);
  if (!view) return std::unexpected(view.error());
  TokenRecheck answer;
  const Result<uint64_t> revision = storage::read_revision(db_);
  if (revision) answer.revision = *revision;
  if (revision && answer.revision == known_revision) return answer;
  for (const std::string& id : token_ids) {
    Result<std::optional<storage::TokenRecord>> found = storage::TokenRepository(db_).find(id);
    if (!found) return std::unexpected(found.error());
    const storage::TokenRecord* row = storage::row_of(*found);
    const Result<TokenStatus> status =
        row == nullptr ? TokenStatus::unavailable : token_status(db_, *row, clock_());
    if (!status) return std::unexpected(status.error());
    if (*status != TokenStatus::active) answer.refused.push_back(id);
  }
  return answer;
}

Result<void> CredentialService::note_use(std::string_view token_id) {
  Result<storage::Transaction> tx = storage::Transaction::write(db_);
  if (!tx) return std::unexpected(tx.error());
  const std::string now = storage::format_timestamp(clock_());
  if (Result<void> done = storage::TokenRepository::touch_last_used(*tx, token_id, now); !done) return done;
  return tx->commit();
}

}  // namespace tmesh::server
