// Notices that rights changed: the one poller of the authorisation revision.
//
// Whoever keeps decisions asks generation() when a decision is begun and again when it is
// used: a decision of an older generation must be made anew. The generation grows when a
// poll finds a larger revision, when this process itself committed a change, and when the
// revision is found inconsistent or consistent again (requirements D5 to D9). It is never 0.
// Polls are made one at a time, `poll_interval_us` after the last one ended, and at once
// after a local commit or a foreign one. Trouble and its end are logged. Loop thread only. No
// I/O of its own: it asks a RevisionSource.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/base/timers.hpp"

namespace tmesh::server {

class RevisionSource {
 public:
  virtual ~RevisionSource() = default;
  // Errors of storage::read_revision, and LIMIT. TMESH_E_INVALID: the number is missing or
  // no number, which is not a failed poll but an inconsistent database (D8).
  virtual Result<Ticket> read_revision(Delegate<void(Result<uint64_t>)> done) = 0;
  // Whether somebody committed since the last question, where asking is much cheaper than a
  // poll (SQLite's data_version); nullopt: cannot tell. Same errors.
  virtual Result<Ticket> has_foreign_commits(Delegate<void(Result<std::optional<bool>>)> done) = 0;
};

class RevisionListener {
 public:
  // The generation just grew.
  virtual void on_rights_moved(uint64_t generation) = 0;

 protected:
  ~RevisionListener() = default;
};

class RevisionWatch {
 public:
  struct Settings {
    uint64_t poll_interval_us = 2'000'000;
    // Between questions whether a foreign commit happened; 0: never asked. 500 ms for
    // SQLite, so that a change by the command line counts within a second.
    uint64_t foreign_commit_interval_us = 0;
    // A poll that takes longer has failed. Its answer is still awaited, so that questions to
    // a database that hangs do not pile up, and then only tells that rights moved. With the
    // interval it stays below the 5 s that allows live without a good poll.
    uint64_t poll_timeout_us = 2'000'000;
  };
  struct Stats {
    uint64_t polls_ok_count = 0;
    uint64_t polls_failed_count = 0;
    uint64_t inconsistent_count = 0;
  };

  RevisionWatch(Timers& timers, RevisionSource& source, Settings settings);
  ~RevisionWatch();
  RevisionWatch(const RevisionWatch&) = delete;
  RevisionWatch& operator=(const RevisionWatch&) = delete;

  // The first poll; until it succeeds is_consistent() is false (requirement D7).
  void start();
  // A change of rights was committed by this process: decisions made before count no more
  // from here on, before anybody is told that the change is done (D3). A poll follows that
  // is begun after this call.
  void note_local_commit();
  // Listeners outlive the watch, or remove themselves, also from within the call. None of
  // them destroys the watch.
  void add_listener(RevisionListener& listener);
  void remove_listener(RevisionListener& listener);

  uint64_t generation() const { return generation_; }
  // The revision was read and did not go back, go missing or overflow since (D7, D8).
  bool is_consistent() const { return is_consistent_; }
  // The last poll succeeded, the next one is not overdue (this program may have stood still),
  // and is_consistent(): what readiness reports.
  bool is_healthy() const {
    return is_consistent_ && is_last_poll_good_ &&
           timers_.now_us() - last_good_us_ <= settings_.poll_interval_us + 2 * settings_.poll_timeout_us;
  }
  // When the last good poll was begun; 0: never.
  uint64_t last_good_us() const { return last_good_us_; }
  // The highest revision seen; 0: none.
  uint64_t revision() const { return highest_; }
  const Stats& stats() const { return stats_; }

 private:
  void poll_now();
  void begin_poll();
  void on_poll(Result<uint64_t> read);
  void on_poll_timeout();
  void end_poll(Result<uint64_t> read);
  void judge(uint64_t revision);
  void note_inconsistent();
  void note_failed();
  void move_generation();
  void ask_foreign_later();
  void ask_foreign();
  void on_foreign(Result<std::optional<bool>> has_commits);

  Timers& timers_;
  RevisionSource& source_;
  const Settings settings_;
  uint64_t generation_ = 1;
  uint64_t highest_ = 0;
  uint64_t last_read_ = 0;  // differs from highest_ while the revision is too low
  uint64_t last_good_us_ = 0;
  bool is_consistent_ = false;
  bool is_last_poll_good_ = false;
  bool is_failure_told_ = false;  // in the log, once until all is well
  bool is_inconsistency_told_ = false;
  Stats stats_;

  bool is_polling_ = false;      // from the question until its answer was dealt with
  bool is_late_ = false;         // that poll was given up
  bool is_poll_wanted_ = false;  // as soon as that one ended
  uint64_t poll_begun_us_ = 0;
  Ticket poll_;
  Ticket poll_timer_;  // the poll's end while one is under way, else the next one's begin
  Ticket foreign_;     // the question, or the time until it

  std::vector<RevisionListener*> listeners_;  // null: removed while they are being told
  int telling_depth_ = 0;
};

}  // namespace tmesh::server
