#include "cpp/server/open_executor.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace tmesh::server {

void OpenJob::finish() {
  if (state_ != State::idle) executor_->release(*this);
}

bool OpenExecutor::submit(OpenJob& job, std::string_view token_id, uint64_t link_id) {
  TMESH_ASSERT(job.state_ == OpenJob::State::idle);
  const auto [link, is_new] = links_.try_emplace(link_id);
  OpenLinkQueue& queue = link->second;
  if (is_new) {
    queue.token = tokens_.try_emplace(std::string(token_id)).first;
    queue.token->second.links_count++;
  }
  if (!has_room(queue)) {
    stats_.refused_count++;
    drop_link_if_idle(link);
    return false;
  }
  job.executor_ = this;
  job.state_ = OpenJob::State::waiting;
  job.link_ = link;
  job.place_ = queue.waiting.insert(queue.waiting.end(), &job);
  queue.token->second.waiting_count++;
  waiting_count_++;
  update_turn(queue);
  wake();
  return true;
}

bool OpenExecutor::has_room(const OpenLinkQueue& queue) const {
  if (waiting_count_ >= limits_.pending_max) return false;
  if (queue.waiting.size() >= std::max<std::size_t>(limits_.pending_max / 2, 1)) return false;
  if (waiting_count_ < limits_.pending_max - limits_.pending_max / 8) return true;
  // Sixteen of 1024: a page that opens, not a flood.
  return queue.token->second.waiting_count < std::max<std::size_t>(limits_.pending_max / 64, 1);
}

void OpenExecutor::use(const Limits& limits) {
  limits_ = limits;
  for (auto& [id, queue] : links_) update_turn(queue);
  wake();
}

void OpenExecutor::wake() {
  if (wake_.active() || ring_.empty() || running_count_ >= limits_.concurrent_max) return;
  wake_ = timers_.after(0, Delegate<void()>::bind<&OpenExecutor::run_waiting>(this));
}

void OpenExecutor::run_waiting() {
  wake_.release();
  while (running_count_ < limits_.concurrent_max && start_next()) {
  }
}

// Whose turn it is. Those that are passed over run a 32nd of the slots each, so they are 32
// at most.
std::list<OpenToken*>::iterator OpenExecutor::next_turn() {
  if (running_count_ < limits_.concurrent_max - limits_.concurrent_max / 8) return ring_.begin();
  const std::size_t few = std::max<std::size_t>(limits_.concurrent_max / 32, 1);
  return std::ranges::find_if(ring_, [few](const OpenToken* token) { return token->running_count < few; });
}

// One job of the next token's next link; false if no link can start one.
bool OpenExecutor::start_next() {
  const auto turn = next_turn();
  if (turn == ring_.end()) return false;
  OpenToken& token = **turn;
  OpenLinkQueue& queue = *token.turns.front();
  // Their next turns come after everybody's.
  ring_.splice(ring_.end(), ring_, turn);
  token.turns.splice(token.turns.end(), token.turns, token.turns.begin());
  OpenJob& job = *queue.waiting.front();
  queue.waiting.pop_front();
  token.waiting_count--;
  token.running_count++;
  waiting_count_--;
  job.state_ = OpenJob::State::running;
  queue.running_count++;
  running_count_++;
  stats_.started_count++;
  update_turn(queue);
  job.on_run();  // may finish, destroy itself, or submit others
  return true;
}

void OpenExecutor::release(OpenJob& job) {
  const auto link = job.link_;
  OpenLinkQueue& queue = link->second;
  if (std::exchange(job.state_, OpenJob::State::idle) == OpenJob::State::running) {
    queue.running_count--;
    queue.token->second.running_count--;
    running_count_--;
  } else {
    queue.waiting.erase(job.place_);
    queue.token->second.waiting_count--;
    waiting_count_--;
  }
  update_turn(queue);
  drop_link_if_idle(link);
  wake();
}

// Whether the link takes part in the turns follows from its counts.
void OpenExecutor::update_turn(OpenLinkQueue& queue) {
  const bool can_start = !queue.waiting.empty() && queue.running_count < limits_.per_link_max;
  if (can_start == queue.is_in_turn) return;
  queue.is_in_turn = can_start;
  OpenToken& token = queue.token->second;
  if (can_start) {
    if (token.turns.empty()) token.place = ring_.insert(ring_.end(), &token);
    queue.turn = token.turns.insert(token.turns.end(), &queue);
  } else {
    token.turns.erase(queue.turn);
    if (token.turns.empty()) ring_.erase(token.place);
  }
}

void OpenExecutor::drop_link_if_idle(Links::iterator link) {
  if (link->second.running_count > 0 || !link->second.waiting.empty()) return;
  const auto token = link->second.token;
  links_.erase(link);
  if (--token->second.links_count == 0) tokens_.erase(token);
}

}  // namespace tmesh::server
