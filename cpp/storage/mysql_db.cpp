#include "cpp/storage/mysql_db.hpp"

#include <mysqld_error.h>

#include <algorithm>
#include <map>
#include <optional>

#include "core/base/check.h"
#include "cpp/storage/mysql_statement.hpp"
#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

constexpr size_t statements_max = 64;

constexpr const char* begin_write = "START TRANSACTION";
constexpr const char* begin_read = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

class MysqlDb final : public Db {
 public:
  MysqlDb(MysqlOptions options, MysqlHandle connection)
      : options_(std::move(options)), connection_(std::move(connection)) {}
  ~MysqlDb() override {
    mysql_use_thread();
    disconnect();
  }

  Driver driver() const override { return Driver::mysql; }
  std::string_view lock_suffix() const override { return " FOR UPDATE"; }
  Result<uint64_t> foreign_commits() override { return 0; }

  Result<uint64_t> execute(std::string_view sql, Params params) override {
    if (Result<void> good = check_values(params); !good) return std::unexpected(good.error());
    uint64_t rows_matched = 0;
    const auto done = run(Repeat::if_it_never_ran, [&] { return execute_once(sql, params, rows_matched); });
    if (!done) return std::unexpected(done.error());
    return rows_matched;
  }

  Result<void> query(std::string_view sql, Params params, Delegate<bool(const Row&)> on_row) override {
    if (Result<void> good = check_sizes(params); !good) return good;
    MysqlStatement* statement = nullptr;
    const auto done = run(Repeat::always, [&] { return query_once(sql, params, statement); });
    if (!done) return done;
    is_in_callback_ = true;
    const Done<void> read = statement->each_row(on_row);
    is_in_callback_ = false;
    statement->release();
    if (!read) return std::unexpected(settle(read.error()));
    return {};
  }

  Result<std::vector<std::string>> tables() override {
    Result<std::vector<std::string>> found = names(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() "
        "AND table_type = 'BASE TABLE'",
        {});
    // The server would sort by its own rules.
    if (found) std::ranges::sort(*found);
    return found;
  }
  Result<std::vector<std::string>> columns(std::string_view table) override {
    const Param params[] = {table};
    return names(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "
        "AND table_name = ? ORDER BY ordinal_position",
        params);
  }
  Result<bool> has_index(std::string_view name) override {
    const Param params[] = {name};
    Result<std::vector<std::string>> found = names(
        "SELECT index_name FROM information_schema.statistics WHERE table_schema = DATABASE() "
        "AND index_name = ? LIMIT 1",
        params);
    if (!found) return std::unexpected(found.error());
    return !found->empty();
  }

 private:
  template <class T>
  using Done = std::expected<T, MysqlFault>;
  enum class Repeat { always, if_it_never_ran };

  Result<void> begin(bool is_write) override {
    TMESH_ASSERT(!is_in_transaction_);
    const auto begun = run(Repeat::always, [&] {
      return mysql_run_text(connection_.get(), is_write ? begin_write : begin_read);
    });
    is_in_transaction_ = begun.has_value();
    return begun;
  }
  Result<void> commit() override {
    // After a failure of any kind Transaction::commit() rolls back.
    Result<void> done = run(Repeat::always, [&] { return mysql_run_text(connection_.get(), "COMMIT"); });
    if (done) is_in_transaction_ = false;
    return done;
  }
  void rollback() override {
    mysql_use_thread();
    const bool is_undone = undone_.has_value();
    is_in_transaction_ = false;
    undone_.reset();
    if (!is_undone) undo();
  }
  // Should it fail, the end of the connection does it.
  void undo() {
    if (connection_ && !mysql_run_text(connection_.get(), "ROLLBACK")) disconnect();
  }

  // Runs `once` on a connection; on a new one and again if the old one is found to be lost
  // and that is safe.
  template <class Once>
  Result<void> run(Repeat repeat, Once once) {
    TMESH_ASSERT(!is_in_callback_);
    mysql_use_thread();
    if (undone_) return std::unexpected(*undone_);
    // A farewell that is already there need not become a statement of unknown outcome.
    if (connection_ && !is_in_transaction_ && repeat != Repeat::always &&
        !mysql_is_quiet(connection_.get())) {
      disconnect();
    }
    const bool was_connected = connection_ != nullptr;
    if (Result<void> connected = reconnect(); !connected) return connected;
    Done<void> done = once();
    if (done) return {};
    const bool may_repeat = was_connected && !is_in_transaction_ && done.error().is_lost &&
                            (repeat == Repeat::always || done.error().never_ran);
    if (!may_repeat) return std::unexpected(settle(done.error()));
    disconnect();
    if (Result<void> connected = reconnect(); !connected) return connected;
    done = once();
    if (!done) return std::unexpected(settle(done.error()));
    return {};
  }

  // What a failure leaves behind.
  Error settle(const MysqlFault& fault) {
    if (fault.is_lost) disconnect();
    if (is_in_transaction_ && (fault.is_lost || fault.ends_transaction)) {
      undone_ = fault.error;
      undo();
    }
    return fault.error;
  }

  Result<void> reconnect() {
    if (connection_) return {};
    auto made = mysql_connect(options_);
    if (!made) return fail(TMESH_E_IO, "the database cannot be reached");
    connection_ = std::move(*made);
    return {};
  }
  void disconnect() {
    statements_.clear();
    connection_.reset();
  }

  Done<void> execute_once(std::string_view sql, Params params, uint64_t& rows_matched) {
    Done<MysqlStatement*> statement = prepared(sql);
    if (!statement && statement.error().number == ER_UNSUPPORTED_PS && params.empty()) {
      return mysql_run_text(connection_.get(), sql, &rows_matched);
    }
    if (!statement) return std::unexpected(statement.error());
    Done<uint64_t> matched = (*statement)->execute(params);
    if (!matched) return std::unexpected(matched.error());
    (*statement)->release();
    rows_matched = *matched;
    return {};
  }

  Done<void> query_once(std::string_view sql, Params params, MysqlStatement*& out) {
    Done<MysqlStatement*> statement = prepared(sql);
    if (!statement) return std::unexpected(statement.error());
    Done<uint64_t> done = (*statement)->execute(params);
    if (!done) return std::unexpected(done.error());
    out = *statement;
    return {};
  }

  Done<MysqlStatement*> prepared(std::string_view sql) {
    auto found = statements_.find(sql);
    if (found == statements_.end()) {
      Done<MysqlStatement> made = MysqlStatement::prepare(connection_.get(), sql);
      if (!made) {
        made.error().never_ran = true;
        return std::unexpected(made.error());
      }
      if (statements_.size() >= statements_max) statements_.clear();
      found = statements_.emplace(std::string(sql), std::move(*made)).first;
    }
    return &found->second;
  }

  Result<std::vector<std::string>> names(std::string_view sql, Params params) {
    return query_all<std::string>(*this, sql, params, [](RowReader& row) { return row.text(); });
  }

  MysqlOptions options_;
  MysqlHandle connection_;                                         // null: to be made by the next call
  std::map<std::string, MysqlStatement, std::less<>> statements_;  // of this connection
  bool is_in_transaction_ = false;                                 // a Transaction exists
  std::optional<Error> undone_;                                    // it is undone already, and why
  bool is_in_callback_ = false;
};

}  // namespace

Opened<std::unique_ptr<Db>> open_mysql(MysqlOptions options) {
  mysql_use_thread();
  auto connection = mysql_connect(options);
  if (!connection) {
    return std::unexpected(
        Problem{TMESH_E_IO, "MySQL at " + options.dsn.where() + ": " + connection.error().reason});
  }
  return std::make_unique<MysqlDb>(std::move(options), std::move(*connection));
}

}  // namespace tmesh::storage
