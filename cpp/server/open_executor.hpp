// Admission of opens (requirements C7, C8): how many run, how many wait, who is next.
//
// At most concurrent_max jobs run, per link at most per_link_max; at most pending_max
// wait, per link half of that. Waiting jobs start round-robin over tokens, and within
// a token over its links, so that one client's flood delays another's single open by
// one turn. Nothing runs inside submit(): jobs start from the loop. One thread;
// allocates per waiting job.
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

struct OpenLinkQueue {
  std::string token_id;
  std::size_t running_count = 0;
  std::list<OpenJob*> waiting;
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

  std::size_t running_count() const { return running_count_; }
  std::size_t waiting_count() const { return waiting_count_; }
  // Links and tokens that have a job here; what is kept about others is nothing.
  std::size_t links_count() const { return links_.size(); }
  std::size_t tokens_count() const { return tokens_.size(); }
  const Stats& stats() const { return stats_; }

 private:
  friend class OpenJob;
  using Links = std::map<uint64_t, OpenLinkQueue>;

  // Per token: its links that have waiting jobs and room to run one, in turn.
  struct TokenTurn {
    std::list<uint64_t> links;
  };

  void wake();
  void run_waiting();
  bool start_next();
  void release(OpenJob& job);
  void drop_link_if_idle(Links::iterator link);

  Timers& timers_;
  const Limits limits_;
  Stats stats_;
  Links links_;
  std::list<std::string> token_ring_;        // tokens with waiting jobs, next first
  std::map<std::string, TokenTurn> tokens_;  // of the ring
  std::size_t running_count_ = 0;
  std::size_t waiting_count_ = 0;
  Ticket wake_;
};

}  // namespace tmesh::server
