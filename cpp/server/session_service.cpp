#include "cpp/server/session_service.hpp"

#include <optional>

#include "cpp/server/ids.hpp"
#include "cpp/server/token_hash.hpp"
#include "cpp/storage/session_repository.hpp"
#include "cpp/storage/timestamp.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {
namespace {

constexpr size_t secret_bytes_max = 512;  // ours have 43; longer ones are not worth hashing

std::unexpected<Error> refused() {
  return fail(TMESH_E_POLICY, "no live session has this token");
}

// An expiry that cannot be read counts as passed.
bool is_live(const storage::SessionRecord& session, int64_t now_us) {
  if (!session.revoked_at.empty()) return false;
  if (session.expires_at.empty()) return true;
  const std::optional<int64_t> expires_at_us = storage::parse_timestamp(session.expires_at);
  return expires_at_us && *expires_at_us > now_us;
}

}  // namespace

Result<LiveSession> authenticate_session(storage::Db& db, std::string_view secret, int64_t now_us) {
  if (secret.empty() || secret.size() > secret_bytes_max) return refused();
  const TokenDigest digest = digest_token(secret);
  Result<std::optional<storage::SessionRecord>> found =
      storage::SessionRepository(db).find_by_hash(digest.hex, digest.base64url);
  if (!found) return std::unexpected(found.error());
  const storage::SessionRecord* session = storage::row_of(*found);
  if (session == nullptr) return refused();
  // A database may compare text without regard to case; a digest is compared as it is.
  if (!equal_constant_time(session->token_hash, digest.hex) &&
      !equal_constant_time(session->token_hash, digest.base64url)) {
    return refused();
  }
  if (!is_live(*session, now_us)) return refused();
  Result<std::optional<storage::UserRecord>> owner = storage::UserRepository(db).find(session->user_id);
  if (!owner) return std::unexpected(owner.error());
  const storage::UserRecord* user = storage::row_of(*owner);
  if (user == nullptr || user->is_disabled || !user->deleted_at.empty()) return refused();
  return LiveSession{*user, session->id};
}

Result<NewSession> SessionService::start(std::string_view user_id, std::string_view verified_hash,
                                         uint64_t ttl_us) {
  Result<std::optional<storage::UserRecord>> found = storage::UserRepository(scope_.tx()).find(user_id);
  if (!found) return std::unexpected(found.error());
  const storage::UserRecord* user = storage::row_of(*found);
  if (user == nullptr || user->is_disabled || !user->deleted_at.empty() ||
      !equal_constant_time(user->password_hash, verified_hash)) {
    return fail(TMESH_E_POLICY, "the user may not log in, or has another password by now");
  }
  NewSession made{new_id("session"), new_token_secret(), {}, *user};
  if (ttl_us != 0) {
    made.expires_at = storage::format_timestamp(scope_.now_us() + static_cast<int64_t>(ttl_us));
  }
  Result<uint64_t> ended =
      storage::SessionRepository::revoke_oldest(scope_.tx(), user->id, live_sessions_max - 1, scope_.now());
  if (!ended) return std::unexpected(ended.error());
  const storage::SessionRecord row{made.session_id, user->id,      digest_token(made.secret.reveal()).hex,
                                   made.expires_at, std::string(), scope_.now()};
  if (Result<void> done = storage::SessionRepository::create(scope_.tx(), row); !done)
    return std::unexpected(done.error());
  if (Result<void> done = scope_.audit("user.login", "user", user->id); !done)
    return std::unexpected(done.error());
  return made;
}

Result<void> SessionService::end(std::string_view session_id) {
  const Result<uint64_t> ended = storage::SessionRepository::revoke(scope_.tx(), session_id, scope_.now());
  if (!ended) return std::unexpected(ended.error());
  return {};
}

}  // namespace tmesh::server
