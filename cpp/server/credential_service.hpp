// Who a bearer secret belongs to. Blocking: runs on a database worker. Borrows the
// database; keeps nothing between calls.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/server/scope.hpp"
#include "cpp/server/token_validity.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

enum class TokenType { agent, client, server_node };
// "agent", "client", "server_node", as in the database.
const char* token_type_name(TokenType type);
std::optional<TokenType> parse_token_type(std::string_view name);

struct Identity {
  std::string token_id;
  TokenType type = TokenType::client;
  std::string owner_user_id;  // empty only for a server_node token
  std::string agent_id;       // agent: the agent it is. client: usually empty, else the only one it may use
  Scope scope;
  std::optional<int64_t> expires_at_us;  // microseconds since 1970; nullopt: never
  bool is_use_noted = false;             // within use_note_interval_us before now
};

class CredentialService {
 public:
  // How exact the noted time of use is. A note is a write that waits for the disk, and
  // whoever has a token can reconnect as often as it likes.
  static constexpr int64_t use_note_interval_us = 60'000'000;

  // `node_id`: of the server that asks; empty for none.
  CredentialService(storage::Db& db, storage::WallClock clock, std::string_view node_id = {})
      : db_(db), clock_(clock), node_id_(node_id) {}

  // TMESH_E_POLICY: no such secret, of another type, or not valid now and here; `text` tells
  // which, for the log, and the peer is told only that it was refused.
  // TMESH_E_INVALID: the row is malformed. Every other code: the database failed, and
  // nothing is known about the secret.
  Result<Identity> authenticate(std::string_view secret, TokenType type);

  // For links that stay, on one view of the database: whether each of these tokens may be
  // used now, in their order. Errors as TokenChecker::check; POLICY also if it is not there.
  std::vector<Result<LiveToken>> recheck(std::span<const std::string> token_ids);

  // Notes that they are used now; one that does not exist is passed over. Does not step the
  // revision. Errors as db.hpp.
  Result<void> note_uses(std::span<const std::string> token_ids);

 private:
  storage::Db& db_;
  storage::WallClock clock_;
  const std::string node_id_;
};

}  // namespace tmesh::server
