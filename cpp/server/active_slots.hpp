// Ceilings on live streams per token and per agent (LESSONS R21, R27).
//
// A slot is claimed before its stream is visible to anybody and given back exactly once,
// by the destructor of whoever holds it. One thread. The owner outlives the slots.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tmesh::server {

class ActiveSlots {
 public:
  // 0 = no ceiling.
  ActiveSlots(uint64_t per_token_max, uint64_t per_agent_max)
      : per_token_max_(per_token_max), per_agent_max_(per_agent_max) {}

  class Slot {
   public:
    Slot() = default;
    Slot(Slot&& other) noexcept
        : owner_(std::exchange(other.owner_, nullptr)), token_(other.token_), agent_(other.agent_) {}
    Slot& operator=(Slot&& other) noexcept {
      if (this != &other) {
        give_back();
        owner_ = std::exchange(other.owner_, nullptr);
        token_ = other.token_;
        agent_ = other.agent_;
      }
      return *this;
    }
    ~Slot() { give_back(); }

   private:
    friend class ActiveSlots;
    using Counts = std::map<std::string, uint64_t, std::less<>>;
    void give_back() {
      if (ActiveSlots* owner = std::exchange(owner_, nullptr)) owner->release(token_, agent_);
    }
    ActiveSlots* owner_ = nullptr;
    Counts::iterator token_;
    Counts::iterator agent_;
  };

  // nullopt: a ceiling is reached; nothing was counted.
  std::optional<Slot> claim(std::string_view token_id, std::string_view agent_id) {
    const auto token = by_token_.try_emplace(std::string(token_id), 0).first;
    const auto agent = by_agent_.try_emplace(std::string(agent_id), 0).first;
    const bool fits = (per_token_max_ == 0 || token->second < per_token_max_) &&
                      (per_agent_max_ == 0 || agent->second < per_agent_max_);
    token->second++;
    agent->second++;
    if (!fits) {
      release(token, agent);
      return std::nullopt;
    }
    Slot slot;
    slot.owner_ = this;
    slot.token_ = token;
    slot.agent_ = agent;
    return slot;
  }

  std::size_t tokens_count() const { return by_token_.size(); }
  std::size_t agents_count() const { return by_agent_.size(); }

 private:
  void release(Slot::Counts::iterator token, Slot::Counts::iterator agent) {
    if (--token->second == 0) by_token_.erase(token);
    if (--agent->second == 0) by_agent_.erase(agent);
  }

  const uint64_t per_token_max_;
  const uint64_t per_agent_max_;
  Slot::Counts by_token_;
  Slot::Counts by_agent_;
};

}  // namespace tmesh::server
