// The administration API under /api/v1: what an endpoint is.
//
// An endpoint is a row of a table and a function that runs on a database thread, once per
// request, inside one transaction: a read transaction for GET, a write transaction
// otherwise (which may run it several times, see storage::change). Envelope, bearer
// token, role, JSON, pagination, idempotency, budgets and audit of refusals are the
// business of ApiHandler; an endpoint checks what its own members mean and who owns what.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpp/base/json.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/base/result.hpp"
#include "cpp/http/message.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

class SecretBox;

// A refusal: the HTTP status and the text for `data.error`. The text names what is wrong
// and where ("agentId: no such agent"), never a stored value of somebody else, never a
// system text.
struct ApiError {
  int status = 500;
  std::string text;
  // The database undid the transaction for its locks' sake: worth another run.
  bool is_lock_lost = false;
  const char* cause = nullptr;  // of a 500 and a 503, for the log: static text
};

struct ApiReply {
  int status = 200;
  std::string data = "null";  // JSON: the envelope's `data`
  // What a repetition under the same Idempotency-Key gets, without secrets; empty: `data`.
  // `"replayed":true` is put into it by ApiHandler, not by endpoints.
  std::string replay;
  bool has_secret = false;  // answered with Cache-Control: no-store
};
using ApiResult = std::expected<ApiReply, ApiError>;
template <class T>
using ApiFound = std::expected<T, ApiError>;

// One of an agent's links on this server.
struct LiveAgentLink {
  std::string agent_id, instance_id, connection_id;
  int64_t epoch = 0;
  uint64_t streams_count = 0;
  uint64_t rtt_us = 0;           // 0: not measured
  int64_t last_heard_at_us = 0;  // microseconds since 1970
  int64_t health_score = 100;    // RegisteredLink::health_score
};

// What endpoints may ask of the running server; loop thread.
class ApiLive {
 public:
  virtual std::vector<LiveAgentLink> agent_links(std::string_view agent_id) = 0;
  // Ends that link, with its streams. False: not here, or of another epoch.
  virtual bool close_agent_link(std::string_view agent_id, std::string_view connection_id, int64_t epoch) = 0;

 protected:
  ~ApiLive() = default;
};

// A password that was hashed before the transaction began (a hash takes tens of
// milliseconds and 19 MiB, and would hold the writer's lock that long).
struct PreparedPassword {
  Secret password;  // a new random one; empty where the caller chose it
  std::string hash;
  // Where the caller chose it: the stored hash that `currentPassword` was found to match.
  // It was read before the transaction, so the endpoint compares it with the caller's.
  std::string verified_hash;
};

struct ApiCall {
  storage::Db& db;
  // Set for every method but GET and HEAD.
  const ChangeScope* change = nullptr;
  int64_t now_us = 0;
  storage::UserRecord caller;     // who holds the bearer token; neither disabled nor deleted
  std::string session_id;         // the api_tokens row of it
  std::vector<std::string> path;  // values of the {…} parts, in order
  std::vector<std::pair<std::string, std::string>> query;  // decoded
  json::Value body;                                        // an object, or absent
  const http::Headers* headers = nullptr;
  const PreparedPassword* password = nullptr;  // rows with makes_ or changes_password
  std::span<const LiveAgentLink> live;         // rows with needs_live
  std::string_view node_id = {};               // of this server; empty where it has none
  const SecretBox* secret_box = nullptr;       // nullptr: secrets of tokens are not kept

  bool is_admin() const { return caller.role == "admin"; }
  std::optional<std::string_view> query_value(std::string_view name) const;
};

enum class ApiWho : uint8_t { anyone, user, admin };

// In the order that its rows are read in; there are some fifty of them.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct ApiRoute {
  http::Method method = http::Method::get;
  const char* path = "";  // below /api/v1: "/agents/{id}/policies/{pid}"
  ApiWho who = ApiWho::admin;
  ApiResult (*run)(ApiCall& call) = nullptr;
  // Members the body may have; anything else is a 400 that names the nearest one. Empty
  // for a request without a body.
  std::span<const char* const> body_members = {};
  // Query parameters it knows besides `cursor` and `limit` of lists; others are a 400.
  std::span<const char* const> query_names = {};
  bool is_list = false;  // takes cursor and limit
  // A fresh random password (PreparedPassword) is made and hashed before.
  bool makes_password = false;
  // Members `currentPassword` and `newPassword` of the body: the one was verified against
  // the caller's hash and the other checked and hashed before (PreparedPassword).
  bool changes_password = false;
  // Loop thread: the links of agent {id} are put into ApiCall::live before.
  bool needs_live = false;
  // Loop thread, after the transaction committed and before the answer; may change it.
  void (*after)(ApiLive& live, const ApiCall& call, ApiResult& result) = nullptr;
};

// ---- for endpoints ----

std::unexpected<ApiError> api_error(int status, std::string text);
// INVALID 400, POLICY 403, STATE 409, TOO_LARGE 413, each with the error's own text;
// LIMIT and TIMEOUT and NO_MEMORY 503, everything else 500, with a text of ours. TIMEOUT is
// a lost lock: the whole endpoint is run again (storage::change).
std::unexpected<ApiError> api_error(const Error& error);
// As api_error for what the request has no part in (reading a stored row, say): a 500 or a
// 503 whatever the code is.
std::unexpected<ApiError> api_database_error(Error error);

// Members of the body. nullopt: absent. 400 for another type, and null is one.
ApiFound<std::optional<std::string>> body_text(const ApiCall& call, const char* name);
ApiFound<std::string> required_text(const ApiCall& call, const char* name);
ApiFound<std::optional<bool>> body_bool(const ApiCall& call, const char* name);
ApiFound<std::optional<int64_t>> body_int(const ApiCall& call, const char* name);
// 400 if not an array of texts / of integers.
ApiFound<std::optional<std::vector<std::string>>> body_texts(const ApiCall& call, const char* name);
ApiFound<std::optional<std::vector<int64_t>>> body_ints(const ApiCall& call, const char* name);

// `cursor` (base64url of an id) and `limit` (1 to 500, default 50). 400 if malformed. A cursor
// is a place in the order, not a row: the list goes on behind it also when that row is
// gone, and it gives nobody more than the list itself does, whoever got it from where.
ApiFound<storage::PageRequest> page_request(const ApiCall& call);
std::string cursor_of(std::string_view id);
// The `limit` alone, for lists whose cursor is another.
ApiFound<int> page_limit(const ApiCall& call);
// {"items":[…],"nextCursor":…,"hasMore":…}: `write(json::Writer&, item)` per item.
template <class T, class Write>
std::string page_json(const storage::Page<T>& page, Write write) {
  std::string text;
  json::Writer out(text);
  out.begin_object().key("items").begin_array();
  for (const T& item : page.items) write(out, item);
  out.end_array().key("nextCursor");
  if (page.has_more) {
    out.string(cursor_of(page.items.back().id));
  } else {
    out.string("");
  }
  out.member("hasMore", page.has_more).end_object();
  return text;
}

// A text, or null where it is empty.
void member_or_null(json::Writer& out, const char* name, std::string_view value);

// ---- the tables, one per group; ApiHandler serves their union ----

std::span<const ApiRoute> auth_routes();    // /auth/me, /auth/password (login is ApiHandler's own)
std::span<const ApiRoute> people_routes();  // /users, /audit-logs, /audits
std::span<const ApiRoute> access_routes();  // /agents, /agents/{id}/policies, /tokens
std::span<const ApiRoute>
presence_routes();  // /agents/{id}/connections, /metadata, /server-nodes, /dashboard/summary

}  // namespace tmesh::server
