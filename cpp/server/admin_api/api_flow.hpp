// One request of the API between its head and its answer. Private to this folder.
//
//   waiting -> running -> answered                       most requests
//   waiting -> running -> hashing -> running -> answered  where a password is made or changed
//
// A client that goes while the request runs does not undo it: a committed change must be told
// to the server, whoever waits for the answer.
#pragma once

#include <list>
#include <memory>

#include "cpp/server/admin_api/api_handler.hpp"

namespace tmesh::server {

class ApiFlow final : private ApiAdmission::Entry {
 public:
  ApiFlow(ApiHandler& handler, ApiRequest request, const IpAddress& address);
  ~ApiFlow();

  // May answer, and go, inside.
  void start(http::Exchange& exchange);

  std::list<std::unique_ptr<ApiFlow>>::iterator place;

 private:
  void on_turn() override;
  void run(std::unique_ptr<ApiJob> job);
  void on_ran(std::unique_ptr<LaneJob> job);
  void hash();
  Result<Ticket> ask_for_hash();
  void on_hashed(Result<PreparedPassword> made);
  void end_attempt(const Result<PreparedPassword>& made);
  void finish();
  void on_turn_timeout();
  void on_timeout();
  void on_abort();
  // Answers unless it was answered before; end() also removes this.
  void answer(const http::Response& response);
  void end(const http::Response& response);

  ApiHandler& handler_;
  ApiRequest request_;  // until its turn
  const IpAddress address_;
  http::Deferred deferred_;
  std::unique_ptr<ApiJob> job_;  // while it is not on the lane
  Ticket step_;
  Ticket timer_;
  bool is_running_ = false;     // the job is on the lane
  bool is_attempting_ = false;  // a password is being verified, and the throttle knows
};

}  // namespace tmesh::server
