// A database connection: the only door to SQL.
//
// Blocking, so it lives on a database worker and never on the loop; one thread at a
// time. Statement text is what SQLite and MySQL both read; the few differences are
// virtual functions. Values travel as parameters, never inside the text, and are
// never part of an error.
//
// Errors of every function here and in the repositories:
//   TMESH_E_IO         the database cannot be read or written, or lacks something
//   TMESH_E_TIMEOUT    another program held a lock for longer than the busy timeout
//   TMESH_E_LIMIT      the disk is full
//   TMESH_E_NO_MEMORY
//   TMESH_E_TOO_LARGE  a value beyond text_bytes_max, or beyond what its column holds
//   TMESH_E_STATE      a unique value is taken, or the row to change does not exist
//   TMESH_E_INVALID    a stored value has the wrong type, a new one breaks the schema or is
//                      not UTF-8
// None of them is ever a decision about rights: that is TMESH_E_POLICY, above.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"

namespace tmesh::storage {

enum class Driver { sqlite, mysql };

// The longest text that is stored: what a TEXT column of MySQL holds. SQLite would take more,
// and what works must not depend on the engine.
inline constexpr size_t text_bytes_max = 65'535;

// What went wrong while a database was opened or upgraded, in words for the person
// who starts the program. Names files, tables and columns; holds no data.
struct Problem {
  tmesh_code code = TMESH_E_IO;
  std::string text;
};
template <class T>
using Opened = std::expected<T, Problem>;
inline std::unexpected<Problem> problem(tmesh_code code, std::string text) {
  return std::unexpected(Problem{code, std::move(text)});
}
inline std::unexpected<Problem> problem(const Error& error) {
  return problem(error.code, error.text);
}

// One value bound to a `?`. Text is only pointed to: it lives as long as the call.
class Param {
 public:
  enum class Kind { null, integer, text };
  Param(std::nullptr_t) : kind_(Kind::null) {}
  Param(int64_t value) : kind_(Kind::integer), integer_(value) {}
  Param(int value) : Param(int64_t{value}) {}
  Param(bool value) : Param(int64_t{value ? 1 : 0}) {}
  Param(std::string_view value) : kind_(Kind::text), text_(value) {}
  Param(const std::string& value) : Param(std::string_view(value)) {}
  Param(const char* value) : Param(std::string_view(value)) {}
  // Nullable columns: an empty text is stored as NULL.
  static Param nullable(std::string_view value) { return value.empty() ? Param(nullptr) : Param(value); }

  Kind kind() const { return kind_; }
  int64_t integer() const { return integer_; }
  std::string_view text() const { return text_; }

 private:
  Kind kind_;
  int64_t integer_ = 0;
  std::string_view text_;
};
using Params = std::span<const Param>;

// What every driver asks of values before it sends them: of all, that they are not longer
// than text_bytes_max (TMESH_E_TOO_LARGE); of those that are to be stored, that they are
// UTF-8 (TMESH_E_INVALID), which one engine would refuse and the other keep.
[[nodiscard]] Result<void> check_sizes(Params params);
[[nodiscard]] Result<void> check_values(Params params);

// The current row of a query; valid inside the row callback only.
class Row {
 public:
  virtual ~Row() = default;
  virtual bool is_null(int column) const = 0;
  // Any type but NULL as its text; NULL as an empty text.
  virtual std::string_view text(int column) const = 0;
  // nullopt for NULL, and for whatever is not a 64-bit signed integer.
  virtual std::optional<int64_t> integer(int column) const = 0;
};

class Transaction;

class Db {
 public:
  virtual ~Db() = default;
  Db(const Db&) = delete;
  Db& operator=(const Db&) = delete;

  virtual Driver driver() const = 0;

  // Runs one statement that returns no rows; gives the number of rows it matched.
  virtual Result<uint64_t> execute(std::string_view sql, Params params) = 0;

  // Runs one SELECT; `on_row` is called for each row and ends the query by returning
  // false. It must not use the database.
  virtual Result<void> query(std::string_view sql, Params params, Delegate<bool(const Row&)> on_row) = 0;

  // Names of all tables; names of a table's columns, empty if there is no such table;
  // whether an index exists.
  virtual Result<std::vector<std::string>> tables() = 0;
  virtual Result<std::vector<std::string>> columns(std::string_view table) = 0;
  virtual Result<bool> has_index(std::string_view name) = 0;

  // A number that changes when another connection committed something since the last
  // call, on drivers that can tell cheaply (SQLite's data_version); else always 0.
  virtual Result<uint64_t> foreign_commits() = 0;

  // Ends a SELECT inside a change that depends on what it reads: " FOR UPDATE" where
  // rows are locked, empty where the whole database is.
  virtual std::string_view lock_suffix() const = 0;

 protected:
  Db() = default;

 private:
  friend class Transaction;
  virtual Result<void> begin(bool is_write) = 0;
  virtual Result<void> commit() = 0;
  virtual void rollback() = 0;
};

// A transaction; rolled back by its destructor unless committed. Every function that
// changes rows takes one, so a change, its revision step and its audit row are one
// unit. One at a time per connection.
class [[nodiscard]] Transaction {
 public:
  // Takes the write lock at once (BEGIN IMMEDIATE): a transaction that reads first
  // and writes later would fail on SQLite when another writer came in between.
  static Result<Transaction> write(Db& db);
  // One unchanging view for several SELECTs.
  static Result<Transaction> read(Db& db);

  Transaction(Transaction&& other) noexcept : db_(std::exchange(other.db_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Db& db() const { return *db_; }
  // After a failure nothing of the transaction is in the database.
  [[nodiscard]] Result<void> commit();

 private:
  explicit Transaction(Db& db) : db_(&db) {}
  static Result<Transaction> start(Db& db, bool is_write);
  Db* db_;
};

}  // namespace tmesh::storage
