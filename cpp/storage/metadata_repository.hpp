// Table `agent_instance_metadata`: what each process of an agent said about itself last.
//
// Whether somebody is connected is a matter of leases; here stands how fresh the report is,
// and the two are never mixed (LESSONS R17). Timestamps compare as in lease_repository.hpp.
// None of these changes rights: no step of the revision. Errors are those of db.hpp.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "cpp/storage/db.hpp"
#include "cpp/storage/presence_records.hpp"

namespace tmesh::storage {

class MetadataRepository {
 public:
  static constexpr int of_agent_max = 256;  // processes of one agent that are read at a time
  // Keys of one statement of touch(), which is prepared once for this number.
  static constexpr std::size_t touch_max = 64;

  explicit MetadataRepository(Db& db) : db_(db) {}

  // The one reported last first; stale ones too. Beyond of_agent_max the others are left out.
  Result<std::vector<MetadataRecord>> of_agent(std::string_view agent_id);

  // Inserts or replaces; the row is fresh afterwards. False, and nothing changed: the row
  // holds a newer report, which is one that is fresh, and neither older by epoch and
  // revision nor by its time of report. (A process that starts again counts from one again,
  // so its time decides; a clock that was set back does not stop a later revision.)
  static Result<bool> upsert(Transaction& tx, const MetadataRecord& report, std::string_view now);
  // Their processes are still there: moves last_seen_at and the expiry of at most touch_max
  // rows, and rows that were swept too early are fresh again; gives how many rows matched
  // agent, process, epoch and revision. TMESH_E_TOO_LARGE.
  static Result<std::size_t> touch(Transaction& tx, std::span<const MetadataKey> keys,
                                   std::string_view expires_at, std::string_view now);
  // Its process left: the report stays as the last known one. Not while another server holds
  // a lease of the process. False: nothing to do.
  static Result<bool> mark_stale(Transaction& tx, const MetadataKey& key, std::string_view now);
  // Removes the row under the same conditions: for a process that reported nothing.
  static Result<bool> remove(Transaction& tx, const MetadataKey& key, std::string_view now);

  struct Swept {
    std::size_t marked_count = 0;
    std::size_t removed_count = 0;
  };
  // Marks what expired at `now` or before as stale, and removes stale rows that were last
  // changed before `kept_since`, or whose agent does not exist; at most `limit` of each.
  static Result<Swept> sweep(Transaction& tx, std::string_view now, std::string_view kept_since, int limit);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
