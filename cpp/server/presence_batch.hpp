// What one server tells the database about its agents in one go, and the writing of it.
//
// Plain values: made on the loop, written on a database thread. The four parts are
// transactions of their own, so that a failure of one says nothing about the others
// (LESSONS R16). Blocking; owns nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/presence_records.hpp"

namespace tmesh::server {

// How long a lease lasts without being renewed: three ticks of AgentPresence.
inline constexpr int64_t kLeaseLife_us = 30'000'000;
// Reports are touched every third tick; servers say that they live as deployed ones do.
inline constexpr int64_t kReportLife_us = 90'000'000;
inline constexpr int64_t kNodeLife_us = 90'000'000;
// Clocks of servers differ, and nobody may remove what another one still renews.
inline constexpr int64_t kLeaseGrace_us = 300'000'000;
// Reports of processes that left, for people who ask what was there.
inline constexpr int64_t kReportKept_us = 7 * 86'400'000'000;
// Rows per sweep: its transaction holds locks that others wait for.
inline constexpr int kSweepRows = 256;

// This server, as its row says.
struct ThisNode {
  std::string id;
  std::string address;
  int64_t epoch = 0;
};

enum class NodeStanding : uint8_t {
  serving,
  disabled,
  deleted,
  replaced,  // another server began a life under the same id
};
const char* node_standing_name(NodeStanding standing);

struct PresenceBatch {
  struct Lease {
    storage::LeaseRecord row;  // expiry and times of the row are filled in when it is written
    bool is_known = false;     // it was written before: renew it
    bool has_new_load = false;
  };
  struct Departure {
    storage::MetadataKey key;
    bool is_unreported = false;  // it said nothing: no row stays
  };

  ThisNode node;
  bool beats = false;
  std::vector<storage::LeaseKey> releases;
  std::vector<Lease> leases;
  std::vector<Departure> departures;
  std::vector<storage::MetadataRecord> reports;
  std::vector<storage::MetadataKey> touches;
  bool sweeps = false;
  bool leaves = false;  // the last one: nothing of this life stays

  bool is_empty() const {
    return !beats && !sweeps && !leaves && releases.empty() && leases.empty() && departures.empty() &&
           reports.empty() && touches.empty();
  }
};

struct PresenceOutcome {
  Result<void> node;
  NodeStanding standing = NodeStanding::serving;  // where `node` is good and the batch beats
  Result<void> leases;
  std::vector<std::size_t> held;           // of PresenceBatch::leases: another server's, or unfit
  std::size_t registered_again_count = 0;  // renewals that found no row
  Result<void> metadata;
  std::vector<std::size_t> missing;   // of touches: there is no such row
  std::vector<std::size_t> outdated;  // of reports: the row holds a newer one, or unfit
  Result<void> sweep;
  bool has_more_to_sweep = false;
};

PresenceOutcome write_presence(storage::Db& db, const PresenceBatch& batch, int64_t now_us);

// The start of this server's life, before its loop runs: its row, and no lease of an earlier
// life. TMESH_E_POLICY: it is disabled or deleted (`text` says which); else as db.hpp.
Result<ThisNode> announce_node(storage::Db& db, const std::string& id, const std::string& address,
                               int64_t now_us);

}  // namespace tmesh::server
