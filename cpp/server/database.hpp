// The database as asynchronous calls for the loop, in three lanes.
//
//   reads   what links and opens wait for: token checks, decisions about streams
//   polls   what tells that rights moved and that the database answers: it must not stand
//           behind a batch of decisions, which can take seconds
//   writes  what nobody who opens a stream waits for: notes of use, audit rows, the
//           administration API (its reads too: a page of 500 rows must not stand before an
//           open), presence
//
// SQLite has one connection per lane: one more reader would wait for the same pages and
// one more writer for the same lock, and with WAL readers do not wait for the writer.
// MySQL answers several questions at a time and each costs a round trip, so it has
// kMysqlReads and kMysqlWrites, and one for polls. Every call returns a Ticket; results come on the loop.
// LIMIT as an error of the call itself: too many calls wait.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cpp/base/redact.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/batch_queue.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/database_lane.hpp"
#include "cpp/server/revision_watch.hpp"
#include "cpp/server/stream_authorizer.hpp"
#include "cpp/server/use_notes.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/open.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

class Database final : public StreamAuthorizer, public RevisionSource {
 public:
  // Waiting calls of a lane, beyond the open executor's own bound: upgrades and health checks.
  static constexpr std::size_t kPendingMax = 4096;
  // Three batches of opens at a time and one connection beside them, so that a token check
  // does not wait for a batch; each is a session that the server must be allowed.
  static constexpr std::size_t kMysqlReads = 4;
  // One for what people do and one for presence, whose leases run out if they wait.
  static constexpr std::size_t kMysqlWrites = 2;
  // How long another program's lock is waited for: by what an open waits for, which only
  // reads (a journal being recovered, a schema being changed), and by changes.
  static constexpr int kReadLockWait_ms = 250;
  static constexpr int kWriteLockWait_ms = 2000;
  // How long a MySQL server that hangs is waited for. A question that is asked once more on a
  // new connection still fails before the open (8 s) that waits for it; and a stop of this
  // program waits for the calls under way.
  static constexpr int kReadAnswerWait_ms = 3000;
  static constexpr int kWriteAnswerWait_ms = 10'000;

  struct Connections {
    std::vector<std::unique_ptr<storage::Db>> reads;
    std::vector<std::unique_ptr<storage::Db>> writes;
    std::vector<std::unique_ptr<storage::Db>> polls;
  };
  // Opens as many as the engine is given. Blocking, before the loop runs. The schema was
  // checked before (storage::migrate).
  static storage::Opened<Connections> connect(const storage::DatabaseSettings& settings);

  // At least one connection per lane. `node_id`: of this server, for tokens that may be used
  // at some servers only; empty: it has none, and no token is refused for that.
  static Result<std::unique_ptr<Database>> create(net::Loop& loop, Connections connections,
                                                  std::string node_id = {});
  ~Database() override;

  storage::Driver driver() const { return reads_->driver(); }

  // `R work(storage::Db&)` on a thread of the lane; `done(R)` on the loop. The work is
  // moved in and touches nothing else.
  template <class F, class R = std::invoke_result_t<F&, storage::Db&>>
  Result<Ticket> read(F work, Delegate<void(R)> done) {
    return reads_->submit(std::move(work), done);
  }
  template <class F, class R = std::invoke_result_t<F&, storage::Db&>>
  Result<Ticket> write(F work, Delegate<void(R)> done) {
    return writes_->submit(std::move(work), done);
  }
  template <class F, class R = std::invoke_result_t<F&, storage::Db&>>
  Result<Ticket> poll(F work, Delegate<void(R)> done) {
    return polls_->submit(std::move(work), done);
  }

  // ---- reads ----

  Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) override;
  // The secret is copied into the call and wiped with it. The caller notes the use.
  Result<Ticket> authenticate(const Secret& secret, TokenType type, Delegate<void(Result<Identity>)> done);
  // CredentialService::recheck of a link's token; the grant is for the token alone.
  Result<Ticket> recheck(std::string token_id, Delegate<void(Result<Grant>)> done);

  // ---- polls ----

  Result<Ticket> read_revision(Delegate<void(Result<uint64_t>)> done) override;
  Result<Ticket> has_foreign_commits(Delegate<void(Result<std::optional<bool>>)> done) override;
  // Reads one row.
  Result<Ticket> ping(Delegate<void(bool)> done);

  // ---- writes ----

  // Notes that this token was used now, if it was not noted lately. Nobody hears of it.
  void note_use(const Identity& identity);
  // Adds one row to the audit log.
  Result<Ticket> append_audit(storage::AuditRecord row, Delegate<void(Result<void>)> done);

  const UseNotes& use_notes() const { return use_notes_; }

 private:
  using OpenQueue = BatchQueue<StreamRequest, Grant>;
  using TokenQueue = BatchQueue<std::string, Grant>;

  struct Lanes {
    std::unique_ptr<DatabaseLane> reads, writes, polls;
  };
  Database(Timers& timers, Lanes lanes, std::string node_id);

  // On threads of the reads.
  std::vector<Result<Grant>> decide_streams(storage::Db& db, std::span<const StreamRequest> requests) const;
  std::vector<Result<Grant>> recheck_tokens(storage::Db& db, std::span<const std::string> token_ids) const;

  const std::string node_id_;
  std::optional<uint64_t> data_version_;  // SQLite; the thread of the polls only
  std::unique_ptr<DatabaseLane> reads_;
  std::unique_ptr<DatabaseLane> writes_;
  std::unique_ptr<DatabaseLane> polls_;
  OpenQueue opens_;  // its batches and those below are jobs of the reads
  TokenQueue rechecks_;
  UseNotes use_notes_;
};

}  // namespace tmesh::server
