#include "cpp/storage/migrator.hpp"

#include <string>

#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

// Keeps other programs' migrations out, where a transaction cannot: MySQL's named lock. It
// belongs to the connection, so it is gone with a program that dies. Taken inside a
// Transaction, because then a lost connection is an error and not silently a new one
// without the lock.
class MigrationLock {
 public:
  static Opened<MigrationLock> take(Db& db) {
    if (db.driver() == Driver::sqlite) return MigrationLock(nullptr);
    // Short waits, so that no read timeout of the connection is near.
    constexpr int wait_s = 1;
    constexpr int tries = 60;
    for (int i = 0; i < tries; ++i) {
      const Param params[] = {wait_s};
      Result<std::optional<int64_t>> got = query_one<int64_t>(
          db, "SELECT COALESCE(GET_LOCK(CONCAT('tunnelmesh.schema.', MD5(DATABASE())), ?), 0)", params,
          [](RowReader& row) { return row.integer(); });
      if (!got) return problem(got.error());
      if (got->value_or(0) == 1) return MigrationLock(&db);
    }
    return problem(TMESH_E_TIMEOUT, "another program is migrating the database");
  }

  MigrationLock(MigrationLock&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  MigrationLock& operator=(MigrationLock&&) = delete;
  ~MigrationLock() {
    if (db_ == nullptr) return;
    // Should it fail, the connection is broken and the lock is gone with it.
    (void)query_one<int64_t>(
        *db_, "SELECT COALESCE(RELEASE_LOCK(CONCAT('tunnelmesh.schema.', MD5(DATABASE()))), 0)", {},
        [](RowReader& row) { return row.integer(); });
  }

 private:
  explicit MigrationLock(Db* db) : db_(db) {}
  Db* db_;
};

Opened<void> run_statements(Db& db, const SchemaStep& step) {
  for (const std::string& statement : step.statements) {
    Opened<bool> is_done = is_statement_done(db, statement);
    if (!is_done) return std::unexpected(is_done.error());
    if (*is_done) continue;
    if (Result<uint64_t> done = db.execute(statement, {}); !done) return problem(done.error());
  }
  return {};
}

// The next step, if there is one; true when there may be another. What has to be done is
// looked at again under the lock: another program may have done it since we looked.
Opened<bool> run_next_step(Db& db) {
  Result<Transaction> tx = Transaction::write(db);
  if (!tx) return problem(tx.error());
  Opened<MigrationLock> lock = MigrationLock::take(db);
  if (!lock) return std::unexpected(lock.error());
  Opened<SchemaPlan> plan = plan_schema(db);
  if (!plan) return std::unexpected(plan.error());
  if (plan->steps.empty()) return false;
  const SchemaStep& step = plan->steps.front();
  const auto failed = [&step](const Problem& why) {
    return problem(why.code, step.name + " failed: " + why.text);
  };
  if (Opened<void> done = run_statements(db, step); !done) return failed(done.error());
  Opened<SchemaPlan> after = plan_schema(db);
  if (!after) return failed(after.error());
  if (!after->steps.empty() && after->steps.front().name == step.name) {
    return failed({TMESH_E_STATE, "it has no effect"});
  }
  if (Result<void> done = tx->commit(); !done) return failed({done.error().code, done.error().text});
  return true;
}

Opened<void> run_steps(Db& db) {
  // Looking first takes no lock: almost every start finds nothing to do.
  Opened<SchemaPlan> plan = plan_schema(db);
  if (!plan) return std::unexpected(plan.error());
  if (plan->steps.empty()) return {};
  while (true) {
    Opened<bool> more = run_next_step(db);
    if (!more) return std::unexpected(more.error());
    if (!*more) return {};
  }
}

}  // namespace

Opened<SchemaReport> migrate(Db& db, bool auto_init) {
  Opened<int64_t> before = read_schema_version(db);
  if (!before) return std::unexpected(before.error());
  if (auto_init) {
    if (Opened<void> done = run_steps(db); !done) return std::unexpected(done.error());
  } else if (*before != schema_version) {
    const std::string found =
        *before == 0 ? "the database is empty" : "the schema has version " + std::to_string(*before);
    return problem(TMESH_E_UNSUPPORTED,
                   found + ", but storage.auto_init is off and this program needs exactly version " +
                       std::to_string(schema_version));
  }
  Opened<int64_t> version = read_schema_version(db);
  if (!version) return std::unexpected(version.error());
  Opened<std::vector<std::string>> gaps = schema_gaps(db, *version);
  if (!gaps) return std::unexpected(gaps.error());
  if (!gaps->empty()) {
    return problem(TMESH_E_UNSUPPORTED, "schema version " + std::to_string(*version) + " lacks " +
                                            gaps->front() + ", which this program needs");
  }
  return SchemaReport{*before, *version};
}

}  // namespace tmesh::storage
