// The dials of one agent link: bounded, cancellable, classified (requirements C1-C5).
//
// submit() is what the link's reader calls for an OPEN_STREAM: it decides at once
// whether there is room and does no I/O. A dial runs as soon as one of
// concurrent_max slots is free; up to pending_max wait in order. open_timeout counts
// from submit(), waiting included (LESSONS Z9). A dial that is older than kSlowAfterUs,
// or than kSlowWhenCrowdedUs while another one waits, moves to the slow class, which has
// slots of its own, and frees its slot: black-holed targets do not stop the link
// (requirement K6). A slot returns when the job ended:
// by its result, or by the cancel of its Dialer, which ends lookup and sockets at once.
//
// Cancelling is destruction of the Ticket. A peer that opens and cancels in a circle
// (rapid reset) would get unbounded work out of bounded slots; beyond kCancelsMax
// quick cancels in the window everything is refused with queue_full. What was given up
// after kQuickCancelUs has held its slot for so long, which bounds it.
//
// Owns the waiting and running dials, allocates one node each (at most concurrent_max
// + pending_max + slow_max). One thread; time comes from Timers. Outlives the
// Tickets it gave; its destructor cancels everything without a callback.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/proto/open_result.h"
#include "cpp/agent/policy.hpp"
#include "cpp/base/dial.hpp"
#include "cpp/base/timers.hpp"

namespace tmesh::agent {

// A connect that works takes a round trip and rarely a retransmission (1 s); what takes
// longer is likely to take its whole time.
inline constexpr uint64_t kSlowAfterUs = 1'000'000;
// When somebody waits for the slot, a connect gets what a lookup and a connect within one
// site take, and some. A slower one loses nothing: it goes on in the slow class.
inline constexpr uint64_t kSlowWhenCrowdedUs = 50'000;
// Eight times the fast slots: at 8 s each they absorb 32 dead targets per second.
inline constexpr std::size_t kSlowMax = 256;
// Ten seconds of history in steps of one.
inline constexpr std::size_t kCancelWindowSeconds = 10;
// The link carries the opens of all clients of a server, so this is not about one of them:
// the server refuses a client after 256 already. Some 400 lookups and connects in vain per
// second are a few percent of a core.
inline constexpr uint32_t kCancelsMax = 4096;
inline constexpr uint64_t kQuickCancelUs = 1'000'000;

struct DialSettings {
  std::size_t concurrent_max = 32;
  std::size_t pending_max = 128;
  uint64_t connect_timeout_us = 5'000'000;  // each connection attempt
  uint64_t open_timeout_us = 8'000'000;     // from submit() to the outcome
};

struct DialOutcome {
  tmesh_open_result result{};  // what OPEN_RESULT says; accepted exactly if fd >= 0
  int fd = -1;                 // connected, non-blocking; owned by the receiver
  uint64_t queue_us = 0;       // waited for a slot
  uint64_t dns_us = 0;
  uint64_t connect_us = 0;
};

struct DialCounts {
  uint64_t submitted = 0;
  uint64_t refused_full = 0;     // queue full
  uint64_t refused_cancels = 0;  // rapid reset guard
  uint64_t cancelled = 0;
  uint64_t moved_slow = 0;
};

class DialExecutor {
 public:
  using Done = Delegate<void(const DialOutcome&)>;

  // timers, dialer and policy outlive it.
  DialExecutor(Timers& timers, Dialer& dialer, const Policy& policy, const DialSettings& settings);
  ~DialExecutor();
  DialExecutor(const DialExecutor&) = delete;
  DialExecutor& operator=(const DialExecutor&) = delete;

  // Dials host:port, for a datagram stream a connected UDP socket (no waiting for anybody, but
  // the same lookup, policy and bounds); the host is copied. `done` exactly once unless the Ticket is
  // destroyed first, never from inside submit(); it may submit, destroy Tickets and
  // destroy the executor. LIMIT: no room or too many cancels; answer queue_full.
  Result<Ticket> submit(std::string_view host, uint16_t port, Done done, bool is_datagram = false);

  // Starts no waiting dial any more: the link is gone, and its Tickets go one by one.
  // What runs goes on until its Ticket goes.
  void stop() { is_stopped_ = true; }

  std::size_t pending_count() const { return pending_.size(); }
  std::size_t running_count() const { return fast_.size(); }  // holding one of concurrent_max
  std::size_t slow_count() const { return slow_.size(); }
  // How long the first in the queue has been waiting; 0 = nobody waits.
  uint64_t oldest_wait_us() const;
  const DialCounts& counts() const { return counts_; }

 private:
  struct Entry;
  using List = std::list<Entry>;

  struct Entry {
    DialExecutor* owner = nullptr;
    uint64_t id = 0;
    List* list = nullptr;  // the one it is in
    std::string host;
    uint16_t port = 0;
    bool is_datagram = false;
    Done done;
    uint64_t accepted_us = 0;
    uint64_t started_us = 0;
    Ticket dial;
    DialOutcome outcome;  // once ended

    bool permits(const IpAddress& address, bool is_name);
    void on_dialed(DialResult result);
  };

  static void cancel(void* owner, uint64_t id);
  void move(Entry& entry, List& to);
  void remove(Entry& entry);
  void start(Entry& entry, uint64_t now_us);
  void end(Entry& entry, const tmesh_open_result& result);
  uint64_t slow_after_us() const {
    return pending_.empty() || is_stopped_ ? kSlowAfterUs : kSlowWhenCrowdedUs;
  }
  void free_slots(uint64_t now_us);
  void pump(uint64_t now_us);
  void advance();
  void arm(uint64_t now_us);
  void deliver();
  void deliver_later();
  void note_cancel(uint64_t now_us);
  uint32_t recent_cancels(uint64_t now_us);
  void forget_old_cancels(uint64_t now_us);

  Timers& timers_;
  Dialer& dialer_;
  const Policy& policy_;
  const DialSettings settings_;
  List pending_;  // in order of acceptance, hence of deadline
  List fast_;     // in order of start
  List slow_;
  List ended_;  // outcome known, not delivered
  std::unordered_map<uint64_t, List::iterator> by_id_;
  uint64_t next_id_ = 1;
  Ticket timer_;          // next deadline of a waiting one, next move to the slow class
  Ticket delivery_;       // while ended_ is not empty
  bool* gone_ = nullptr;  // while deliver() runs: tells it that the executor was destroyed
  std::array<uint32_t, kCancelWindowSeconds> cancels_{};  // per second, a ring
  uint64_t cancel_second_ = 0;                            // of the newest entry of the ring
  DialCounts counts_;
  bool is_stopped_ = false;
};

}  // namespace tmesh::agent
