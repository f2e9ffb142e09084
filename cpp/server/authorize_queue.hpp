// Requests on their way to the authorizer on the database thread.
//
// A hand-over to another thread and a read transaction cost more than a decision, so
// what comes while the thread works goes with the next hand-over as one batch (decision
// 0012). A request alone is handed over at once. A batch's view of the database begins
// after every request in it was made. Loop thread only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "cpp/base/delegate.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/net/workers.hpp"
#include "cpp/server/authorizer.hpp"

namespace tmesh::server {

class AuthorizeQueue {
 public:
  // Requests of one batch: other calls of the database wait this long behind it.
  static constexpr std::size_t kBatchMax = 256;

  // Both outlive the queue, whose requests are cancelled when it goes.
  AuthorizeQueue(net::Workers& workers, Authorizer& authorizer, std::size_t waiting_max)
      : workers_(workers), authorizer_(authorizer), waiting_max_(waiting_max) {}
  ~AuthorizeQueue() {
    if (gone_ != nullptr) *gone_ = true;
  }
  AuthorizeQueue(const AuthorizeQueue&) = delete;
  AuthorizeQueue& operator=(const AuthorizeQueue&) = delete;

  // LIMIT when too many wait.
  Result<Ticket> submit(StreamRequest request, Delegate<void(Result<Grant>)> done);

 private:
  struct Caller {
    uint64_t id = 0;
    Delegate<void(Result<Grant>)> done;  // empty: cancelled
  };

  bool hand_over();
  void on_answers(std::vector<Result<Grant>> answers);
  static void cancel(void* owner, uint64_t id);

  net::Workers& workers_;
  Authorizer& authorizer_;
  const std::size_t waiting_max_;
  uint64_t next_id_ = 1;
  // In the order of their ids: those that are being told, those of the batch in flight,
  // those that wait.
  std::deque<Caller> callers_;
  std::size_t telling_count_ = 0;
  std::size_t in_flight_count_ = 0;
  std::deque<StreamRequest> waiting_;  // of the last part
  Ticket batch_;
  bool* gone_ = nullptr;  // set by the destructor while callers are being told
};

}  // namespace tmesh::server
