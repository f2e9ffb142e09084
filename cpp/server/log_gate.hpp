// How many lines strangers may write into our log: anybody can send a request that is
// refused, and as fast as the network carries it.
//
// In each window the first lines_max lines pass; the others are counted, and the count is
// handed out with the first line of a later window. One thread; time is an argument.
#pragma once

#include <cstdint>
#include <utility>

namespace tmesh::server {

class LogGate {
 public:
  explicit LogGate(uint32_t lines_max = kLinesMax) : lines_max_(lines_max) {}

  static constexpr uint64_t kWindow_us = 60'000'000;
  // Enough to show what goes wrong in a fleet that is set up; some 10 MB a day at worst.
  static constexpr uint32_t kLinesMax = 60;

  // Whether this line may be written.
  bool admits(uint64_t now_us) {
    if (now_us - window_us_ >= kWindow_us) {
      window_us_ = now_us;
      lines_ = 0;
    }
    if (lines_ < lines_max_) {
      ++lines_;
      return true;
    }
    ++dropped_;
    return false;
  }
  // Lines that were not admitted since the last call; to be asked when one was.
  uint64_t take_dropped() { return std::exchange(dropped_, 0); }

 private:
  const uint32_t lines_max_;
  uint64_t window_us_ = 0;
  uint32_t lines_ = 0;
  uint64_t dropped_ = 0;
};

}  // namespace tmesh::server
