// Rapid reset: counts the opens that a client cancelled while they cost something.
//
// Such an open has taken a database query and perhaps an agent's dial, and its slot is
// free again at once, so that bounded slots alone do not bound the work. What was given up
// kQuickUs after its start has held its slot for so long and is not to be noted. Beyond
// kCancelsMax in kWindowSeconds the client's opens are refused until the window has
// passed. A client is a token, however many links it opens. One entry per client that
// cancelled lately. One thread; time is an argument.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>

namespace tmesh::server {

class CancelGuard {
 public:
  static constexpr std::size_t kWindowSeconds = 10;
  // Closing a page cancels at most what may run (128 by default); twice that is a
  // circle. A sixteenth of what an agent takes from one server link (4,096) before it
  // refuses everybody's opens.
  static constexpr uint32_t kCancelsMax = 256;
  static constexpr uint64_t kQuickUs = 1'000'000;

  void note(uint64_t client_key, uint64_t now_us) {
    const uint64_t second = now_us / 1'000'000;
    auto found = clients_.find(client_key);
    if (found == clients_.end()) {
      std::erase_if(clients_,
                    [&](const auto& entry) { return second - entry.second.newest >= kWindowSeconds; });
      found = clients_.try_emplace(client_key).first;
      found->second.newest = second;
    }
    found->second.forget_until(second);
    found->second.counts[second % kWindowSeconds]++;
  }
  bool refuses(uint64_t client_key, uint64_t now_us) {
    const auto found = clients_.find(client_key);
    if (found == clients_.end()) return false;
    Ring& ring = found->second;
    ring.forget_until(now_us / 1'000'000);
    return std::accumulate(ring.counts.begin(), ring.counts.end(), uint32_t{0}) >= kCancelsMax;
  }
  std::size_t clients_count() const { return clients_.size(); }

 private:
  struct Ring {
    std::array<uint32_t, kWindowSeconds> counts{};  // by second
    uint64_t newest = 0;
    void forget_until(uint64_t second) {
      const uint64_t steps = std::min<uint64_t>(second - newest, kWindowSeconds);
      for (uint64_t i = 0; i < steps; i++) counts[(second - i) % kWindowSeconds] = 0;
      newest = second;
    }
  };
  std::map<uint64_t, Ring> clients_;
};

}  // namespace tmesh::server
