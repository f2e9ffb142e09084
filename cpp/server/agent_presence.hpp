// Who is connected to this server, told to the database so that other servers and people
// see it: a lease per agent link, the last report of each agent process, this server's row.
//
// Every kTick_us all leases are renewed and every third tick all reports touched, some
// hundreds per write; what comes and goes between is written at once. One write is under way
// at a time, so that what is said later is written later. Presence never touches a link:
// while the database is away, everything waits for the next tick, and what was lost is
// registered again from what is here, with the epochs that are here (LESSONS R16).
// Memory: what the links hold, at most kReportsMax_bytes of reports, and kGoneMax departures
// that were not written yet; what is beyond is left to expire in the database, and counted.
// Loop thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "cpp/base/delegate.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/server/agent_registry.hpp"
#include "cpp/server/agent_report.hpp"
#include "cpp/server/presence_batch.hpp"

namespace tmesh::server {

// The database, as presence sees it.
class PresenceWriter {
 public:
  // `done` runs from the loop, never inside this call. An error: nothing was begun.
  virtual Result<Ticket> write_presence(PresenceBatch batch, Delegate<void(PresenceOutcome)> done) = 0;

 protected:
  ~PresenceWriter() = default;
};

class AgentPresence {
 public:
  static constexpr uint64_t kTick_us = 10'000'000;
  static constexpr uint64_t kTouchTicks = 3;
  static constexpr uint64_t kSweepTicks = 6;
  // Of one write: it ends well within a tick at 5 ms per statement.
  static constexpr std::size_t kLeasesPerWrite = 512;
  // Of those, the ones that take a statement of their own: leases that are new, and links
  // whose load changed (which can also wait for a later tick).
  static constexpr std::size_t kNewPerWrite = 128;
  static constexpr std::size_t kLoadsPerWrite = 64;
  static constexpr std::size_t kReportsPerWrite = 64;
  static constexpr std::size_t kTouchesPerWrite = 512;
  static constexpr std::size_t kGonePerWrite = 256;
  static constexpr std::size_t kGoneMax = 4096;
  // Two thousand of the largest reports; usual ones have a few hundred bytes.
  static constexpr std::size_t kReportsMax_bytes = 64U << 20;

  struct Stats {
    uint64_t writes_count = 0;
    uint64_t node_failed_count = 0;
    uint64_t leases_failed_count = 0;
    uint64_t metadata_failed_count = 0;
    uint64_t registered_again_count = 0;
    uint64_t held_elsewhere_count = 0;
    uint64_t dropped_count = 0;
  };

  // `on_standing` runs when what the database says of this server changed.
  AgentPresence(Timers& timers, PresenceWriter& writer, ThisNode node,
                Delegate<void(NodeStanding)> on_standing);
  ~AgentPresence() = default;
  AgentPresence(const AgentPresence&) = delete;
  AgentPresence& operator=(const AgentPresence&) = delete;

  void start();
  // A link registered with this report, which names its process; ids and epoch of the link
  // stay until remove(). A link that it replaced may still be removed later.
  void add(RegisteredLink& link, AgentReport report);
  // It reported again. Harmless if the link is not known.
  void report(const RegisteredLink& link, AgentReport report);
  // It is over. Harmless if it is not known.
  void remove(const RegisteredLink& link);
  // The server stops: its leases end now. `done` runs once that is written, or failed.
  void leave(Delegate<void()> done);

  const ThisNode& node() const { return node_; }
  NodeStanding standing() const { return standing_; }
  const Stats& stats() const { return stats_; }
  std::size_t leases_count() const { return leases_.size(); }
  std::size_t reports_count() const { return processes_.size(); }

 private:
  using Key = std::pair<std::string, std::string>;  // agent and connection, or agent and process

  struct Lease {
    const RegisteredLink* link = nullptr;
    std::string node_id;
    std::string instance_id;
    bool is_known = false;  // to the database
    int64_t written_streams_count = -1;
    int64_t written_health = -1;
  };
  struct Process {
    Process() { report.row.metadata.clear(); }  // what it holds is counted

    std::size_t links_count = 0;
    AgentReport report;
    bool is_known = false;
  };
  struct Departure {
    int64_t epoch = 0;
    int64_t revision = 0;
    bool is_unreported = false;
  };
  // A walk over a map that changes under way.
  struct Round {
    bool is_on = false;
    Key after;
  };

  void on_tick();
  void flush();
  void on_written(PresenceOutcome written);
  void keep_report(const Key& key, Process& process, AgentReport report);
  void leave_process(const Key& key);
  void take_releases(PresenceBatch& batch);
  void take_leases(PresenceBatch& batch);
  bool take_lease(PresenceBatch& batch, const Key& key, const Lease& lease, std::size_t& singles_count);
  void take_metadata(PresenceBatch& batch);
  void leases_written(const PresenceBatch& batch, const PresenceOutcome& outcome);
  void metadata_written(const PresenceBatch& batch, const PresenceOutcome& outcome);
  void node_written(const PresenceBatch& batch, const PresenceOutcome& outcome);
  enum Part : uint8_t { node_part, leases_part, metadata_part, sweep_part, parts_count };
  // Says once that a part fails and once that it works again.
  void tell(Part part, const Result<void>& done);

  Timers& timers_;
  PresenceWriter& writer_;
  const ThisNode node_;
  const Delegate<void(NodeStanding)> on_standing_;
  NodeStanding standing_ = NodeStanding::serving;
  Stats stats_;

  std::map<Key, Lease> leases_;
  std::map<Key, Process> processes_;
  std::size_t reports_bytes_ = 0;
  std::deque<Key> new_leases_;  // beside the round; each was in `leases_` when it was added
  std::deque<Key> new_reports_;
  std::map<Key, int64_t> released_;  // connection epochs; until it is written
  std::map<Key, Departure> departed_;

  Round renewing_;
  Round reporting_;
  bool is_touching_ = false;  // the round of reports touches those that are known
  bool is_beat_due_ = false;
  bool is_sweep_due_ = false;
  // Parts that failed rest until the next tick.
  bool are_leases_resting_ = false;
  bool is_metadata_resting_ = false;
  uint64_t ticks_count_ = 0;

  bool is_leaving_ = false;
  bool has_left_ = false;
  Delegate<void()> on_left_;
  std::array<bool, parts_count> is_failing_{};
  PresenceBatch in_flight_;
  Ticket write_;
  Ticket tick_;
};

}  // namespace tmesh::server
