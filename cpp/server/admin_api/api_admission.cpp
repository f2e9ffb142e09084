#include "cpp/server/admin_api/api_admission.hpp"

#include "core/base/check.h"

namespace tmesh::server {

ApiAdmission::ApiAdmission(Limits limits) : limits_(limits), addresses_(limits.per_address_max, {}) {}

bool ApiAdmission::enter(Entry& entry, const IpAddress& address) {
  TMESH_ASSERT(entry.state_ == Entry::State::outside);
  if (waiting_.size() >= limits_.waiting_max || !addresses_.acquire(address)) return false;
  entry.address_ = address;
  entry.state_ = Entry::State::waiting;
  entry.place_ = waiting_.insert(waiting_.end(), &entry);
  start_next();
  return true;
}

void ApiAdmission::rest(Entry& entry) {
  TMESH_ASSERT(entry.state_ == Entry::State::running);
  entry.state_ = Entry::State::resting;
  --running_count_;
  start_next();
}

void ApiAdmission::resume(Entry& entry) {
  TMESH_ASSERT(entry.state_ == Entry::State::resting);
  entry.state_ = Entry::State::waiting;
  entry.place_ = waiting_.insert(waiting_.begin(), &entry);
  start_next();
}

void ApiAdmission::leave(Entry& entry) {
  if (entry.state_ == Entry::State::outside) return;
  if (entry.state_ == Entry::State::running) --running_count_;
  if (entry.state_ == Entry::State::waiting) waiting_.erase(entry.place_);
  entry.state_ = Entry::State::outside;
  addresses_.release(entry.address_);
  start_next();
}

void ApiAdmission::start_next() {
  while (!is_stopped_ && running_count_ < limits_.running_max && !waiting_.empty()) {
    Entry& next = *waiting_.front();
    waiting_.pop_front();
    next.state_ = Entry::State::running;
    ++running_count_;
    next.on_turn();
  }
}

}  // namespace tmesh::server
