// POST /auth/login between its head and its answer. Private to this folder.
//
//   (throttle) -> waiting -> user read -> password verified -> session made -> answered
//
// Whatever is wrong (no such user, disabled, deleted, another password) gets the same 401
// after the same work. An attempt that nobody waits for any more counts as failed.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "cpp/server/admin_api/api_handler.hpp"
#include "cpp/server/session_service.hpp"

namespace tmesh::server {

// Finds a user by name, then, in a second run, makes a session.
class LoginJob final : public LaneJob {
 public:
  LoginJob(std::string username, int64_t now_us, uint64_t session_ttl_us)
      : username_(std::move(username)), now_us_(now_us), session_ttl_us_(session_ttl_us) {}

  void run(storage::Db& db) override;

  // After the first run: the user's, or empty where nobody may log in by that name.
  const std::string& user_id() const { return user_.id; }
  const std::string& hash() const { return hash_; }
  // After the second run.
  const NewSession& session() const { return session_; }
  // 401: may not log in. Others: nothing is known.
  const std::optional<ApiError>& error() const { return error_; }

 private:
  void find_user(storage::Db& db);
  void start_session(storage::Db& db);

  const std::string username_;
  const int64_t now_us_;
  const uint64_t session_ttl_us_;
  bool is_found_ = false;  // the first run is over
  storage::UserRecord user_;
  std::string hash_;
  NewSession session_;
  std::optional<ApiError> error_;
};

class LoginFlow final : private ApiAdmission::Entry {
 public:
  LoginFlow(ApiHandler& handler, std::string username, Secret password, const IpAddress& address);
  ~LoginFlow();

  // May answer, and go, inside.
  void start(http::Exchange& exchange);

  std::list<std::unique_ptr<LoginFlow>>::iterator place;

 private:
  void on_turn() override;
  void on_found(std::unique_ptr<LaneJob> job);
  void on_verified(Result<void> verified);
  void on_session(std::unique_ptr<LaneJob> job);
  void on_timeout();
  void on_abort();
  void refuse();
  void give_up(const ApiError& error);  // it is not known whether the password is right
  void end(const http::Response& response);

  ApiHandler& handler_;
  const std::string username_;
  Secret password_;
  const IpAddress address_;
  http::Deferred deferred_;
  std::unique_ptr<LoginJob> job_;  // while it is not on the lane
  Ticket step_;
  Ticket timer_;
  bool is_attempting_ = false;  // the throttle knows
};

}  // namespace tmesh::server
