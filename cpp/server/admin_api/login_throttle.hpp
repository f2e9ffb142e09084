// Stops the guessing of passwords: who failed too often may not try for a while.
//
// Failures are counted per user name and per client address (IPv6 by /64), each by itself:
// `failures_max` of them within `window_us` block for `block_us`. Attempts under way count as
// failures until they end, so that a burst is no way around it. A success forgets the name's
// failures, not the address's: whoever knows one password must not guess others with it.
//
// Each of the two tables holds entries_max at most and forgets what was touched longest ago:
// who can send from that many addresses is not stopped by counting them, but fills no memory.
// No I/O; time is an argument (monotonic). One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cpp/base/address.hpp"

namespace tmesh::server {

class LoginThrottle {
 public:
  struct Settings {
    uint64_t failures_max = 10;
    uint64_t window_us = 300'000'000;
    uint64_t block_us = 600'000'000;
  };
  // Some 2 MB for both tables together.
  static constexpr std::size_t kEntriesMax = 10'000;

  explicit LoginThrottle(Settings settings, std::size_t entries_max = kEntriesMax);

  // 0: the attempt may be made; exactly one of the three below follows. Otherwise
  // microseconds after which another try makes sense.
  uint64_t begin(std::string_view name, const IpAddress& address, uint64_t now_us);
  void failed(std::string_view name, const IpAddress& address, uint64_t now_us);
  void succeeded(std::string_view name, const IpAddress& address, uint64_t now_us);
  // It was not found out whether the password was right. Leaves the tables as they were before
  // begin(), but for the order of what stays.
  void withdrawn(std::string_view name, const IpAddress& address, uint64_t now_us);

  std::size_t name_count() const { return names_.size(); }
  std::size_t address_count() const { return addresses_.size(); }

 private:
  struct Entry {
    std::string key;
    std::vector<uint64_t> failed_at_us;  // oldest first; at most failures_max
    uint64_t running_count = 0;
    uint64_t blocked_until_us = 0;
  };
  class Table {
   public:
    explicit Table(std::size_t entries_max) : entries_max_(entries_max) {}
    Entry& touch(const std::string& key);
    // Ends an attempt; what is left without a meaning goes.
    void withdraw(const std::string& key, uint64_t now_us);
    std::size_t size() const { return by_key_.size(); }

   private:
    const std::size_t entries_max_;
    std::list<Entry> entries_;  // touched last comes last
    std::unordered_map<std::string, std::list<Entry>::iterator> by_key_;
  };

  uint64_t wait_us(Entry& entry, uint64_t now_us) const;
  void forget_old(Entry& entry, uint64_t now_us) const;
  void note_failure(Entry& entry, uint64_t now_us) const;
  static std::string name_key(std::string_view name);
  static std::string address_key(const IpAddress& address);

  const Settings settings_;
  Table names_;
  Table addresses_;
};

}  // namespace tmesh::server
