// What the streams of an agent tell the pool: times of their opens and first bytes.
//
// Fixed memory, no allocation per stream. Whatever is read covers the time since the last
// take(): a burst that is over must not look like load for ever, and two evaluations
// running must not judge by the same samples. One thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace tmesh::agent {

// The last 64 values.
class SampleRing {
 public:
  static constexpr std::size_t kSamplesMax = 64;

  void add(uint64_t value) {
    values_[next_++ % kSamplesMax] = value;
    count_ = std::min(count_ + 1, kSamplesMax);
  }
  std::size_t count() const { return count_; }
  void clear() { count_ = next_ = 0; }
  // The smallest value that at least 95 % of them do not exceed; 0 without samples.
  uint64_t p95() const {
    if (count_ == 0) return 0;
    std::array<uint64_t, kSamplesMax> sorted = values_;
    const std::size_t rank = (count_ * 95 + 99) / 100 - 1;
    std::nth_element(sorted.begin(), sorted.begin() + rank, sorted.begin() + count_);
    return sorted[rank];
  }

 private:
  std::array<uint64_t, kSamplesMax> values_{};
  std::size_t next_ = 0;
  std::size_t count_ = 0;
};

class LoadSamples {
 public:
  // An open that ended, and how long it took from OPEN_STREAM on. Only accepted ones say
  // something about time: the others are the error rate.
  void open_ended(bool is_accepted, uint64_t open_us) {
    opens_count_++;
    if (is_accepted) {
      open_us_.add(open_us);
    } else {
      failed_count_++;
    }
  }
  // From OPEN_STREAM to the first byte of the target.
  void first_byte(uint64_t us) { ttfb_us_.add(us); }
  // From the first byte of the target to its leaving for the link's socket.
  void first_sent(uint64_t us) { writer_wait_us_.add(us); }
  void dial_waited(uint64_t us) { dial_wait_us_ = std::max(dial_wait_us_, us); }

  struct Taken {
    uint64_t open_p95_us = 0;
    uint64_t ttfb_p95_us = 0;
    uint64_t writer_wait_p95_us = 0;
    uint64_t dial_wait_us = 0;        // the longest
    uint32_t error_rate_percent = 0;  // of the opens that ended
  };
  // And begins anew.
  Taken take() {
    const Taken taken{open_us_.p95(), ttfb_us_.p95(), writer_wait_us_.p95(), dial_wait_us_,
                      opens_count_ == 0 ? 0 : static_cast<uint32_t>(failed_count_ * 100 / opens_count_)};
    *this = {};
    return taken;
  }

 private:
  SampleRing open_us_;
  SampleRing ttfb_us_;
  SampleRing writer_wait_us_;
  uint64_t dial_wait_us_ = 0;
  uint64_t opens_count_ = 0;
  uint64_t failed_count_ = 0;
};

}  // namespace tmesh::agent
