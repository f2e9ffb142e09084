// Admission of opens (requirements C7, C8): how many run, how many wait, who is next.
//
// At most concurrent_max jobs run, per link at most per_link_max; at most pending_max
// wait, per link half of that. The last eighth of both is for tokens that hardly run or wait
// for anything, so that a token with many links cannot have all others refused, or hold
// every slot with dials of dead targets. Waiting jobs start round-robin over tokens, and
// within a token over its links, so that one client's flood delays another's single open
// by one turn. Only links that can start something take part in the turns, so a step costs
// the same however many links wait at their limit. Nothing runs inside submit(): jobs
// start from the loop. One thread; allocates per waiting job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "cpp/base/timers.hpp"

namespace tmesh::server {

class OpenExecutor;

// An open that wants to run. Embedded in its owner, at one address; the executor
// outlives it. Its destruction takes it out of the queue, or gives its slot back.
class OpenJob {
 public:
  OpenJob() = default;
  OpenJob(const OpenJob&) = delete;
  OpenJob& operator=(const OpenJob&) = delete;
  virtual ~OpenJob() { finish(); }

  // The underlying work ended: the slot goes to the next. Idempotent. A job whose owner
  // went away while its work still runs must stay until that ended.
  void finish();
  bool is_running() const { return state_ == State::running; }

 protected:
  virtual void on_run() = 0;

 private:
  friend class OpenExecutor;
  enum class State : uint8_t { idle, waiting, running };
  OpenExecutor* executor_ = nullptr;
  State state_ = State::idle;
  std::map<uint64_t, struct OpenLinkQueue>::iterator link_;
  std::list<OpenJob*>::iterator place_;
};

struct OpenLinkQueue;

struct OpenToken {
  std::size_t links_count = 0;            // of those that have a job
  std::size_t waiting_count = 0;          // jobs on all of them
  std::size_t running_count = 0;          // the same
  std::list<OpenLinkQueue*> turns;        // its links that can start one, next first
  std::list<OpenToken*>::iterator place;  // in the ring, while there are turns
};

struct OpenLinkQueue {
  std::map<std::string, OpenToken, std::less<>>::iterator token;
  std::size_t running_count = 0;
  std::list<OpenJob*> waiting;
  std::list<OpenLinkQueue*>::iterator turn;  // while is_in_turn
  bool is_in_turn = false;                   // something waits and there is room to run it
};

class OpenExecutor {
 public:
  struct Limits {
    std::size_t concurrent_max = 256;
    std::size_t pending_max = 1024;
    std::size_t per_link_max = 128;
  };
  struct Stats {
    uint64_t started_count = 0;
    uint64_t refused_count = 0;
  };

  OpenExecutor(Timers& timers, const Limits& limits) : timers_(timers), limits_(limits) {}

  // False: full (queue_full). link_id identifies the client link.
  bool submit(OpenJob& job, std::string_view token_id, uint64_t link_id);

  // From now on. What waits above a lower limit goes on waiting.
  void use(const Limits& limits);

  std::size_t running_count() const { return running_count_; }
  std::size_t waiting_count() const { return waiting_count_; }
  // Links and tokens that have a job here; what is kept about others is nothing.
  std::size_t links_count() const { return links_.size(); }
  std::size_t tokens_count() const { return tokens_.size(); }
  const Stats& stats() const { return stats_; }

 private:
  friend class OpenJob;
  using Links = std::map<uint64_t, OpenLinkQueue>;

  bool has_room(const OpenLinkQueue& queue) const;
  std::list<OpenToken*>::iterator next_turn();
  void wake();
  void run_waiting();
  bool start_next();
  void release(OpenJob& job);
  void update_turn(OpenLinkQueue& queue);
  void drop_link_if_idle(Links::iterator link);

  Timers& timers_;
  Limits limits_;
  Stats stats_;
  Links links_;
  std::map<std::string, OpenToken, std::less<>> tokens_;
  std::list<OpenToken*> ring_;  // tokens that can start something, next first
  std::size_t running_count_ = 0;
  std::size_t waiting_count_ = 0;
  Ticket wake_;
};

}  // namespace tmesh::server
