#include "cpp/storage/sqlite_db.hpp"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>

#include "core/base/check.h"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

constexpr size_t statements_max = 64;
constexpr int value_bytes_max = 16 * 1024 * 1024;

Error sqlite_error(sqlite3* db, int rc) {
  const auto error = [](tmesh_code code, const char* text) { return Error{code, TMESH_SCOPE_STREAM, text}; };
  // A file system without room shows as FULL, or as an I/O error with ENOSPC when it
  // was the shared memory file that could not grow.
  if ((rc & 0xff) == SQLITE_IOERR && db != nullptr && sqlite3_system_errno(db) == ENOSPC) rc = SQLITE_FULL;
  switch (rc & 0xff) {
    case SQLITE_FULL:
      return error(TMESH_E_LIMIT, "the disk that holds the database is full");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return error(TMESH_E_TIMEOUT, "another program keeps the database locked");
    case SQLITE_NOMEM:
      return error(TMESH_E_NO_MEMORY, "no memory for the database");
    case SQLITE_TOOBIG:
      return error(TMESH_E_TOO_LARGE, "a value is too large for the database");
    case SQLITE_READONLY:
      return error(TMESH_E_IO, "the database cannot be written");
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return error(TMESH_E_IO, "the file is damaged or is not a database");
    case SQLITE_CANTOPEN:
      return error(TMESH_E_IO, "the database file cannot be opened");
    case SQLITE_CONSTRAINT:
      if (rc == SQLITE_CONSTRAINT_UNIQUE || rc == SQLITE_CONSTRAINT_PRIMARYKEY) {
        return error(TMESH_E_STATE, "a unique value is already taken");
      }
      return error(TMESH_E_INVALID, "a value breaks a rule of the schema");
    case SQLITE_ERROR:
      return error(TMESH_E_IO, "the database lacks a table or column, or the statement is wrong");
    default:
      return error(TMESH_E_IO, "the database cannot be read or written");
  }
}

struct FinalizeStatement {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, FinalizeStatement>;

class SqliteRow final : public Row {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : statement_(statement) {}
  bool is_null(int column) const override { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  std::string_view text(int column) const override {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    if (bytes == nullptr) return {};
    return {bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
  }
  std::optional<int64_t> integer(int column) const override {
    if (sqlite3_column_type(statement_, column) != SQLITE_INTEGER) return std::nullopt;
    return sqlite3_column_int64(statement_, column);
  }

 private:
  sqlite3_stmt* statement_;
};

class SqliteDb final : public Db {
 public:
  explicit SqliteDb(sqlite3* db) : db_(db) {}
  ~SqliteDb() override {
    statements_.clear();
    const int rc = sqlite3_close(db_);
    TMESH_ASSERT(rc == SQLITE_OK);
  }

  Driver driver() const override { return Driver::sqlite; }
  std::string_view lock_suffix() const override { return {}; }

  Result<uint64_t> execute(std::string_view sql, Params params) override {
    if (Result<void> good = check_values(params); !good) return std::unexpected(good.error());
    Result<sqlite3_stmt*> statement = bound(sql, params);
    if (!statement) return std::unexpected(statement.error());
    int rc = sqlite3_step(*statement);
    while (rc == SQLITE_ROW) rc = sqlite3_step(*statement);
    if (rc != SQLITE_DONE) {
      const Error error = sqlite_error(db_, sqlite3_extended_errcode(db_));
      release(*statement);
      return std::unexpected(error);
    }
    release(*statement);
    return static_cast<uint64_t>(sqlite3_changes64(db_));
  }

  Result<void> query(std::string_view sql, Params params, Delegate<bool(const Row&)> on_row) override {
    if (Result<void> good = check_sizes(params); !good) return good;
    Result<sqlite3_stmt*> statement = bound(sql, params);
    if (!statement) return std::unexpected(statement.error());
    const SqliteRow row(*statement);
    int rc = sqlite3_step(*statement);
    while (rc == SQLITE_ROW && on_row(row)) rc = sqlite3_step(*statement);
    if (rc != SQLITE_ROW && rc != SQLITE_DONE) {
      const Error error = sqlite_error(db_, sqlite3_extended_errcode(db_));
      release(*statement);
      return std::unexpected(error);
    }
    release(*statement);
    return {};
  }

  Result<std::vector<std::string>> tables() override {
    return names(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
        "ORDER BY name",
        {});
  }
  Result<std::vector<std::string>> columns(std::string_view table) override {
    const Param params[] = {table};
    return names("SELECT name FROM pragma_table_info(?)", params);
  }
  Result<bool> has_index(std::string_view name) override {
    const Param params[] = {name};
    Result<std::vector<std::string>> found =
        names("SELECT name FROM sqlite_master WHERE type = 'index' AND name = ?", params);
    if (!found) return std::unexpected(found.error());
    return !found->empty();
  }
  Result<uint64_t> foreign_commits() override {
    Result<std::vector<std::string>> value = names("PRAGMA data_version", {});
    if (!value) return std::unexpected(value.error());
    if (value->size() != 1) return fail(TMESH_E_IO, "the database does not tell its data version");
    return std::strtoull(value->front().c_str(), nullptr, 10);
  }

 private:
  Result<void> begin(bool is_write) override {
    TMESH_ASSERT(!is_in_transaction_);
    end_leftover();
    if (sqlite3_get_autocommit(db_) == 0) return fail(TMESH_E_IO, "a failed transaction cannot be undone");
    Result<void> begun = control(is_write ? "BEGIN IMMEDIATE" : "BEGIN");
    is_in_transaction_ = begun.has_value();
    return begun;
  }
  Result<void> commit() override {
    Result<void> done = control("COMMIT");
    if (done) is_in_transaction_ = false;
    return done;
  }
  void rollback() override {
    is_in_transaction_ = false;
    end_leftover();
  }
  // SQLite ends a transaction by itself on some failures (a full disk is one). Should
  // the rollback fail as well, begin() tries again before anything else happens.
  void end_leftover() {
    if (sqlite3_get_autocommit(db_) != 0) return;
    if (Result<void> done = control("ROLLBACK"); !done) return;
  }

  Result<void> control(std::string_view sql) {
    Result<uint64_t> done = execute(sql, {});
    if (!done) return std::unexpected(done.error());
    return {};
  }

  Result<std::vector<std::string>> names(std::string_view sql, Params params) {
    return query_all<std::string>(*this, sql, params, [](RowReader& row) { return row.text(); });
  }

  // The prepared statement for `sql` with its values; between this and release()
  // no other statement may run.
  Result<sqlite3_stmt*> bound(std::string_view sql, Params params) {
    TMESH_ASSERT(!is_running_);
    // Some failures undo a transaction at once; what comes behind would then be kept although
    // its beginning is gone.
    if (is_in_transaction_ && sqlite3_get_autocommit(db_) != 0) {
      return fail(TMESH_E_IO, "the transaction was undone by a failure before");
    }
    auto found = statements_.find(sql);
    if (found == statements_.end()) {
      sqlite3_stmt* made = nullptr;
      const int rc = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &made, nullptr);
      if (rc != SQLITE_OK) return std::unexpected(sqlite_error(db_, sqlite3_extended_errcode(db_)));
      TMESH_ASSERT(made != nullptr);
      if (statements_.size() >= statements_max) statements_.clear();
      found = statements_.emplace(std::string(sql), Statement(made)).first;
    }
    sqlite3_stmt* statement = found->second.get();
    TMESH_ASSERT(sqlite3_bind_parameter_count(statement) == static_cast<int>(params.size()));
    is_running_ = true;
    int at = 0;
    for (const Param& param : params) {
      int rc = SQLITE_OK;
      ++at;
      switch (param.kind()) {
        case Param::Kind::null:
          rc = sqlite3_bind_null(statement, at);
          break;
        case Param::Kind::integer:
          rc = sqlite3_bind_int64(statement, at, param.integer());
          break;
        case Param::Kind::text:
          // A null pointer would bind NULL; an empty text must stay a text.
          rc = sqlite3_bind_text64(statement, at, param.text().empty() ? "" : param.text().data(),
                                   param.text().size(), SQLITE_STATIC, SQLITE_UTF8);
          break;
      }
      if (rc != SQLITE_OK) {
        release(statement);
        return std::unexpected(sqlite_error(db_, rc));
      }
    }
    return statement;
  }

  void release(sqlite3_stmt* statement) {
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    is_running_ = false;
  }

  sqlite3* db_;
  std::map<std::string, Statement, std::less<>> statements_;
  bool is_running_ = false;         // between bound() and release()
  bool is_in_transaction_ = false;  // a Transaction exists
};

Opened<std::unique_ptr<Db>> problem(const SqliteOptions& options, tmesh_code code, std::string_view text) {
  return std::unexpected(Problem{code, options.path + ": " + std::string(text)});
}

// SQLite would create the file readable for everybody; it holds password hashes.
bool create_private(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
  if (fd < 0) return false;
  ::close(fd);
  return true;
}

// Programs that open a new file at the same moment collide here even with a busy
// timeout: the switch of the journal needs the file alone, and whoever reads the
// first log is not waited for (SQLITE_BUSY_RECOVERY). Each try gives up at once: with
// the timeout inside, the waits would multiply.
int run_patiently(sqlite3* db, const char* sql, int busy_timeout_ms) {
  constexpr int pause_ms = 10;
  sqlite3_busy_timeout(db, 0);
  int rc = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  for (int waited_ms = 0; (rc & 0xff) == SQLITE_BUSY && waited_ms < busy_timeout_ms; waited_ms += pause_ms) {
    sqlite3_sleep(pause_ms);
    rc = sqlite3_exec(db, sql, nullptr, nullptr, nullptr);
  }
  sqlite3_busy_timeout(db, busy_timeout_ms);
  return rc;
}

}  // namespace

Opened<std::unique_ptr<Db>> open_sqlite(const SqliteOptions& options) {
  if (options.path.empty()) return std::unexpected(Problem{TMESH_E_INVALID, "storage.sqlite.path is empty"});
  const bool creates = options.create && !options.is_read_only;
  if (creates ? !create_private(options.path) : ::access(options.path.c_str(), F_OK) != 0) {
    const int error = errno;
    if (error == ENOENT && !creates) {
      return problem(options, TMESH_E_IO,
                     "there is no database here: run quickstart, or start the server once");
    }
    return problem(options, error == ENOSPC ? TMESH_E_LIMIT : TMESH_E_IO, std::strerror(error));
  }
  sqlite3* handle = nullptr;
  const int access = options.is_read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE;
  int rc = sqlite3_open_v2(options.path.c_str(), &handle, access | SQLITE_OPEN_NOMUTEX, nullptr);
  if (handle == nullptr) return problem(options, TMESH_E_NO_MEMORY, "no memory for the database");
  auto db = std::make_unique<SqliteDb>(handle);
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_limit(handle, SQLITE_LIMIT_LENGTH, value_bytes_max);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  // The first statement that reads the file: a foreign file shows here.
  if (rc == SQLITE_OK) rc = run_patiently(handle, "PRAGMA schema_version", options.busy_timeout_ms);
  if (rc == SQLITE_OK && options.is_read_only) return db;
  if (rc == SQLITE_OK && sqlite3_db_readonly(handle, "main") != 0) {
    return problem(options, TMESH_E_IO, "the database cannot be written");
  }
  if (rc == SQLITE_OK) rc = run_patiently(handle, "PRAGMA journal_mode = WAL", options.busy_timeout_ms);
  if (rc == SQLITE_OK) rc = run_patiently(handle, "PRAGMA synchronous = FULL", options.busy_timeout_ms);
  if (rc != SQLITE_OK) {
    const Error error = sqlite_error(handle, rc);
    return problem(options, error.code, error.text);
  }
  return db;
}

}  // namespace tmesh::storage
