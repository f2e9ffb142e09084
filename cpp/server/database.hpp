// The database on its own thread, as asynchronous calls for the loop.
//
// Owns the worker pool and the connection that only its thread touches (SQLite has one
// writer; a second connection would only wait for it). Every call returns a Ticket;
// results come on the loop. LIMIT as an error of the call itself: too many calls wait.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cpp/base/redact.hpp"
#include "cpp/net/workers.hpp"
#include "cpp/server/authorize_queue.hpp"
#include "cpp/server/authorizer.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

// Decides streams; the cache is another implementation in front of this one.
class StreamAuthorizer {
 public:
  virtual ~StreamAuthorizer() = default;
  // Errors of Authorizer::authorize, and LIMIT.
  virtual Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) = 0;
};

class Database final : public StreamAuthorizer {
 public:
  // Waiting calls beyond the open executor's own bound: upgrades and health checks.
  static constexpr std::size_t kPendingMax = 4096;
  // How long its connection may wait for another process's write. The only writes here are
  // the note of a token's last use and rows of the audit log, which may be missed; every
  // open waits behind them.
  static constexpr int kBusyTimeout_ms = 250;

  // Takes a connection whose schema was checked.
  static Result<std::unique_ptr<Database>> create(net::Loop& loop, std::unique_ptr<storage::Db> db);
  ~Database() override;

  Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) override;
  // The secret is copied into the call and wiped with it.
  Result<Ticket> authenticate(const Secret& secret, TokenType type, Delegate<void(Result<Identity>)> done);
  // CredentialService::recheck.
  Result<Ticket> recheck(std::vector<std::string> token_ids, std::optional<uint64_t> known_revision,
                         Delegate<void(Result<TokenRecheck>)> done);
  // Adds one row to the audit log.
  Result<Ticket> append_audit(storage::AuditRecord row, Delegate<void(Result<void>)> done);
  // Reads one row.
  Result<Ticket> ping(Delegate<void(bool)> done);

 private:
  explicit Database(std::unique_ptr<storage::Db> db);

  std::unique_ptr<storage::Db> db_;
  CredentialService credentials_;
  Authorizer authorizer_;
  std::unique_ptr<net::Workers> workers_;  // ends its thread before the rest goes
  std::optional<AuthorizeQueue> opens_;    // last: its batch is a job of the workers
};

}  // namespace tmesh::server
