// Management sessions: who may use the HTTP API, by the bearer token that a login gave.
//
// Blocking: runs on a database thread, inside a transaction of the caller. Keeps
// nothing between calls. The database holds SHA-256 digests of the secrets only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

struct LiveSession {
  storage::UserRecord user;  // neither disabled nor deleted
  std::string session_id;    // the row of api_tokens
};

struct NewSession {
  std::string session_id;
  Secret secret;           // the only time it is known
  std::string expires_at;  // timestamp text; empty: never
  storage::UserRecord user;
};

// Who the bearer secret belongs to. `db` has a transaction open, read or write, so that
// session and user are of one view. TMESH_E_POLICY: no live session has this secret
// (unknown, revoked, expired; its user disabled, deleted or gone), and which of these is
// nobody's business. Other codes: the database failed, and nothing is known.
Result<LiveSession> authenticate_session(storage::Db& db, std::string_view secret, int64_t now_us);

class SessionService {
 public:
  // A person has a few browsers and scripts; beyond this the oldest session ends, so that
  // logins in a loop cannot fill the table.
  static constexpr int live_sessions_max = 64;

  SessionService(const ChangeScope& scope) : scope_(scope) {}

  // A new session. The password was verified before the transaction began, against
  // `verified_hash`. `ttl_us` 0: no expiry. TMESH_E_POLICY: meanwhile the user was
  // disabled or deleted, or has another password. The rest as db.hpp. The scope's actor
  // is that user, for the audit entry (user.login).
  Result<NewSession> start(std::string_view user_id, std::string_view verified_hash, uint64_t ttl_us);

  // Ends one session; one that is not live stays as it is. Errors as db.hpp.
  Result<void> end(std::string_view session_id);

 private:
  const ChangeScope& scope_;
};

}  // namespace tmesh::server
