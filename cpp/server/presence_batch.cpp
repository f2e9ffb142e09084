#include "cpp/server/presence_batch.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "cpp/storage/change.hpp"
#include "cpp/storage/lease_repository.hpp"
#include "cpp/storage/metadata_repository.hpp"
#include "cpp/storage/node_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

using storage::format_timestamp;
using storage::LeaseRepository;
using storage::MetadataRepository;
using storage::NodeRepository;
using storage::Transaction;
using Leases = std::vector<PresenceBatch::Lease>;

NodeStanding standing_of(const storage::NodeRecord& node) {
  if (!node.deleted_at.empty()) return NodeStanding::deleted;
  return node.is_enabled ? NodeStanding::serving : NodeStanding::disabled;
}

// What an agent said can be more than a column takes (an epoch, in an old database); that
// must not keep the others from being written.
bool is_about_the_row(const Error& error) {
  return error.code == TMESH_E_INVALID || error.code == TMESH_E_TOO_LARGE;
}

class Writer {
 public:
  Writer(storage::Db& db, const PresenceBatch& batch, int64_t now_us)
      : db_(db), batch_(batch), now_us_(now_us), now_(format_timestamp(now_us)) {}

  PresenceOutcome run() {
    if (batch_.beats || batch_.leaves) outcome_.node = write_node();
    if (!batch_.releases.empty() || !batch_.leases.empty() || batch_.leaves) outcome_.leases = write_leases();
    if (!batch_.departures.empty() || !batch_.reports.empty() || !batch_.touches.empty()) {
      outcome_.metadata = write_metadata();
    }
    if (batch_.sweeps) outcome_.sweep = sweep();
    return std::move(outcome_);
  }

 private:
  std::string in(int64_t us) const { return format_timestamp(now_us_ + us); }

  Result<void> write_node() {
    Result<NodeStanding> standing = storage::change(db_, [this](Transaction& tx) { return beat(tx); });
    if (!standing) return std::unexpected(standing.error());
    outcome_.standing = *standing;
    return {};
  }
  Result<NodeStanding> beat(Transaction& tx) {
    const ThisNode& self = batch_.node;
    const std::string expires_at = batch_.leaves ? now_ : in(kNodeLife_us);
    Result<bool> is_ours = NodeRepository::heartbeat(tx, self.id, self.epoch, expires_at, now_);
    if (!is_ours) return std::unexpected(is_ours.error());
    Result<std::optional<storage::NodeRecord>> found = NodeRepository(db_).find(self.id);
    if (!found) return std::unexpected(found.error());
    if (const storage::NodeRecord* row = storage::row_of(*found)) {
      return *is_ours ? standing_of(*row) : NodeStanding::replaced;
    }
    // Somebody removed the row: it comes back with the epoch that this life has.
    storage::NodeRecord node{self.id, self.id, self.address, self.epoch, "{}", true,
                             "",      now_,    expires_at,   now_,       now_};
    if (Result<void> done = NodeRepository::restore_row(tx, node); !done)
      return std::unexpected(done.error());
    return NodeStanding::serving;
  }

  Result<void> write_leases() {
    struct Written {
      std::vector<std::size_t> held;
      std::size_t again_count = 0;
    };
    Result<Written> done = storage::change(db_, [this](Transaction& tx) -> Result<Written> {
      Written written;
      for (const storage::LeaseKey& key : batch_.releases) {
        Result<bool> released = LeaseRepository::release(tx, key, batch_.node.id);
        if (!released) return std::unexpected(released.error());
      }
      if (batch_.leaves) {
        // A life that ends has few rows left; what is beyond the limit expires.
        Result<std::size_t> removed =
            LeaseRepository::remove_of_node(tx, batch_.node.id, batch_.node.epoch + 1, kLeavingRows);
        if (!removed) return std::unexpected(removed.error());
      }
      if (Result<void> renewed = renew(tx, written.held, written.again_count); !renewed)
        return std::unexpected(renewed.error());
      return written;
    });
    if (!done) return std::unexpected(done.error());
    outcome_.held = std::move(done->held);
    outcome_.registered_again_count = done->again_count;
    return {};
  }
  // Known leases whose load did not change are renewed many at a time; when rows are missing
  // the same ones are looked at one by one.
  Result<void> renew(Transaction& tx, std::vector<std::size_t>& held, std::size_t& again_count) {
    std::vector<std::size_t> plain;
    for (std::size_t i = 0; i < batch_.leases.size(); ++i) {
      const PresenceBatch::Lease& lease = batch_.leases[i];
      if (lease.is_known && !lease.has_new_load) {
        plain.push_back(i);
        continue;
      }
      if (Result<void> done = renew_one(tx, i, held, again_count); !done) return done;
    }
    for (std::size_t at = 0; at < plain.size(); at += LeaseRepository::renew_max) {
      const std::span<const std::size_t> part =
          std::span(plain).subspan(at, std::min(LeaseRepository::renew_max, plain.size() - at));
      std::vector<storage::LeaseKey> keys;
      for (const std::size_t i : part) {
        const storage::LeaseRecord& row = batch_.leases[i].row;
        keys.push_back({row.agent_id, row.connection_id, row.connection_epoch});
      }
      Result<std::size_t> matched = LeaseRepository::renew(tx, keys, batch_.node.id, in(kLeaseLife_us), now_);
      if (!matched) return std::unexpected(matched.error());
      if (*matched == keys.size()) continue;
      for (const std::size_t i : part) {
        if (Result<void> done = renew_one(tx, i, held, again_count); !done) return done;
      }
    }
    return {};
  }
  Result<void> renew_one(Transaction& tx, std::size_t index, std::vector<std::size_t>& held,
                         std::size_t& again_count) {
    const PresenceBatch::Lease& lease = batch_.leases[index];
    storage::LeaseRecord row = lease.row;
    row.expires_at = in(kLeaseLife_us);
    if (lease.is_known) {
      Result<bool> renewed = LeaseRepository::renew_with_load(tx, row, now_);
      if (!renewed) return std::unexpected(renewed.error());
      if (*renewed) return {};
      again_count++;
    }
    if (row.acquired_at.empty()) row.acquired_at = now_;
    Result<bool> acquired = LeaseRepository::acquire(tx, row, now_);
    if (!acquired && is_about_the_row(acquired.error())) acquired = false;
    if (!acquired) return std::unexpected(acquired.error());
    if (!*acquired) held.push_back(index);
    return {};
  }

  Result<void> write_metadata() {
    struct Written {
      std::vector<std::size_t> missing, outdated;
    };
    Result<Written> done = storage::change(db_, [this](Transaction& tx) -> Result<Written> {
      Written written;
      for (const PresenceBatch::Departure& gone : batch_.departures) {
        Result<bool> left = gone.is_unreported ? MetadataRepository::remove(tx, gone.key, now_)
                                               : MetadataRepository::mark_stale(tx, gone.key, now_);
        if (!left) return std::unexpected(left.error());
      }
      const std::string expires_at = in(kReportLife_us);
      for (std::size_t i = 0; i < batch_.reports.size(); ++i) {
        storage::MetadataRecord report = batch_.reports[i];
        report.expires_at = expires_at;
        Result<bool> kept = MetadataRepository::upsert(tx, report, now_);
        if (!kept && is_about_the_row(kept.error())) kept = false;
        if (!kept) return std::unexpected(kept.error());
        if (!*kept) written.outdated.push_back(i);
      }
      if (Result<void> touched = touch(tx, expires_at, written.missing); !touched)
        return std::unexpected(touched.error());
      return written;
    });
    if (!done) return std::unexpected(done.error());
    outcome_.missing = std::move(done->missing);
    outcome_.outdated = std::move(done->outdated);
    return {};
  }

  // Many at a time; where rows are missing, the same ones one by one.
  Result<void> touch(Transaction& tx, const std::string& expires_at, std::vector<std::size_t>& missing) {
    const std::span<const storage::MetadataKey> all(batch_.touches);
    for (std::size_t at = 0; at < all.size(); at += MetadataRepository::touch_max) {
      const auto part = all.subspan(at, std::min(MetadataRepository::touch_max, all.size() - at));
      Result<std::size_t> matched = MetadataRepository::touch(tx, part, expires_at, now_);
      if (!matched) return std::unexpected(matched.error());
      for (std::size_t i = 0; *matched < part.size() && i < part.size(); ++i) {
        Result<std::size_t> one = MetadataRepository::touch(tx, part.subspan(i, 1), expires_at, now_);
        if (!one) return std::unexpected(one.error());
        if (*one == 0) missing.push_back(at + i);
      }
    }
    return {};
  }

  Result<void> sweep() {
    Result<bool> more = storage::change(db_, [this](Transaction& tx) -> Result<bool> {
      Result<std::size_t> expired = LeaseRepository::remove_expired(tx, in(-kLeaseGrace_us), kSweepRows);
      if (!expired) return std::unexpected(expired.error());
      Result<MetadataRepository::Swept> swept =
          MetadataRepository::sweep(tx, now_, in(-kReportKept_us), kSweepRows);
      if (!swept) return std::unexpected(swept.error());
      const std::size_t most = std::max({*expired, swept->marked_count, swept->removed_count});
      return most >= static_cast<std::size_t>(kSweepRows);
    });
    if (!more) return std::unexpected(more.error());
    outcome_.has_more_to_sweep = *more;
    return {};
  }

  // All links of the largest server in one transaction of a second or two.
  static constexpr int kLeavingRows = 20'000;

  storage::Db& db_;
  const PresenceBatch& batch_;
  const int64_t now_us_;
  const std::string now_;
  PresenceOutcome outcome_;
};

}  // namespace

const char* node_standing_name(NodeStanding standing) {
  switch (standing) {
    case NodeStanding::serving:
      return "serving";
    case NodeStanding::disabled:
      return "disabled";
    case NodeStanding::deleted:
      return "deleted";
    case NodeStanding::replaced:
      return "replaced";
  }
  return "unknown";
}

PresenceOutcome write_presence(storage::Db& db, const PresenceBatch& batch, int64_t now_us) {
  return Writer(db, batch, now_us).run();
}

Result<ThisNode> announce_node(storage::Db& db, const std::string& id, const std::string& address,
                               int64_t now_us) {
  const std::string now = format_timestamp(now_us);
  Result<storage::NodeRecord> node = storage::change(db, [&](Transaction& tx) {
    return NodeRepository::start(tx, id, address, format_timestamp(now_us + kNodeLife_us), now);
  });
  if (!node) return std::unexpected(node.error());
  if (!node->deleted_at.empty()) return fail(TMESH_E_POLICY, "this server was deleted: restore it first");
  if (!node->is_enabled) return fail(TMESH_E_POLICY, "this server is disabled: enable it first");
  while (true) {
    Result<std::size_t> removed = storage::change(db, [&](Transaction& tx) {
      return LeaseRepository::remove_of_node(tx, id, node->epoch, kSweepRows);
    });
    if (!removed) return std::unexpected(removed.error());
    if (*removed < static_cast<std::size_t>(kSweepRows)) break;
  }
  return ThisNode{node->id, node->address, node->epoch};
}

}  // namespace tmesh::server
