// Ends what is already running when it is no longer allowed: streams, and the links whose
// token they rest on.
//
// What was allowed once rests on a grant. When rights move (RevisionWatch), every distinct
// grant in use is decided anew through the authorizer, however many streams rest on it, and
// those with a definite no are reset. A grant of an older generation than the present one is
// decided anew as soon as something rests on it, so that nothing slips through between its
// decision and here. A grant ends by itself with its token, whatever the database says.
//
// Off the hot path: at most checks_max decisions are in flight, a round begins kRoundGap_us
// after the one before it at the earliest, and kResetsPerTurn things end per turn of the
// loop. Trouble with the database says nothing about rights, so it ends nothing: what could
// not be decided is asked again every kRetry_us, one at a time until an answer comes.
// A yes from before rights moved once more counts as not decided. A no counts at once,
// unless the same was allowed at a later generation than it: changes without end must not
// keep alive what was taken away by the first of them.
//
// Owns the decisions in flight, not what rests on them. Per watched object 32 bytes inside of
// it, per distinct grant about 400. Loop thread only; outlives what it watches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <tuple>

#include "cpp/base/timers.hpp"
#include "cpp/server/revision_watch.hpp"
#include "cpp/server/stream_authorizer.hpp"

namespace tmesh::server {

// Something that ends with its grant. Embedded in its owner by inheritance, at one address.
class Revocable {
 public:
  Revocable() = default;
  Revocable(const Revocable&) = delete;
  Revocable& operator=(const Revocable&) = delete;
  virtual ~Revocable();

 protected:
  // It is no longer allowed, and no longer watched. May destroy itself.
  virtual void on_revoked() = 0;

 private:
  friend class LiveRevocation;
  struct RevocableGroup* group_ = nullptr;  // nullptr: not watched
  Revocable* previous_ = nullptr;
  Revocable* next_ = nullptr;
};

class LiveRevocation final : public RevisionListener {
 public:
  // A quarter of a batch (BatchQueue): opens that come meanwhile wait for a few
  // milliseconds of decisions at most.
  static constexpr std::size_t kChecksMax = 64;
  // An administrator's script makes hundreds of changes per second; each round decides all.
  static constexpr uint64_t kRoundGap_us = 250'000;
  static constexpr uint64_t kRetry_us = 1'000'000;
  // How long after its token's expiry something may still run, beside what a turn takes.
  static constexpr uint64_t kExpiryTick_us = 1'000'000;
  // Grants looked at in one turn of the loop, when none of them has to be asked about.
  static constexpr std::size_t kLooksPerTurn = 1024;
  // A reset is some microseconds and an agent's user may hold 16,384 streams.
  static constexpr std::size_t kResetsPerTurn = 256;

  struct Settings {
    const char* event = "streams_rechecked";  // the log line of a round
    std::size_t checks_max = kChecksMax;
  };
  struct Stats {
    uint64_t rounds_count = 0;
    uint64_t rechecked_count = 0;  // grants decided anew, yes or no
    uint64_t refused_count = 0;    // of those
    uint64_t expired_count = 0;    // grants that ended with their token
    uint64_t failed_count = 0;     // decisions that the database could not make
    uint64_t reset_count = 0;      // streams, or links
  };

  // generation: RevisionWatch::generation() now. Neither is owned; the caller makes this a
  // listener of the watch.
  LiveRevocation(Timers& timers, StreamAuthorizer& authorizer, uint64_t generation, Settings settings);
  ~LiveRevocation();
  LiveRevocation(const LiveRevocation&) = delete;
  LiveRevocation& operator=(const LiveRevocation&) = delete;

  // From here on `object` ends with this grant. Not watched before; calls nothing.
  void watch(Revocable& object, const Grant& grant);
  void on_rights_moved(uint64_t generation) override;

  std::size_t grants_count() const { return groups_.size(); }
  const Stats& stats() const { return stats_; }

 private:
  friend class Revocable;
  friend struct RevocableGroup;
  using Group = RevocableGroup;
  struct Less {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return key_of(a) < key_of(b);
    }
    // What differs most first.
    static auto key_of(const StreamRequest& r) {
      return std::tie(r.host, r.port, r.agent_id, r.token_id, r.protocol);
    }
    static auto key_of(const Grant& g) {
      return std::tie(g.target.host, g.target.port, g.agent_id, g.token_id, g.target.protocol);
    }
  };
  using Groups = std::map<StreamRequest, RevocableGroup, Less>;
  using Expiries = std::multimap<int64_t, RevocableGroup*>;

  static void leave(Revocable& object);
  static void unlink(Revocable& object);
  void take_out(Group& group);
  void set_expiry(Group& group, std::optional<int64_t> at_us);
  void want_round();
  void arm(uint64_t delay_us);
  void on_due();
  void check_more();
  void check(Group& group);
  void on_checked(Group& group, const Result<Grant>& answer);
  void take_answer(Group& group, const Result<Grant>& answer);
  void on_trouble();
  void end_round();
  void refuse(Group& group);
  void on_reset_due();
  void on_expiry_tick();
  void tell();

  Timers& timers_;
  StreamAuthorizer& authorizer_;
  const Settings settings_;
  uint64_t generation_;
  Stats stats_;
  Stats told_;  // what the log knows
  Expiries expiries_;
  Groups groups_;
  std::list<Groups::node_type> refused_;  // out of groups_; what rests on them is being ended
  Groups::iterator next_;                 // whom the round looks at next; a round ends where it began
  std::size_t to_look_at_ = 0;            // in this round
  std::size_t in_flight_ = 0;
  bool is_round_on_ = false;
  bool is_round_wanted_ = false;  // another one
  bool is_troubled_ = false;      // the last answer was none
  bool is_trouble_told_ = false;  // in the log
  uint64_t earliest_round_us_ = 0;
  Ticket due_;  // of the next round, or of its next step
  Ticket reset_;
  Ticket expiry_;
};

}  // namespace tmesh::server
