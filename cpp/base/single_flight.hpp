// Callers who want the same thing at the same time share one piece of work.
//
// The work belongs to none of them: a caller that goes away touches nobody else, and when
// the last one goes the work is destroyed, which cancels it. So there are never more flights
// than callers; who bounds the callers bounds this. One thread; allocates per flight, and
// memory for callers grows to the most there were at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/ticket.hpp"

namespace tmesh {

template <class Answer>
class SingleFlight {
 public:
  using Done = Delegate<void(Answer)>;

  // One piece of work; what does it derives from this and holds its Tickets.
  class Flight {
   public:
    Flight() = default;
    Flight(const Flight&) = delete;
    Flight& operator=(const Flight&) = delete;
    virtual ~Flight() = default;

    std::size_t callers_count() const { return callers_count_; }

   private:
    friend class SingleFlight;
    std::string key_;  // empty: nobody can find it
    std::size_t callers_count_ = 0;
    uint32_t first_ = 0, last_ = 0;  // callers, in the order they came
    bool is_ending_ = false;
  };

  SingleFlight() = default;
  ~SingleFlight() {
    if (gone_ != nullptr) *gone_ = true;
  }
  SingleFlight(const SingleFlight&) = delete;
  SingleFlight& operator=(const SingleFlight&) = delete;

  // nullptr: none with that key is under way.
  Flight* find(std::string_view key) const {
    const auto found = by_key_.find(key);
    return found == by_key_.end() ? nullptr : found->second;
  }
  // No flight has that key; with an empty one nobody finds it. The caller joins it.
  Flight& begin(std::string key, std::unique_ptr<Flight> flight) {
    Flight* const raw = flight.get();
    raw->key_ = std::move(key);
    if (!raw->key_.empty()) {
      const bool is_new = by_key_.emplace(raw->key_, raw).second;
      TMESH_ASSERT(is_new);
    }
    flights_.emplace(raw, std::move(flight));
    return *raw;
  }
  // `done` runs from end(). Destroying the Ticket is this caller's business only.
  Ticket join(Flight& flight, Done done) {
    uint32_t number = first_free_;
    if (number != kNone) {
      first_free_ = at(number).next;
    } else {
      callers_.emplace_back();
      number = static_cast<uint32_t>(callers_.size());
    }
    Caller& caller = at(number);
    caller.done = done;
    caller.flight = &flight;
    caller.next = kNone;
    caller.previous = std::exchange(flight.last_, number);
    (caller.previous == kNone ? flight.first_ : at(caller.previous).next) = number;
    flight.callers_count_++;
    return Ticket(this, uint64_t{caller.generation} << 32 | number, &SingleFlight::cancel);
  }
  // The work could not be begun: the flight is gone, and nobody is told.
  void abandon(Flight& flight) {
    while (flight.first_ != kNone) leave(flight.first_);
    remove_key(flight);
    flights_.erase(&flight);
  }
  // Tells its callers, as long as is_good() holds before each; from the beginning on others
  // with that key begin a new flight. A callback may do anything, destroying this included.
  // Returns the flight if callers are left who were not told: it is then one that nobody
  // finds, and its work has to be done again. Else nullptr: the flight is gone.
  template <class Good>
  Flight* end(Flight& flight, const Answer& answer, Good is_good) {
    remove_key(flight);
    flight.is_ending_ = true;
    bool is_gone = false;
    bool* const outer = std::exchange(gone_, &is_gone);
    while (flight.first_ != kNone) {
      if (!is_good()) {
        gone_ = outer;
        flight.is_ending_ = false;
        return &flight;
      }
      const Done done = at(flight.first_).done;
      leave(flight.first_);
      done(answer);
      if (is_gone) {
        if (outer != nullptr) *outer = true;
        return nullptr;
      }
    }
    gone_ = outer;
    flights_.erase(&flight);
    return nullptr;
  }

  std::size_t flights_count() const { return flights_.size(); }

 private:
  static constexpr uint32_t kNone = 0;  // callers are numbered from 1

  struct Caller {
    Done done;
    Flight* flight = nullptr;
    uint32_t generation = 1;  // makes the Ticket of one who was told worthless
    uint32_t previous = kNone;
    uint32_t next = kNone;  // in the flight, or among the free ones
  };

  Caller& at(uint32_t number) { return callers_[number - 1]; }
  void leave(uint32_t number) {
    Caller& caller = at(number);
    Flight& flight = *caller.flight;
    (caller.previous == kNone ? flight.first_ : at(caller.previous).next) = caller.next;
    (caller.next == kNone ? flight.last_ : at(caller.next).previous) = caller.previous;
    flight.callers_count_--;
    caller.generation++;
    caller.done = {};
    caller.next = std::exchange(first_free_, number);
  }
  void remove_key(Flight& flight) {
    if (!flight.key_.empty()) by_key_.erase(flight.key_);
    flight.key_.clear();
  }
  static void cancel(void* owner, uint64_t id) {
    auto& self = *static_cast<SingleFlight*>(owner);
    const auto number = static_cast<uint32_t>(id);
    if (self.at(number).generation != id >> 32) return;
    Flight& flight = *self.at(number).flight;
    self.leave(number);
    if (flight.first_ == kNone && !flight.is_ending_) self.abandon(flight);
  }

  std::map<Flight*, std::unique_ptr<Flight>> flights_;
  std::map<std::string_view, Flight*> by_key_;  // views of the flights' own keys
  std::vector<Caller> callers_;
  uint32_t first_free_ = kNone;
  bool* gone_ = nullptr;  // set by the destructor while callers are being told
};

}  // namespace tmesh
