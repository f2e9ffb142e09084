// Waits between attempts to reach the server (WIRE E): the first five uniform in
// 0.1-1.0 s, then 2, 4, 8, 16, 30 s with +-20 %, forever. A link that was good for 60 s
// starts the sequence again. Uniform early waits spread a fleet that lost its server
// at one instant. Pure; the random source is an argument.
#pragma once

#include <cstdint>

namespace tmesh::session {

class Backoff {
 public:
  explicit Backoff(uint64_t seed) : random_(seed | 1) {}

  // The wait before the next attempt.
  uint64_t next_us();
  // A link ended that had been up for this long.
  void link_ended(uint64_t up_us);

  // A link that lived this long was a good one.
  static constexpr uint64_t kGoodLink_us = 60'000'000;

 private:
  uint64_t random_;
  unsigned attempts_count_ = 0;
};

}  // namespace tmesh::session
