// Judges from time and bytes alone whether a link lives (WIRE E). Pure: no I/O, no timer.
//
// Three ways to the end of a link, slowest first:
//   silence   no byte for silence_dead
//   a PING    unanswered, and no byte of any kind since, for ping_patience + 3 round trips
//   an open   the same for max(open_patience, 3 round trips), or one that timed out
// The second and third are a doubt: the peer is probed with a WebSocket ping. After one
// probe without an answer the link is suspect and takes no new streams; after
// kProbesMissedMax of them it is dead. Any byte read ends every doubt: a slow link is not
// a dead one (LESSONS P-C5, P-E8). A link that still drains its output is not declared
// dead either, since the probe waits behind that output.
//
// A jump of the clock (the machine slept, the process was stopped) is no silence of the
// peer: what was waited for is forgotten, one PING goes out and the waiting starts again.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tmesh::session {

struct SessionLife {
  uint64_t ping_interval_us = 0;   // protocol PING; 0 = none
  uint64_t silence_ping_us = 0;    // WebSocket ping after this much silence; 0 = none
  uint64_t silence_dead_us = 0;    // dead after this much silence; 0 = never
  uint64_t open_patience_us = 0;   // 0 = opens raise no doubt
  uint64_t ping_patience_us = 0;   // 0 = PINGs raise no doubt
  uint64_t probe_interval_us = 0;  // patience with one probe, if 4 round trips are shorter
};

// Agents and clients: PING every 20 s (some middle-boxes cut at 30 s), dead after three
// of them went by without a byte; 7 s after an open that nobody answers, so that its
// caller hears of it before the open times out (8 s). Servers: WebSocket ping after 25 s,
// dead after 90 s.
inline constexpr SessionLife kDialerLife{20'000'000, 0, 62'000'000, 1'000'000, 5'000'000, 2'000'000};
inline constexpr SessionLife kServerLife{0, 25'000'000, 90'000'000};

class Liveness {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;
  static constexpr unsigned kProbesMissedMax = 3;
  // A judgement that comes this late tells of a jump, or of a process without a turn.
  static constexpr uint64_t kLate_us = 2'000'000;
  // Opens and pings add less than this to the output of a link that moves nothing.
  static constexpr uint64_t kProgressMin_bytes = 4096;

  // What is known of the link.
  struct Seen {
    uint64_t read_us = 0;    // of the last byte; begins with the link
    uint64_t in_bytes = 0;   // read: the clock stands still for a millisecond, and an answer may be quicker
    uint64_t out_bytes = 0;  // the kernel has taken
    uint64_t rtt_us = 0;     // 0 = not known
  };
  struct Verdict {
    bool is_dead = false;
    bool is_suspect_now = false;  // told once per doubt
    bool wants_ping = false;      // protocol PING
    bool wants_probe = false;     // WebSocket ping
  };

  Liveness(const SessionLife& life, uint64_t now_us);

  // To be called at due_us(), not much later.
  Verdict judge(uint64_t now_us, const Seen& seen);
  uint64_t due_us() const { return due_us_; }

  // Something was sent that the peer answers; moves due_us(). Cheap when repeated.
  void expect_answer(uint64_t now_us, const Seen& seen);
  // An answer did not come in its time, though other bytes may have: asks at once.
  void doubt(uint64_t now_us, const Seen& seen);
  // PING now, and then every interval_us if there is no interval yet.
  void ping_now(uint64_t now_us, uint64_t interval_us);
  // No byte came since the doubt began, and a probe was missed.
  bool is_suspect(uint64_t in_bytes) const { return missed_count_ > 0 && in_bytes == doubt_in_bytes_; }

 private:
  void forget_doubt();
  bool is_doubting() const { return doubt_from_us_ != kNever; }
  void judge_doubt(uint64_t now_us, const Seen& seen, Verdict& verdict);
  // When patience ends; kNever when nothing is awaited.
  uint64_t open_doubt_us(const Seen& seen) const;
  uint64_t ping_doubt_us(const Seen& seen) const;
  uint64_t probe_missed_us(const Seen& seen) const;
  void set_due(uint64_t now_us, const Seen& seen);

  SessionLife life_;
  uint64_t due_us_ = kNever;
  uint64_t heard_us_;                // silence counts from here
  uint64_t ping_due_us_ = kNever;    // of the next PING
  uint64_t silence_pinged_us_ = 0;   // last read at the time of the last silence ping
  uint64_t open_since_us_ = kNever;  // the oldest open with no byte behind it
  uint64_t ping_since_us_ = kNever;  // the same of PINGs
  uint64_t doubt_from_us_ = kNever;
  uint64_t open_in_bytes_ = 0;  // read by each of these times: one more byte is an answer
  uint64_t ping_in_bytes_ = 0;
  uint64_t doubt_in_bytes_ = 0;
  uint64_t probed_at_us_ = kNever;  // while doubting: kNever = probe at the next judgement
  uint64_t probed_out_bytes_ = 0;
  unsigned missed_count_ = 0;
};

}  // namespace tmesh::session
