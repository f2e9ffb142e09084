#include "cpp/server/database.hpp"

#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::server {
namespace {

// Batches of opens in flight: all connections but one, if there are several.
std::size_t batches_max(const DatabaseLane& reads) {
  return reads.connections_count() > 1 ? reads.connections_count() - 1 : 1;
}

}  // namespace

storage::Opened<Database::Connections> Database::connect(const storage::DatabaseSettings& settings) {
  const bool is_mysql = settings.driver == storage::Driver::mysql;
  Connections connections;
  const auto open = [&settings](std::vector<std::unique_ptr<storage::Db>>& lane, std::size_t count,
                                const storage::OpenOptions& options) -> storage::Opened<void> {
    while (lane.size() < count) {
      auto db = storage::open_database(settings, options);
      if (!db) return std::unexpected(std::move(db.error()));
      lane.push_back(std::move(*db));
    }
    return {};
  };
  const storage::OpenOptions reading = {.lock_wait_ms = kReadLockWait_ms,
                                        .answer_wait_ms = kReadAnswerWait_ms};
  auto reads = open(connections.reads, is_mysql ? kMysqlReads : 1, reading);
  if (!reads) return std::unexpected(std::move(reads.error()));
  auto polls = open(connections.polls, 1, reading);
  if (!polls) return std::unexpected(std::move(polls.error()));
  auto writes = open(connections.writes, is_mysql ? kMysqlWrites : 1,
                     {.lock_wait_ms = kWriteLockWait_ms, .answer_wait_ms = kWriteAnswerWait_ms});
  if (!writes) return std::unexpected(std::move(writes.error()));
  return connections;
}

Result<std::unique_ptr<Database>> Database::create(net::Loop& loop, Connections connections,
                                                   std::string node_id) {
  auto reads = DatabaseLane::create(loop, std::move(connections.reads), kPendingMax);
  if (!reads) return std::unexpected(reads.error());
  auto writes = DatabaseLane::create(loop, std::move(connections.writes), kPendingMax);
  if (!writes) return std::unexpected(writes.error());
  auto polls = DatabaseLane::create(loop, std::move(connections.polls), kPendingMax);
  if (!polls) return std::unexpected(polls.error());
  return std::unique_ptr<Database>(
      new Database(loop, {std::move(*reads), std::move(*writes), std::move(*polls)}, std::move(node_id)));
}

Database::Database(Timers& timers, Lanes lanes, std::string node_id)
    : node_id_(std::move(node_id)),
      reads_(std::move(lanes.reads)),
      writes_(std::move(lanes.writes)),
      polls_(std::move(lanes.polls)),
      opens_(timers, *reads_, OpenQueue::Decide::bind<&Database::decide_streams>(this),
             {kPendingMax, batches_max(*reads_)}),
      // One at a time: nobody waits for them.
      rechecks_(timers, *reads_, TokenQueue::Decide::bind<&Database::recheck_tokens>(this), {kPendingMax, 1}),
      use_notes_(*writes_) {}

Database::~Database() = default;

std::vector<Result<Grant>> Database::decide_streams(storage::Db& db,
                                                    std::span<const StreamRequest> requests) const {
  return Authorizer(db, storage::system_clock(), node_id_).authorize(requests);
}

std::vector<Result<Grant>> Database::recheck_tokens(storage::Db& db,
                                                    std::span<const std::string> token_ids) const {
  std::vector<Result<LiveToken>> tokens =
      CredentialService(db, storage::system_clock(), node_id_).recheck(token_ids);
  std::vector<Result<Grant>> grants;
  grants.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (!tokens[i]) {
      grants.emplace_back(std::unexpected(tokens[i].error()));
      continue;
    }
    Grant grant;
    grant.token_id = token_ids[i];
    grant.expires_at_us = tokens[i]->expires_at_us;
    grants.emplace_back(std::move(grant));
  }
  return grants;
}

Result<Ticket> Database::authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) {
  return opens_.submit(std::move(request), done);
}

Result<Ticket> Database::authenticate(const Secret& secret, TokenType type,
                                      Delegate<void(Result<Identity>)> done) {
  return read(
      [this, secret = Secret(secret), type](storage::Db& db) {
        return CredentialService(db, storage::system_clock(), node_id_).authenticate(secret.reveal(), type);
      },
      done);
}

Result<Ticket> Database::recheck(std::string token_id, Delegate<void(Result<Grant>)> done) {
  return rechecks_.submit(std::move(token_id), done);
}

Result<Ticket> Database::read_revision(Delegate<void(Result<uint64_t>)> done) {
  return poll([](storage::Db& db) { return storage::read_revision(db); }, done);
}

Result<Ticket> Database::has_foreign_commits(Delegate<void(Result<std::optional<bool>>)> done) {
  return poll(
      [this](storage::Db& db) -> Result<std::optional<bool>> {
        // The number is one connection's own, so only where there is just that one.
        if (db.driver() != storage::Driver::sqlite) return std::nullopt;
        const Result<uint64_t> version = db.foreign_commits();
        if (!version) return std::unexpected(version.error());
        return std::exchange(data_version_, *version) != *version;
      },
      done);
}

Result<Ticket> Database::ping(Delegate<void(bool)> done) {
  return poll(
      [](storage::Db& db) {
        return db
            .query("SELECT version FROM schema_meta WHERE id = 1", {},
                   Delegate<bool(const storage::Row&)>::free<[](void*, const storage::Row&) { return true; }>(
                       nullptr))
            .has_value();
      },
      done);
}

void Database::note_use(const Identity& identity) {
  if (!identity.is_use_noted) use_notes_.note(identity.token_id);
}

Result<Ticket> Database::append_audit(storage::AuditRecord row, Delegate<void(Result<void>)> done) {
  return write(
      [row = std::move(row)](storage::Db& db) {
        return storage::change(
            db, [&row](storage::Transaction& tx) { return storage::AuditRepository::append(tx, row); });
      },
      done);
}

}  // namespace tmesh::server
