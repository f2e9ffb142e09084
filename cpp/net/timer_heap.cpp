#include "cpp/net/timer_heap.hpp"

#include "core/base/check.h"

namespace tmesh::net {

uint64_t TimerHeap::add(uint64_t due_us, Delegate<void()> done) {
  TMESH_ASSERT(static_cast<bool>(done));
  uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[index];
  slot.due_us = due_us;
  slot.sequence = next_sequence_++;
  slot.done = done;
  heap_.push_back(index);
  slot.position = static_cast<uint32_t>(heap_.size() - 1);
  sift_up(heap_.size() - 1);
  return (uint64_t{slot.generation} << 32) | index;
}

bool TimerHeap::cancel(uint64_t id) {
  auto index = static_cast<uint32_t>(id);
  if (index >= slots_.size()) return false;
  const Slot& slot = slots_[index];
  if (slot.generation != id >> 32 || slot.position == kFree) return false;
  remove(slot.position);
  return true;
}

std::optional<uint64_t> TimerHeap::next_us() const {
  if (heap_.empty()) return std::nullopt;
  return slots_[heap_.front()].due_us;
}

Delegate<void()> TimerHeap::take_due(uint64_t now_us, uint64_t mark) {
  if (heap_.empty()) return {};
  const Slot& slot = slots_[heap_.front()];
  if (slot.due_us > now_us || slot.sequence >= mark) return {};
  Delegate<void()> done = slot.done;
  remove(0);
  return done;
}

void TimerHeap::clear() {
  while (!heap_.empty()) remove(heap_.size() - 1);
}

bool TimerHeap::before(uint32_t a, uint32_t b) const {
  const Slot& x = slots_[a];
  const Slot& y = slots_[b];
  return x.due_us != y.due_us ? x.due_us < y.due_us : x.sequence < y.sequence;
}

void TimerHeap::place(std::size_t position, uint32_t slot) {
  heap_[position] = slot;
  slots_[slot].position = static_cast<uint32_t>(position);
}

void TimerHeap::sift_up(std::size_t position) {
  uint32_t slot = heap_[position];
  while (position > 0) {
    std::size_t parent = (position - 1) / 2;
    if (!before(slot, heap_[parent])) break;
    place(position, heap_[parent]);
    position = parent;
  }
  place(position, slot);
}

void TimerHeap::sift_down(std::size_t position) {
  uint32_t slot = heap_[position];
  for (;;) {
    std::size_t child = 2 * position + 1;
    if (child >= heap_.size()) break;
    if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) ++child;
    if (!before(heap_[child], slot)) break;
    place(position, heap_[child]);
    position = child;
  }
  place(position, slot);
}

void TimerHeap::remove(std::size_t position) {
  uint32_t index = heap_[position];
  uint32_t last = heap_.back();
  heap_.pop_back();
  if (position < heap_.size()) {
    place(position, last);
    sift_up(position);
    sift_down(slots_[last].position);
  }
  Slot& slot = slots_[index];
  slot.position = kFree;
  slot.done = {};
  if (++slot.generation == 0) slot.generation = 1;
  free_.push_back(index);
}

}  // namespace tmesh::net
