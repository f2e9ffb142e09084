#include "cpp/server/database.hpp"

#include <utility>

#include "cpp/storage/audit_repository.hpp"

namespace tmesh::server {

Database::Database(std::unique_ptr<storage::Db> db)
    : db_(std::move(db)),
      credentials_(*db_, storage::system_clock()),
      authorizer_(*db_, storage::system_clock()) {}

Database::~Database() = default;

Result<std::unique_ptr<Database>> Database::create(net::Loop& loop, std::unique_ptr<storage::Db> db) {
  std::unique_ptr<Database> database(new Database(std::move(db)));
  auto workers = net::Workers::create(loop, 1, kPendingMax);
  if (!workers) return std::unexpected(workers.error());
  database->workers_ = std::move(*workers);
  database->opens_.emplace(*database->workers_, database->authorizer_, kPendingMax);
  return database;
}

Result<Ticket> Database::authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) {
  return opens_->submit(std::move(request), done);
}

Result<Ticket> Database::authenticate(const Secret& secret, TokenType type,
                                      Delegate<void(Result<Identity>)> done) {
  return workers_->submit(
      [this, secret = Secret(secret), type]() -> Result<Identity> {
        auto identity = credentials_.authenticate(secret.reveal(), type);
        // Best effort: a database that cannot note the time of use still knows the token.
        if (identity && !identity->is_use_noted) (void)credentials_.note_use(identity->token_id);
        return identity;
      },
      done);
}

Result<Ticket> Database::recheck(std::vector<std::string> token_ids, std::optional<uint64_t> known_revision,
                                 Delegate<void(Result<TokenRecheck>)> done) {
  return workers_->submit([this, ids = std::move(token_ids),
                           known_revision] { return credentials_.recheck(ids, known_revision); },
                          done);
}

Result<Ticket> Database::append_audit(storage::AuditRecord row, Delegate<void(Result<void>)> done) {
  return workers_->submit(
      [this, row = std::move(row)]() -> Result<void> {
        Result<storage::Transaction> tx = storage::Transaction::write(*db_);
        if (!tx) return std::unexpected(tx.error());
        if (Result<void> added = storage::AuditRepository::append(*tx, row); !added) return added;
        return tx->commit();
      },
      done);
}

Result<Ticket> Database::ping(Delegate<void(bool)> done) {
  return workers_->submit(
      [this] {
        return db_
            ->query(
                "SELECT version FROM schema_meta WHERE id = 1", {},
                Delegate<bool(const storage::Row&)>::free<[](void*, const storage::Row&) { return true; }>(
                    nullptr))
            .has_value();
      },
      done);
}

}  // namespace tmesh::server
