// A bounded map from byte strings to small values that are good for a time.
//
// Approximate LRU: a full cache makes room with a hand that goes round its slots (CLOCK),
// takes the first one that was not used since it last came by, and after kLooksMax slots
// takes what it finds, so that room is made in bounded time. All entries can be dropped at
// once in constant time; their memory is given back in slices by release(), or slot by
// slot as new entries need it. So nothing here takes longer with more entries.
//
// Memory: at most entries_max entries, dropped ones included. An entry is a slot of
// 40 bytes + sizeof(Value) and one allocation for its key; slots are made 1,024 at a time as
// they are first needed, and kept. The table of 4 to 8 bytes per entry is there from the
// beginning, so that it never has to grow. One thread; time is an argument.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "cpp/base/keyed_hash.hpp"

namespace tmesh {

// Value: default-constructible and movable; a default one holds no memory.
template <class Value>
class TtlCache {
 public:
  // Slots looked at to make room: some 3 us where none of them is in the processor's cache.
  static constexpr std::size_t kLooksMax = 32;

  // 1 <= entries_max < 2^31.
  explicit TtlCache(std::size_t entries_max)
      : entries_max_(entries_max), buckets_(std::bit_ceil(entries_max), kNone), hash_key_(HashKey::random()) {
    TMESH_ASSERT(entries_max >= 1 && entries_max < (std::size_t{1} << 31));
    chunks_.reserve((entries_max - 1) / kChunkSlots + 1);
  }

  // The value, if the key has one that is still good at now_us; valid until the next call of
  // a function that is not const.
  Value* find(std::string_view key, uint64_t now_us) {
    const uint32_t hash = hash_of(key);
    const uint32_t found = find_slot(key, hash);
    if (found == kNone) return nullptr;
    Slot& slot = at(found);
    if (slot.epoch != epoch_ || slot.until_us <= now_us) {
      remove(found);
      return nullptr;
    }
    slot.is_used = true;
    return &slot.value;
  }
  // Good before until_us. Replaces what the key had.
  void put(std::string_view key, Value value, uint64_t until_us) {
    const uint32_t hash = hash_of(key);
    uint32_t number = find_slot(key, hash);
    if (number == kNone) {
      number = free_slot();
      Slot& slot = at(number);
      slot.key = std::make_unique_for_overwrite<char[]>(key.size() + 1);
      std::memcpy(slot.key.get(), key.data(), key.size());
      slot.key_bytes = static_cast<uint32_t>(key.size());
      slot.hash = hash;
      slot.next = std::exchange(bucket(hash), number);
      slot.is_used = false;
      live_count_++;
    } else if (at(number).epoch != epoch_) {
      live_count_++;
    }
    Slot& slot = at(number);
    slot.value = std::move(value);
    slot.until_us = until_us;
    slot.epoch = epoch_;
  }
  // Every entry is gone. release() says when their memory is.
  void drop() {
    epoch_++;
    live_count_ = 0;
    unreleased_count_ = slots_made_;
  }
  // Frees dropped entries among the next slots_max slots; false when none can be left.
  bool release(std::size_t slots_max) {
    for (; slots_max > 0 && unreleased_count_ > 0; slots_max--, unreleased_count_--) {
      const uint32_t number = static_cast<uint32_t>(unreleased_count_);
      if (Slot& slot = at(number); slot.key != nullptr && slot.epoch != epoch_) remove(number);
    }
    return unreleased_count_ > 0;
  }

  // Entries that find() could give, those that ran out included.
  std::size_t size() const { return live_count_; }
  std::size_t entries_max() const { return entries_max_; }
  // Entries that made room for others.
  uint64_t evictions_count() const { return evictions_count_; }

 private:
  static constexpr std::size_t kChunkSlots = 1024;
  static constexpr uint32_t kNone = 0;  // slots are numbered from 1

  struct Slot {
    std::unique_ptr<char[]> key;  // null: the slot is free
    uint64_t until_us = 0;
    uint32_t key_bytes = 0;
    uint32_t hash = 0;
    uint32_t next = kNone;  // in its bucket, or among the free slots
    uint32_t epoch = 0;     // dropped unless it is epoch_
    bool is_used = false;   // since the hand last came by
    Value value{};
  };

  Slot& at(uint32_t number) { return chunks_[(number - 1) / kChunkSlots][(number - 1) % kChunkSlots]; }
  uint32_t hash_of(std::string_view key) const { return static_cast<uint32_t>(keyed_hash(hash_key_, key)); }
  uint32_t& bucket(uint32_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }

  uint32_t find_slot(std::string_view key, uint32_t hash) {
    uint32_t number = bucket(hash);
    while (number != kNone) {
      const Slot& slot = at(number);
      if (slot.hash == hash && std::string_view(slot.key.get(), slot.key_bytes) == key) break;
      number = slot.next;
    }
    return number;
  }
  uint32_t free_slot() {
    if (first_free_ == kNone && slots_made_ == entries_max_) make_room();
    if (first_free_ != kNone) return std::exchange(first_free_, at(first_free_).next);
    if (slots_made_ % kChunkSlots == 0) chunks_.push_back(std::make_unique<Slot[]>(kChunkSlots));
    return static_cast<uint32_t>(++slots_made_);
  }
  void make_room() {
    for (std::size_t looked = 1;; looked++) {
      hand_ = hand_ % static_cast<uint32_t>(slots_made_) + 1;
      Slot& slot = at(hand_);
      const bool is_live = slot.epoch == epoch_;
      if (is_live && looked < kLooksMax && std::exchange(slot.is_used, false)) continue;
      evictions_count_ += is_live ? 1 : 0;
      return remove(hand_);
    }
  }
  void remove(uint32_t number) {
    Slot& slot = at(number);
    uint32_t* link = &bucket(slot.hash);
    while (*link != number) link = &at(*link).next;
    *link = slot.next;
    if (slot.epoch == epoch_) live_count_--;
    slot.key.reset();
    slot.value = Value{};
    slot.next = std::exchange(first_free_, number);
  }

  const std::size_t entries_max_;
  std::vector<uint32_t> buckets_;  // the first slot of each
  const HashKey hash_key_;
  std::vector<std::unique_ptr<Slot[]>> chunks_;
  std::size_t slots_made_ = 0;
  uint32_t first_free_ = kNone;
  uint32_t hand_ = kNone;
  uint32_t epoch_ = 0;  // of drop()
  std::size_t live_count_ = 0;
  std::size_t unreleased_count_ = 0;  // slots up to this number may hold dropped entries
  uint64_t evictions_count_ = 0;
};

}  // namespace tmesh
