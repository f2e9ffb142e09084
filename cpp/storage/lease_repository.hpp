// Table `agent_connection_leases`: which server holds which link of which agent.
//
// A row is fenced by its connection epoch: whoever holds an older life of a link can
// neither renew nor remove the row of a newer one. `now` and expiry are timestamp texts,
// and compare as texts, so an expiry may count up to a second early (LESSONS Z11). None of
// these changes rights: no step of the revision. Epochs are 64 bits wide; where an older
// MySQL database has 32-bit columns a larger one is TMESH_E_INVALID, never cut. Errors are
// those of db.hpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/storage/db.hpp"
#include "cpp/storage/presence_records.hpp"

namespace tmesh::storage {

// What a server carries for agents now.
struct LeaseTotals {
  std::string server_node_id;
  int64_t connections_count = 0;
  int64_t streams_count = 0;
  int64_t health_score = 100;  // the lowest
};

class LeaseRepository {
 public:
  // Leases of one agent that are read at a time: 64 links on each of several servers.
  static constexpr int of_agent_max = 1024;
  // Keys of one statement of renew(), which is prepared once for this number.
  static constexpr std::size_t renew_max = 64;
  // Agents or nodes asked about in one query: a page of a list.
  static constexpr std::size_t ids_max = 500;

  explicit LeaseRepository(Db& db) : db_(db) {}

  // By connection id; expired ones too. Beyond of_agent_max the others are left out.
  Result<std::vector<LeaseRecord>> of_agent(std::string_view agent_id);
  // Those of `agent_ids` (at most ids_max) that have a lease which has not expired; sorted.
  // One query. TMESH_E_TOO_LARGE.
  Result<std::vector<std::string>> online(std::span<const std::string> agent_ids, std::string_view now);
  // By server; those without a lease are left out. At most ids_max. TMESH_E_TOO_LARGE.
  Result<std::vector<LeaseTotals>> totals(std::span<const std::string> server_node_ids, std::string_view now);

  // Inserts the row, or takes it over from an older epoch, from an earlier life on the same
  // server (whose own registry decides there), or from a holder that let it expire. False:
  // another server holds an equal or newer life of this link; nothing changed.
  static Result<bool> acquire(Transaction& tx, const LeaseRecord& lease, std::string_view now);
  // Moves the expiry of at most renew_max leases of this server; gives how many rows
  // matched agent, connection, server and connection epoch. TMESH_E_TOO_LARGE.
  static Result<std::size_t> renew(Transaction& tx, std::span<const LeaseKey> keys,
                                   std::string_view server_node_id, std::string_view expires_at,
                                   std::string_view now);
  // Also what the link carries. False: no such row any more.
  static Result<bool> renew_with_load(Transaction& tx, const LeaseRecord& lease, std::string_view now);
  // False: there was no such row, or it belongs to another server or a newer life.
  static Result<bool> release(Transaction& tx, const LeaseKey& key, std::string_view server_node_id);
  // Removes at most `limit` leases that a server took before it began its life `epoch`
  // (INT64_MAX: all of it); gives how many.
  static Result<std::size_t> remove_of_node(Transaction& tx, std::string_view server_node_id, int64_t epoch,
                                            int limit);
  // Removes at most `limit` leases that expired at `before` or earlier; gives how many.
  static Result<std::size_t> remove_expired(Transaction& tx, std::string_view before, int limit);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
