// Whether a client's token may open one stream. Blocking: runs on a database worker.
// Borrows the database; keeps nothing between calls (the cache is a decorator of
// its own).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cpp/base/result.hpp"
#include "cpp/server/target.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

struct StreamRequest {
  std::string token_id;  // Identity::token_id of the client link
  std::string agent_id;
  std::string protocol;
  std::string host;
  uint16_t port = 0;
};

struct Grant {
  std::string token_id;
  std::string owner_user_id;
  std::string agent_id;
  Target target;                         // normalised: what the agent is to dial
  std::optional<int64_t> expires_at_us;  // when the token expires, microseconds since 1970
};

class Authorizer {
 public:
  // Rows read for one decision. An agent with more policies is refused: the decision
  // would take longer than an open may.
  static constexpr int policies_max = 10'000;

  Authorizer(storage::Db& db, storage::WallClock clock) : db_(db), clock_(clock) {}

  // All must hold: the token is live and a client token; the agent exists, is enabled
  // and has the same owner; the token's scope allows agent, protocol, port and
  // address; at least one policy of the agent allows the target and none is malformed.
  // TMESH_E_POLICY: a definite no, which a cache may keep. TMESH_E_INVALID: a row that
  // the decision rests on is malformed. Every other code: the database failed. All of
  // them mean: refuse.
  Result<Grant> authorize(const StreamRequest& request);

 private:
  Result<Grant> decide(const StreamRequest& request, Target target);
  Result<bool> any_policy_allows(const std::string& agent_id, const Target& target);

  storage::Db& db_;
  storage::WallClock clock_;
};

}  // namespace tmesh::server
