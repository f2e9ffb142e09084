// What one request does on the database's thread.
//
// Built on the loop, moved to the thread, moved back with its outcome; it touches nothing
// else, so it may outlive its connection. A request without a password is one run; one with
// a password is two, and the password is hashed elsewhere between them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpp/base/delegate.hpp"
#include "cpp/base/redact.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/server/admin_api/api_idempotency.hpp"
#include "cpp/server/admin_api/api_match.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::server {

// A call of the lane that ends by coming back.
class LaneJob {
 public:
  virtual ~LaneJob() = default;
  virtual void run(storage::Db& db) = 0;  // database thread
};

// The database as the API sees it; Database::write in the server.
class ApiLane {
 public:
  // `done` runs from the loop with the same job, never inside this call. LIMIT: too many
  // wait; the job is gone. Destroying the Ticket of a job that runs drops its outcome, and
  // nobody then hears of its commit.
  virtual Result<Ticket> run(std::unique_ptr<LaneJob> job, Delegate<void(std::unique_ptr<LaneJob>)> done) = 0;

 protected:
  ~ApiLane() = default;
};

// What the request brings.
struct ApiRequest {
  const ApiRoute* route = nullptr;
  std::vector<std::string> values;
  ApiQuery query;
  http::Method method = http::Method::get;
  std::string target;  // path and query as sent
  std::string body;
  http::Headers headers;  // without Authorization, and none that is unusually long
  Secret bearer;
  std::optional<std::string> idempotency_key;
  std::string node_id;  // of this server
  const SecretBox* secret_box = nullptr;
};

class ApiJob final : public LaneJob {
 public:
  explicit ApiJob(ApiRequest request, int64_t now_us) : request_(std::move(request)), now_us_(now_us) {}

  void run(storage::Db& db) override;

  // ---- loop, before run ----
  void set_live(std::vector<LiveAgentLink> live) { live_ = std::move(live); }
  // For the second run.
  void set_password(PreparedPassword password) { password_.emplace(std::move(password)); }

  // ---- loop, after run ----
  const ApiRoute& route() const { return *request_.route; }
  // The first run ended well and a password is needed for the second one.
  bool wants_password() const { return wants_password_; }
  const storage::UserRecord& caller() const { return caller_; }
  json::Value body() const { return document_.root(); }

  ApiResult& result() { return result_; }
  bool is_replayed() const { return is_replayed_; }
  // The revision was stepped and a commit was tried: decisions made before count no more,
  // even if it is not known how the commit ended.
  bool moved_rights() const { return moved_rights_; }
  // For ApiRoute::after; null unless the endpoint ran and succeeded.
  const ApiCall* call() const { return call_ && result_ && !is_replayed_ ? &*call_ : nullptr; }

 private:
  ApiFound<void> identify(storage::Db& db);
  ApiResult run_read(storage::Db& db);
  ApiResult run_change(storage::Db& db);
  ApiResult change_once(storage::Transaction& tx);
  ApiResult call_endpoint(storage::Db& db, const ChangeScope* change);

  ApiRequest request_;
  const int64_t now_us_;
  std::vector<LiveAgentLink> live_;
  std::optional<PreparedPassword> password_;
  json::Document document_;
  storage::UserRecord caller_;
  std::string session_id_;
  std::optional<ApiCall> call_;
  ApiResult result_ = api_error(500, "the request was not run");
  bool is_checked_ = false;  // caller and body
  bool wants_password_ = false;
  bool is_replayed_ = false;
  bool moved_rights_ = false;
};

}  // namespace tmesh::server
