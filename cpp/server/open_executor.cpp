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
  const auto link = links_.try_emplace(link_id).first;
  if (waiting_count_ >= limits_.pending_max ||
      link->second.waiting.size() >= std::max<std::size_t>(limits_.pending_max / 2, 1)) {
    stats_.refused_count++;
    drop_link_if_idle(link);
    return false;
  }
  if (link->second.token_id.empty()) link->second.token_id = token_id;
  job.executor_ = this;
  job.state_ = OpenJob::State::waiting;
  job.link_ = link;
  link->second.waiting.push_back(&job);
  job.place_ = std::prev(link->second.waiting.end());
  waiting_count_++;
  if (link->second.waiting.size() == 1) {
    const auto [turn, is_new] = tokens_.try_emplace(link->second.token_id);
    if (is_new) token_ring_.push_back(link->second.token_id);
    turn->second.links.push_back(link_id);
  }
  wake();
  return true;
}

void OpenExecutor::wake() {
  if (wake_.active() || waiting_count_ == 0 || running_count_ >= limits_.concurrent_max) return;
  wake_ = timers_.after(0, Delegate<void()>::bind<&OpenExecutor::run_waiting>(this));
}

void OpenExecutor::run_waiting() {
  wake_.release();
  while (running_count_ < limits_.concurrent_max && start_next()) {
  }
}

// One job of the next token that has a link with room; false if there is none.
bool OpenExecutor::start_next() {
  for (std::size_t tokens = token_ring_.size(); tokens > 0; tokens--) {
    token_ring_.splice(token_ring_.end(), token_ring_, token_ring_.begin());
    const std::string& token = token_ring_.back();
    TokenTurn& turn = tokens_.at(token);
    for (std::size_t links = turn.links.size(); links > 0; links--) {
      turn.links.splice(turn.links.end(), turn.links, turn.links.begin());
      const auto link = links_.find(turn.links.back());
      OpenLinkQueue& queue = link->second;
      if (queue.running_count >= limits_.per_link_max) continue;
      OpenJob& job = *queue.waiting.front();
      queue.waiting.pop_front();
      waiting_count_--;
      if (queue.waiting.empty()) {
        turn.links.pop_back();
        if (turn.links.empty()) {
          tokens_.erase(token);
          token_ring_.pop_back();
        }
      }
      job.state_ = OpenJob::State::running;
      queue.running_count++;
      running_count_++;
      stats_.started_count++;
      job.on_run();  // may finish, destroy itself, or submit others
      return true;
    }
  }
  return false;
}

void OpenExecutor::release(OpenJob& job) {
  const auto link = job.link_;
  OpenLinkQueue& queue = link->second;
  if (std::exchange(job.state_, OpenJob::State::idle) == OpenJob::State::running) {
    queue.running_count--;
    running_count_--;
  } else {
    queue.waiting.erase(job.place_);
    waiting_count_--;
    if (queue.waiting.empty()) {
      const auto turn = tokens_.find(queue.token_id);
      turn->second.links.remove(link->first);
      if (turn->second.links.empty()) {
        token_ring_.remove(turn->first);
        tokens_.erase(turn);
      }
    }
  }
  drop_link_if_idle(link);
  wake();
}

void OpenExecutor::drop_link_if_idle(Links::iterator link) {
  if (link->second.running_count == 0 && link->second.waiting.empty()) links_.erase(link);
}

}  // namespace tmesh::server
