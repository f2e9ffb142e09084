// A prepared statement of MySQL and the rows it gave. Internal to cpp/storage.
//
// Every value is read as text, and a number's text is read as a number only where its column
// says that it is one: the rules of SQLite. Not for use after its connection is closed.
#pragma once

#include <memory>
#include <vector>

#include "cpp/storage/mysql_connection.hpp"

namespace tmesh::storage {

class MysqlStatement {
 public:
  template <class T>
  using Done = std::expected<T, MysqlFault>;

  static Done<MysqlStatement> prepare(MYSQL* mysql, std::string_view sql);

  // Runs it and reads all of its rows into memory, so that nothing of the connection is in
  // use when the first is looked at and a lost one can still be replaced unseen. Gives the
  // rows matched by a change.
  Done<uint64_t> execute(Params params);

  // Gives each row to `on_row` until that says false. After execute(), once.
  Done<void> each_row(Delegate<bool(const Row&)> on_row);

  // Drops what each_row() left.
  void release();

 private:
  struct Close {
    void operator()(MYSQL_STMT* statement) const { mysql_stmt_close(statement); }
  };
  explicit MysqlStatement(MYSQL_STMT* statement) : statement_(statement) {}
  MysqlFault fault() const;

  std::unique_ptr<MYSQL_STMT, Close> statement_;
};

}  // namespace tmesh::storage
