// Reading query results into values. Internal to cpp/storage.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/storage/db.hpp"

// A text column compared byte for byte, as SQLite does it, where a deployed MySQL table may not
// tell 'Alice' from 'alice' or from 'alice '. What stands in /*! */ is a comment to SQLite. No
// index serves it, so it stands beside a plain comparison:
//   "WHERE name = ? AND " TMESH_SQL_EXACT("name") " = ?"
#define TMESH_SQL_EXACT(column) "/*!CAST(CONVERT(*/ " column " /*! USING utf8mb4) AS BINARY)*/"

namespace tmesh::storage {

// Reads the columns of one row from left to right and remembers whether one of them
// was not what its column promises, so that a malformed row is an error and never
// a record with a default in it.
class RowReader {
 public:
  explicit RowReader(const Row& row) : row_(row) {}

  std::string text() {
    if (row_.is_null(column_)) is_bad_ = true;
    return std::string(row_.text(column_++));
  }
  // NULL and empty are both "absent".
  std::string optional_text() { return std::string(row_.text(column_++)); }
  int64_t integer() {
    const std::optional<int64_t> value = row_.integer(column_++);
    if (!value) is_bad_ = true;
    return value.value_or(0);
  }
  bool boolean() {
    const int64_t value = integer();
    if (value != 0 && value != 1) is_bad_ = true;
    return value == 1;
  }
  bool is_bad() const { return is_bad_; }

 private:
  const Row& row_;
  int column_ = 0;
  bool is_bad_ = false;
};

// Runs a query and maps each row with `map(RowReader&) -> T`.
template <class T, class Map>
Result<std::vector<T>> query_all(Db& db, std::string_view sql, Params params, Map map) {
  struct Sink {
    Map& map;
    std::vector<T> items;
    bool is_bad = false;
    bool on_row(const Row& row) {
      RowReader reader(row);
      items.push_back(map(reader));
      is_bad = reader.is_bad();
      return !is_bad;
    }
  } sink{map, {}, false};
  Result<void> done = db.query(sql, params, Delegate<bool(const Row&)>::template bind<&Sink::on_row>(&sink));
  if (!done) return std::unexpected(done.error());
  if (sink.is_bad) return fail(TMESH_E_INVALID, "a stored row has a value of the wrong type");
  return std::move(sink.items);
}

// As query_all for at most one row; nullopt if there is none.
template <class T, class Map>
Result<std::optional<T>> query_one(Db& db, std::string_view sql, Params params, Map map) {
  Result<std::vector<T>> all = query_all<T>(db, sql, params, std::move(map));
  if (!all) return std::unexpected(all.error());
  if (all->empty()) return std::optional<T>();
  return std::optional<T>(std::move(all->front()));
}

// The number that "SELECT COUNT(*) …" gives.
inline Result<int64_t> query_count(Db& db, std::string_view sql, Params params) {
  const auto read = [](RowReader& row) { return row.integer(); };
  Result<std::optional<int64_t>> found = query_one<int64_t>(db, sql, params, read);
  if (!found) return std::unexpected(found.error());
  return found->value_or(0);
}

// Runs a change that must match exactly one row.
inline Result<void> change_one(Db& db, std::string_view sql, Params params) {
  Result<uint64_t> changed = db.execute(sql, params);
  if (!changed) return std::unexpected(changed.error());
  if (*changed != 1) return fail(TMESH_E_STATE, "the row to change does not exist");
  return {};
}

}  // namespace tmesh::storage
