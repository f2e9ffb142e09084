// Whether a client's token may open a stream. Blocking: runs on a database worker.
// Borrows the database; keeps nothing between calls (the cache is a decorator of
// its own).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/server/target.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"
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
  // Policies kept in memory during one call, beside those of one agent; what is beyond is
  // read again.
  static constexpr std::size_t policies_kept_max = 4096;

  Authorizer(storage::Db& db, storage::WallClock clock) : db_(db), clock_(clock) {}

  // All must hold: the token is live and a client token; the agent exists, is enabled
  // and has the same owner; the token's scope allows agent, protocol, port and
  // address; at least one policy of the agent allows the target and none is malformed.
  // TMESH_E_POLICY: a definite no, which a cache may keep. TMESH_E_INVALID: a row that
  // the decision rests on is malformed. Every other code: the database failed. All of
  // them mean: refuse.
  Result<Grant> authorize(const StreamRequest& request);
  // Several requests on one view of the database, which begins within the call; answers in
  // the order of the requests. Rows that several of them rest on are read once.
  std::vector<Result<Grant>> authorize(std::span<const StreamRequest> requests);

 private:
  // What the decisions about one token and one agent rest on, apart from the policies.
  using Rights = Result<LiveToken>;
  using Policies = std::vector<storage::PolicyRecord>;
  // Read within the present view; empty outside of a call.
  struct View {
    std::map<std::pair<std::string, std::string>, Rights> rights;  // by token and agent
    std::map<std::string, Policies> policies;                      // by agent
    std::size_t policies_count = 0;
  };

  Result<Grant> decide(const StreamRequest& request, View& view);
  const Rights& rights(const StreamRequest& request, View& view);
  Rights read_rights(const StreamRequest& request);
  Result<bool> any_policy_allows(const std::string& agent_id, const Target& target, View& view);

  storage::Db& db_;
  storage::WallClock clock_;
};

}  // namespace tmesh::server
