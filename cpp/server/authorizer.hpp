// Whether a client's token may open a stream. Blocking: runs on a database worker.
// Borrows the database; keeps nothing between calls (the cache is a decorator of
// its own).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
  // RevisionWatch::generation() before the decision was begun; 0: nobody watches.
  uint64_t generation = 0;
};

class Authorizer {
 public:
  // Rows read for one decision, and what their lists take in memory. An agent with more is
  // refused: the decision would take longer than an open may. PolicyService stays below.
  static constexpr std::size_t policies_max = 10'000;
  static constexpr std::size_t policy_lists_bytes_max = std::size_t{32} << 20;

  // `node_id`: of the server that asks; empty for none.
  Authorizer(storage::Db& db, storage::WallClock clock, std::string_view node_id = {})
      : db_(db), clock_(clock), node_id_(node_id) {}

  // All must hold: the token is live and a client token; the agent exists, is enabled
  // and has the same owner; the token's scope allows agent, protocol, port and
  // address; at least one policy of the agent allows the target and none is malformed.
  // TMESH_E_POLICY: a definite no, which a cache may keep. TMESH_E_INVALID: a row that
  // the decision rests on is malformed. Every other code: the database failed. All of
  // them mean: refuse.
  Result<Grant> authorize(const StreamRequest& request);
  // Several requests on one view of the database, which begins within the call; answers in
  // the order of the requests. Rows that several of them rest on are read once. In memory
  // are the policies of one agent at a time, and what the tokens rest on.
  std::vector<Result<Grant>> authorize(std::span<const StreamRequest> requests);

 private:
  storage::Db& db_;
  storage::WallClock clock_;
  const std::string node_id_;
};

}  // namespace tmesh::server
