// How well opens on one link of an agent went lately: its health, in (0, 1].
//
// Selection divides a link's load by it (requirement E6). 1 while every open is answered;
// each failure takes an eighth of what is left, each answer gives an eighth of what is
// missing back, and with time alone half of what is missing comes back every ten seconds:
// a link that gets no opens must not stay ill. Never below a twentieth, so that a link is
// tried again when the others have twenty times its load.
//
// A failure is what the link or the agent behind it did not do, never what a target did:
// an open that was reset instead of answered, that met a full queue, or that ran out of time
// without one byte of the link since. Suspicion (a link that is silent where a living one
// would be heard) is no part of it: such a link is taken only if there is no other.
//
// In hundredths, so that healthy links are exactly equal. Pure: time is an argument.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tmesh::server {

class LinkHealth {
 public:
  static constexpr uint32_t kBest_percent = 100;
  static constexpr uint32_t kWorst_percent = 5;
  static constexpr uint64_t kHalfLife_us = 10'000'000;

  void note(bool is_good, uint64_t now_us) {
    missing_ = missing(now_us);
    missing_ = is_good ? missing_ - missing_ / 8 : missing_ + (kAll - missing_) / 8;
    noted_us_ = now_us;
  }
  uint32_t percent(uint64_t now_us) const {
    return std::max(kWorst_percent, kBest_percent - missing(now_us) * 100 / kAll);
  }

 private:
  static constexpr uint32_t kAll = 1u << 16;

  uint32_t missing(uint64_t now_us) const {
    const uint64_t halvings = (now_us - noted_us_) / kHalfLife_us;
    return halvings > 16 ? 0 : missing_ >> halvings;
  }

  uint32_t missing_ = 0;  // of kAll
  uint64_t noted_us_ = 0;
};

}  // namespace tmesh::server
