// Ceilings on what one key may hold at a time: live streams per token and per agent
// (LESSONS R21, R27), links per token.
//
// A slot is claimed before what it stands for is visible to anybody and given back exactly
// once, by the destructor of whoever holds it. Nothing is kept about a key without slots.
// One thread. The owner outlives the slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tmesh::server {

class KeyedSlots {
 public:
  // 0 = no ceiling.
  explicit KeyedSlots(uint64_t per_key_max) : per_key_max_(per_key_max) {}
  KeyedSlots(const KeyedSlots&) = delete;
  KeyedSlots& operator=(const KeyedSlots&) = delete;

  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)), place_(other.place_) {}
    Slot& operator=(Slot&& other) noexcept {
      if (this != &other) {
        give_back();
        owner_ = std::exchange(other.owner_, nullptr);
        place_ = other.place_;
      }
      return *this;
    }
    ~Slot() { give_back(); }

   private:
    friend class KeyedSlots;
    void give_back() {
      if (KeyedSlots* owner = std::exchange(owner_, nullptr)) {
        if (--place_->second == 0) owner->counts_.erase(place_);
      }
    }
    KeyedSlots* owner_ = nullptr;
    std::map<std::string, uint64_t, std::less<>>::iterator place_;
  };

  // nullopt: the ceiling is reached; nothing was counted.
  std::optional<Slot> claim(std::string_view key) {
    auto place = counts_.find(key);
    if (place == counts_.end()) place = counts_.try_emplace(std::string(key), 0).first;
    if (per_key_max_ != 0 && place->second >= per_key_max_) return std::nullopt;
    place->second++;
    Slot slot;
    slot.owner_ = this;
    slot.place_ = place;
    return slot;
  }

  // What is held above a lower one stays.
  void set_max(uint64_t per_key_max) { per_key_max_ = per_key_max; }

  // Keys that hold slots, and how many one holds.
  std::size_t keys_count() const { return counts_.size(); }
  uint64_t count(std::string_view key) const {
    const auto place = counts_.find(key);
    return place == counts_.end() ? 0 : place->second;
  }

 private:
  uint64_t per_key_max_;
  std::map<std::string, uint64_t, std::less<>> counts_;
};

// A live stream's place under both of its ceilings.
class ActiveSlots {
 public:
  // 0 = no ceiling.
  ActiveSlots(uint64_t per_token_max, uint64_t per_agent_max)
      : by_token_(per_token_max), by_agent_(per_agent_max) {}

  struct Slot {
    KeyedSlots::Slot token;
    KeyedSlots::Slot agent;
  };

  // nullopt: a ceiling is reached; nothing was counted.
  std::optional<Slot> claim(std::string_view token_id, std::string_view agent_id) {
    auto token = by_token_.claim(token_id);
    if (!token) return std::nullopt;
    auto agent = by_agent_.claim(agent_id);
    if (!agent) return std::nullopt;
    return Slot{std::move(*token), std::move(*agent)};
  }

  // 0 = no ceiling.
  void set_max(uint64_t per_token_max, uint64_t per_agent_max) {
    by_token_.set_max(per_token_max);
    by_agent_.set_max(per_agent_max);
  }

  std::size_t tokens_count() const { return by_token_.keys_count(); }
  std::size_t agents_count() const { return by_agent_.keys_count(); }
  uint64_t streams_of_token(std::string_view token_id) const { return by_token_.count(token_id); }
  uint64_t streams_of_agent(std::string_view agent_id) const { return by_agent_.count(agent_id); }

 private:
  KeyedSlots by_token_;
  KeyedSlots by_agent_;
};

}  // namespace tmesh::server
