#include "cpp/session/liveness.hpp"

#include <algorithm>

namespace tmesh::session {

Liveness::Liveness(const SessionLife& life, uint64_t now_us) : life_(life), heard_us_(now_us) {
  if (life_.ping_interval_us != 0) ping_due_us_ = now_us + life_.ping_interval_us;
  set_due(now_us, {now_us, 0, 0, 0});
}

Liveness::Verdict Liveness::judge(uint64_t now_us, const Seen& seen) {
  Verdict verdict;
  if (due_us_ != kNever && now_us > due_us_ + kLate_us) {
    // The silence of a time in which nobody listened proves nothing.
    forget_doubt();
    open_since_us_ = ping_since_us_ = kNever;
    heard_us_ = now_us;
    if (life_.ping_interval_us != 0) {
      ping_due_us_ = now_us;
    } else if (life_.silence_ping_us != 0) {
      silence_pinged_us_ = seen.read_us;
      verdict.wants_probe = true;
    }
  }
  if (is_doubting() && seen.in_bytes != doubt_in_bytes_) forget_doubt();
  if (open_since_us_ != kNever && seen.in_bytes != open_in_bytes_) open_since_us_ = kNever;
  if (ping_since_us_ != kNever && seen.in_bytes != ping_in_bytes_) ping_since_us_ = kNever;
  heard_us_ = std::max(heard_us_, seen.read_us);

  const uint64_t silent_us = now_us > heard_us_ ? now_us - heard_us_ : 0;
  if (life_.silence_dead_us != 0 && silent_us >= life_.silence_dead_us) {
    verdict.is_dead = true;
    return verdict;
  }
  if (life_.silence_ping_us != 0 && silent_us >= life_.silence_ping_us &&
      silence_pinged_us_ != seen.read_us) {
    silence_pinged_us_ = seen.read_us;
    verdict.wants_probe = true;
  }
  if (now_us >= ping_due_us_) {
    // From now, not from the last due time: after a jump one PING is enough.
    ping_due_us_ = life_.ping_interval_us == 0 ? kNever : now_us + life_.ping_interval_us;
    if (ping_since_us_ == kNever) {
      ping_since_us_ = now_us;
      ping_in_bytes_ = seen.in_bytes;
    }
    verdict.wants_ping = true;
  }
  judge_doubt(now_us, seen, verdict);
  set_due(now_us, seen);
  return verdict;
}

void Liveness::judge_doubt(uint64_t now_us, const Seen& seen, Verdict& verdict) {
  if (!is_doubting()) {
    if (now_us >= open_doubt_us(seen)) {
      doubt_from_us_ = open_since_us_;
      doubt_in_bytes_ = open_in_bytes_;
    } else if (now_us >= ping_doubt_us(seen)) {
      doubt_from_us_ = ping_since_us_;
      doubt_in_bytes_ = ping_in_bytes_;
      missed_count_ = 1;  // a PING is a probe, and has had more time than one
      verdict.is_suspect_now = true;
    } else {
      return;
    }
  } else if (probed_at_us_ != kNever) {
    if (now_us < probe_missed_us(seen)) return;
    const bool is_draining = seen.out_bytes - probed_out_bytes_ > kProgressMin_bytes;
    if (missed_count_ == 0) verdict.is_suspect_now = true;
    if (missed_count_ == 0 || !is_draining) missed_count_++;
    if (missed_count_ >= kProbesMissedMax) {
      verdict.is_dead = true;
      return;
    }
  }
  probed_at_us_ = now_us;
  probed_out_bytes_ = seen.out_bytes;
  verdict.wants_probe = true;
}

void Liveness::expect_answer(uint64_t now_us, const Seen& seen) {
  if (life_.open_patience_us == 0) return;
  if (open_since_us_ != kNever && seen.in_bytes == open_in_bytes_) return;
  open_since_us_ = now_us;
  open_in_bytes_ = seen.in_bytes;
  due_us_ = std::min(due_us_, open_doubt_us(seen));
}

void Liveness::doubt(uint64_t now_us, const Seen& seen) {
  if (life_.open_patience_us == 0) return;
  if (is_doubting() && seen.in_bytes == doubt_in_bytes_) return;
  forget_doubt();
  doubt_from_us_ = now_us;
  doubt_in_bytes_ = seen.in_bytes;
  due_us_ = std::min(due_us_, now_us);
}

void Liveness::ping_now(uint64_t now_us, uint64_t interval_us) {
  if (life_.ping_interval_us == 0) life_.ping_interval_us = interval_us;
  ping_due_us_ = now_us;
  due_us_ = std::min(due_us_, now_us);
}

void Liveness::forget_doubt() {
  doubt_from_us_ = probed_at_us_ = kNever;
  missed_count_ = 0;
}

uint64_t Liveness::open_doubt_us(const Seen& seen) const {
  if (open_since_us_ == kNever) return kNever;
  return open_since_us_ + std::max(life_.open_patience_us, 3 * seen.rtt_us);
}

uint64_t Liveness::ping_doubt_us(const Seen& seen) const {
  if (ping_since_us_ == kNever || life_.ping_patience_us == 0) return kNever;
  return ping_since_us_ + life_.ping_patience_us + 3 * seen.rtt_us;
}

uint64_t Liveness::probe_missed_us(const Seen& seen) const {
  return probed_at_us_ + std::max(life_.probe_interval_us, 4 * seen.rtt_us);
}

void Liveness::set_due(uint64_t now_us, const Seen& seen) {
  due_us_ = ping_due_us_;
  if (life_.silence_ping_us != 0) {
    // Pinged already: nothing tells of a byte that ends this silence, so look again.
    const bool is_pinged = silence_pinged_us_ == seen.read_us;
    due_us_ = std::min(due_us_, (is_pinged ? now_us : heard_us_) + life_.silence_ping_us);
  }
  if (life_.silence_dead_us != 0) due_us_ = std::min(due_us_, heard_us_ + life_.silence_dead_us);
  const uint64_t doubt_us =
      is_doubting() ? probe_missed_us(seen) : std::min(open_doubt_us(seen), ping_doubt_us(seen));
  due_us_ = std::min(due_us_, doubt_us);
}

}  // namespace tmesh::session
