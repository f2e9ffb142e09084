#include "cpp/server/authorize_queue.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace tmesh::server {

Result<Ticket> AuthorizeQueue::submit(StreamRequest request, Delegate<void(Result<Grant>)> done) {
  if (waiting_.size() >= waiting_max_) return fail(TMESH_E_LIMIT, "too many opens wait for the database");
  const uint64_t id = next_id_++;
  waiting_.push_back(std::move(request));
  callers_.push_back({id, done});
  // What waits while no batch is in flight is this request alone.
  if (!batch_.active() && !hand_over()) {
    callers_.pop_back();
    return fail(TMESH_E_LIMIT, "too many calls wait for the database");
  }
  return Ticket(this, id, &AuthorizeQueue::cancel);
}

// Takes what waits; false if the thread's own queue is full, and then it is lost.
bool AuthorizeQueue::hand_over() {
  const std::size_t count = std::min(waiting_.size(), kBatchMax);
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(count);
  std::vector<StreamRequest> requests(std::make_move_iterator(waiting_.begin()),
                                      std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  auto batch = workers_.submit(
      [authorizer = &authorizer_, requests = std::move(requests)] { return authorizer->authorize(requests); },
      Delegate<void(std::vector<Result<Grant>>)>::bind<&AuthorizeQueue::on_answers>(this));
  if (!batch) return false;
  batch_ = std::move(*batch);
  in_flight_count_ = count;
  return true;
}

void AuthorizeQueue::on_answers(std::vector<Result<Grant>> answers) {
  batch_.release();
  telling_count_ = std::exchange(in_flight_count_, 0);
  // The thread goes on while the callers are told. What it has no room for is refused to the
  // last: submit() relies on it that nothing waits without a batch in flight.
  const std::size_t waiting_count = waiting_.size();
  while (!waiting_.empty() && !hand_over()) {
  }
  const std::size_t lost_count = waiting_count - waiting_.size() - in_flight_count_;
  answers.insert(answers.end(), lost_count, fail(TMESH_E_LIMIT, "too many calls wait for the database"));
  telling_count_ += lost_count;
  bool is_gone = false;
  gone_ = &is_gone;
  for (Result<Grant>& answer : answers) {
    const Caller caller = callers_.front();
    callers_.pop_front();
    --telling_count_;
    if (caller.done) caller.done(std::move(answer));
    if (is_gone) return;
  }
  gone_ = nullptr;
}

void AuthorizeQueue::cancel(void* owner, uint64_t id) {
  auto& self = *static_cast<AuthorizeQueue*>(owner);
  const auto found = std::ranges::lower_bound(self.callers_, id, {}, &Caller::id);
  if (found == self.callers_.end() || found->id != id) return;
  const auto at = static_cast<std::size_t>(found - self.callers_.begin());
  const std::size_t begun_count = self.telling_count_ + self.in_flight_count_;
  if (at < begun_count) {
    found->done = {};
    return;
  }
  self.waiting_.erase(self.waiting_.begin() + static_cast<std::ptrdiff_t>(at - begun_count));
  self.callers_.erase(found);
}

}  // namespace tmesh::server
