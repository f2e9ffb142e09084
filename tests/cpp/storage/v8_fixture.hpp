// A version 8 database with rows in every table, and the text of all rows of a database
// for comparison before and after.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cpp/storage/db.hpp"
#include "cpp/storage/sql_splitter.hpp"

namespace tmesh::test {

// Runs a file of tests/cpp/storage/fixtures, statement by statement.
inline void run_fixture(storage::Db& db, const std::string& name) {
  std::ifstream file(std::string(TMESH_STORAGE_FIXTURES "/") + name);
  ASSERT_TRUE(file) << name;
  const std::string script{std::istreambuf_iterator<char>(file), {}};
  const Result<std::vector<std::string_view>> statements = storage::split_sql(script, db.driver());
  ASSERT_TRUE(statements) << name;
  for (const std::string_view statement : *statements) {
    const Result<uint64_t> done = db.execute(statement, {});
    ASSERT_TRUE(done) << statement << ": " << done.error().text;
  }
}

inline void load_v8(storage::Db& db) {
  run_fixture(db, "v0008_schema.sql");
  run_fixture(db, "v0008_rows.sql");
  run_fixture(db, db.driver() == storage::Driver::sqlite ? "v0008_rows_sqlite.sql" : "v0008_rows_mysql.sql");
}

// Every row of a table in the order of its values: one line each, NULL apart from text, and
// on SQLite with the type that is stored.
inline std::string dump_table(storage::Db& db, const std::string& table) {
  const Result<std::vector<std::string>> columns = db.columns(table);
  EXPECT_TRUE(columns && !columns->empty()) << table;
  const bool has_types = db.driver() == storage::Driver::sqlite;
  std::string select;
  std::string order;
  for (const std::string& column : *columns) {
    select += (select.empty() ? "" : ", ") + column + (has_types ? ", typeof(" + column + ")" : "");
    order += (order.empty() ? "" : ", ") + column;
  }
  struct Sink {
    int columns;
    std::string text;
    bool on_row(const storage::Row& row) {
      for (int i = 0; i < columns; ++i) {
        text += row.is_null(i) ? "NULL" : "[" + std::string(row.text(i)) + "]";
        text += i + 1 < columns ? " " : "\n";
      }
      return true;
    }
  } sink{static_cast<int>(columns->size()) * (has_types ? 2 : 1), {}};
  const Result<void> done = db.query("SELECT " + select + " FROM " + table + " ORDER BY " + order, {},
                                     Delegate<bool(const storage::Row&)>::bind<&Sink::on_row>(&sink));
  EXPECT_TRUE(done) << table << ": " << (done ? "" : done.error().text);
  return sink.text;
}

inline std::string dump(storage::Db& db, const std::vector<std::string>& tables) {
  std::string text;
  for (const std::string& table : tables) text += table + ":\n" + dump_table(db, table);
  return text;
}

// Everything but the version.
inline std::vector<std::string> data_tables(storage::Db& db) {
  std::vector<std::string> tables = *db.tables();
  std::erase(tables, "schema_meta");
  return tables;
}
inline std::string dump(storage::Db& db) {
  return dump(db, data_tables(db));
}

}  // namespace tmesh::test
