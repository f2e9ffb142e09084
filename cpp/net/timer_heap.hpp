// Deadlines in order, without a clock or a loop: what net::Loop keeps its timers in.
//
// A binary heap over slots that are reused; a slot's generation makes the id of an
// ended timer worthless, so a stale Ticket cannot cancel somebody else's timer. Equal
// deadlines run in the order they were set. Memory grows to the largest number of
// timers that were pending at once. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cpp/base/delegate.hpp"

namespace tmesh::net {

class TimerHeap {
 public:
  // The id is never 0.
  uint64_t add(uint64_t due_us, Delegate<void()> done);
  // False if that timer has run or was cancelled.
  bool cancel(uint64_t id);
  // The earliest deadline.
  std::optional<uint64_t> next_us() const;
  // Takes the earliest timer out if its deadline is at most now_us and it was added
  // before the mark; an empty Delegate otherwise.
  Delegate<void()> take_due(uint64_t now_us, uint64_t mark);
  // Timers added from here on are not "before the mark": a timer that sets itself
  // again with no delay waits for the next round.
  uint64_t mark() const { return next_sequence_; }
  std::size_t size() const { return heap_.size(); }
  void clear();

 private:
  struct Slot {
    uint64_t due_us = 0;
    uint64_t sequence = 0;
    uint32_t generation = 1;
    uint32_t position = kFree;  // in heap_
    Delegate<void()> done;
  };
  static constexpr uint32_t kFree = UINT32_MAX;

  bool before(uint32_t a, uint32_t b) const;
  void place(std::size_t position, uint32_t slot);
  void sift_up(std::size_t position);
  void sift_down(std::size_t position);
  void remove(std::size_t position);

  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> heap_;  // slot numbers
  uint64_t next_sequence_ = 0;
};

}  // namespace tmesh::net
