#include "cpp/agent/dial_executor.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "cpp/agent/dial_error.hpp"

namespace tmesh::agent {

DialExecutor::DialExecutor(Timers& timers, Dialer& dialer, const Policy& policy, const DialSettings& settings)
    : timers_(timers), dialer_(dialer), policy_(policy), settings_(settings) {}

DialExecutor::~DialExecutor() {
  if (gone_ != nullptr) *gone_ = true;
}

Result<Ticket> DialExecutor::submit(std::string_view host, uint16_t port, Done done, bool is_datagram) {
  const uint64_t now_us = timers_.now_us();
  if (recent_cancels(now_us) >= kCancelsMax) {
    ++counts_.refused_cancels;
    return fail(TMESH_E_LIMIT, "too many cancelled opens");
  }
  const bool has_slot = pending_.empty() && fast_.size() < settings_.concurrent_max;
  if (!has_slot && pending_.size() >= settings_.pending_max) {
    ++counts_.refused_full;
    return fail(TMESH_E_LIMIT, "dial queue is full");
  }
  ++counts_.submitted;
  Entry& entry = pending_.emplace_back();
  entry.owner = this;
  entry.id = next_id_++;
  entry.list = &pending_;
  entry.host.assign(host);
  entry.port = port;
  entry.is_datagram = is_datagram;
  entry.done = done;
  entry.accepted_us = now_us;
  const uint64_t id = entry.id;
  by_id_.emplace(id, std::prev(pending_.end()));
  free_slots(now_us);
  pump(now_us);
  arm(now_us);
  return Ticket(this, id, &DialExecutor::cancel);
}

uint64_t DialExecutor::oldest_wait_us() const {
  return pending_.empty() ? 0 : timers_.now_us() - pending_.front().accepted_us;
}

// --- one entry -----------------------------------------------------------------------

bool DialExecutor::Entry::permits(const IpAddress& address, bool is_name) {
  return owner->policy_.permits(address, host, is_name);
}

void DialExecutor::Entry::on_dialed(DialResult result) {
  DialExecutor& self = *owner;
  const Done deliver = done;
  DialOutcome ended = outcome;
  ended.result = open_result_of(result);
  ended.fd = result.fd;
  ended.dns_us = result.dns_us;
  ended.connect_us = result.connect_us;
  dial.release();
  self.remove(*this);
  self.advance();
  deliver(ended);
}

void DialExecutor::move(Entry& entry, List& to) {
  to.splice(to.end(), *entry.list, by_id_.find(entry.id)->second);
  entry.list = &to;
}

void DialExecutor::remove(Entry& entry) {
  const auto it = by_id_.find(entry.id);
  const List::iterator node = it->second;
  by_id_.erase(it);
  entry.list->erase(node);
}

// The outcome is known without a dial, or before one: told from the loop.
void DialExecutor::end(Entry& entry, const tmesh_open_result& result) {
  entry.outcome.result = result;
  move(entry, ended_);
  deliver_later();
}

void DialExecutor::deliver() {
  bool is_gone = false;
  gone_ = &is_gone;
  delivery_.release();
  // What ends meanwhile waits for the next turn: a receiver that submits again and again
  // must not hold the loop.
  for (std::size_t left = ended_.size(); left > 0 && !ended_.empty(); --left) {
    const Done done = ended_.front().done;
    const DialOutcome outcome = ended_.front().outcome;
    remove(ended_.front());
    done(outcome);
    if (is_gone) return;
  }
  gone_ = nullptr;
  deliver_later();
}

void DialExecutor::deliver_later() {
  if (ended_.empty() || delivery_.active()) return;
  delivery_ = timers_.after(0, Delegate<void()>::bind<&DialExecutor::deliver>(this));
}

void DialExecutor::start(Entry& entry, uint64_t now_us) {
  const uint64_t waited_us = now_us - entry.accepted_us;
  TMESH_ASSERT(waited_us < settings_.open_timeout_us);
  entry.started_us = now_us;
  entry.outcome.queue_us = waited_us;
  DialRequest request;
  request.host = entry.host;
  request.port = entry.port;
  request.is_datagram = entry.is_datagram;
  request.timeout_us = settings_.open_timeout_us - waited_us;
  request.connect_timeout_us = settings_.connect_timeout_us;
  request.filter = Delegate<bool(const IpAddress&, bool)>::bind<&Entry::permits>(&entry);
  Result<Ticket> dial = dialer_.dial(request, Delegate<void(DialResult)>::bind<&Entry::on_dialed>(&entry));
  if (!dial) {
    end(entry, open_result_of(dial.error().code, dial.error().code == TMESH_E_DNS));
    return;
  }
  entry.dial = std::move(*dial);
  move(entry, fast_);
}

// --- slots and time ------------------------------------------------------------------

// Ends what waited too long, starts what has a slot.
void DialExecutor::pump(uint64_t now_us) {
  while (!pending_.empty() && now_us - pending_.front().accepted_us >= settings_.open_timeout_us) {
    pending_.front().outcome.queue_us = now_us - pending_.front().accepted_us;
    end(pending_.front(), tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_TIMEOUT, true));
  }
  while (!is_stopped_ && !pending_.empty() && fast_.size() < settings_.concurrent_max) {
    start(pending_.front(), now_us);
  }
}

// Moves what is slow out of the way: everything that is by the clock, and beyond that only
// as many as there are waiting.
void DialExecutor::free_slots(uint64_t now_us) {
  std::size_t wanted = pending_.size();
  while (!fast_.empty() && slow_.size() < kSlowMax) {
    const uint64_t age_us = now_us - fast_.front().started_us;
    const bool is_free =
        fast_.size() < settings_.concurrent_max && wanted <= settings_.concurrent_max - fast_.size();
    if (age_us < (is_free ? kSlowAfterUs : kSlowWhenCrowdedUs)) return;
    move(fast_.front(), slow_);
    ++counts_.moved_slow;
  }
}

void DialExecutor::advance() {
  const uint64_t now_us = timers_.now_us();
  free_slots(now_us);
  pump(now_us);
  arm(now_us);
}

void DialExecutor::arm(uint64_t now_us) {
  uint64_t due_us = UINT64_MAX;
  if (!pending_.empty()) due_us = pending_.front().accepted_us + settings_.open_timeout_us;
  if (!fast_.empty() && slow_.size() < kSlowMax)
    due_us = std::min(due_us, fast_.front().started_us + slow_after_us());
  timer_.cancel();
  if (due_us == UINT64_MAX) return;
  timer_ = timers_.after(due_us > now_us ? due_us - now_us : 0,
                         Delegate<void()>::bind<&DialExecutor::advance>(this));
}

// --- cancelling ----------------------------------------------------------------------

void DialExecutor::cancel(void* owner, uint64_t id) {
  auto& self = *static_cast<DialExecutor*>(owner);
  const auto it = self.by_id_.find(id);
  if (it == self.by_id_.end()) return;
  const uint64_t now_us = self.timers_.now_us();
  if (now_us - it->second->accepted_us < kQuickCancelUs) self.note_cancel(now_us);
  ++self.counts_.cancelled;
  self.remove(*it->second);
  self.advance();
}

void DialExecutor::forget_old_cancels(uint64_t now_us) {
  const uint64_t second = now_us / 1'000'000;
  const uint64_t steps = std::min<uint64_t>(second - cancel_second_, kCancelWindowSeconds);
  for (uint64_t i = 0; i < steps; ++i) cancels_[(second - i) % kCancelWindowSeconds] = 0;
  cancel_second_ = second;
}

void DialExecutor::note_cancel(uint64_t now_us) {
  forget_old_cancels(now_us);
  ++cancels_[cancel_second_ % kCancelWindowSeconds];
}

uint32_t DialExecutor::recent_cancels(uint64_t now_us) {
  forget_old_cancels(now_us);
  return std::accumulate(cancels_.begin(), cancels_.end(), uint32_t{0});
}

}  // namespace tmesh::agent
