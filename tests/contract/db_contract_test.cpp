// What a connection promises (cpp/storage/db.hpp), on both engines.
#include "cpp/storage/change.hpp"
#include "cpp/storage/rows.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage {
namespace {

using test::run_sql;
using test::scalar;

class DbContract : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    db = open();
    run_sql(*db, std::string("CREATE TABLE t (id BIGINT PRIMARY KEY, v VARCHAR(100) UNIQUE, w TEXT) ") +
                     (is_mysql() ? "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin" : ""));
  }
  void TearDown() override {
    db.reset();
    EngineTest::TearDown();
  }

  Result<uint64_t> insert(Db& into, int64_t id, Param v) {
    const Param params[] = {id, v};
    return into.execute("INSERT INTO t (id, v) VALUES (?, ?)", params);
  }
  void must_insert(int64_t id, Param v) {
    const Result<uint64_t> done = insert(*db, id, v);
    ASSERT_TRUE(done) << done.error().text;
    EXPECT_EQ(*done, 1U);
  }
  std::vector<std::optional<int64_t>> integers(std::string_view sql, int columns) {
    struct Sink {
      int columns;
      std::vector<std::optional<int64_t>> values;
      bool on_row(const Row& row) {
        for (int i = 0; i < columns; ++i) values.push_back(row.integer(i));
        return true;
      }
    } sink{columns, {}};
    const Result<void> done = db->query(sql, {}, Delegate<bool(const Row&)>::bind<&Sink::on_row>(&sink));
    EXPECT_TRUE(done) << sql << ": " << (done ? "" : done.error().text);
    return sink.values;
  }

  std::unique_ptr<Db> db;
};

TEST_P(DbContract, ValuesComeBackAsTheyWent) {
  must_insert(1, "it's; -- \xc3\xa4 \xf0\x9f\xa7\x8a \\ \" %_");
  must_insert(INT64_MAX, "");
  must_insert(INT64_MIN, nullptr);
  must_insert(-1, std::string_view("a\0b", 3));
  EXPECT_EQ(scalar(*db, "SELECT v FROM t WHERE id = 1"), "it's; -- \xc3\xa4 \xf0\x9f\xa7\x8a \\ \" %_");
  EXPECT_EQ(scalar(*db, "SELECT v IS NULL FROM t WHERE id = -9223372036854775808"), "1");
  EXPECT_EQ(scalar(*db, "SELECT v IS NULL FROM t WHERE id = 9223372036854775807"), "0")
      << "an empty text is not NULL";
  EXPECT_EQ(scalar(*db, "SELECT v FROM t WHERE id = -1"), std::string("a\0b", 3));
}

// LESSONS R16: node epochs are random 64-bit numbers.
TEST_P(DbContract, IntegersHave64Bits) {
  for (const int64_t value :
       {int64_t{0}, int64_t{-1}, int64_t{INT32_MAX} + 1, (int64_t{1} << 40) + 7, INT64_MAX, INT64_MIN}) {
    run_sql(*db, "DELETE FROM t");
    must_insert(value, "x");
    EXPECT_EQ(integers("SELECT id FROM t", 1), std::vector<std::optional<int64_t>>{value});
    const Param params[] = {value};
    EXPECT_EQ(*db->execute("UPDATE t SET v = 'y' WHERE id = ?", params), 1U) << value;
  }
}

TEST_P(DbContract, IntegerRefusesOtherTypes) {
  const std::vector<std::optional<int64_t>> wanted = {
      7, std::nullopt, std::nullopt, std::nullopt, std::nullopt, std::nullopt};
  EXPECT_EQ(integers("SELECT 7, '7', NULL, 7.5, 9223372036854775808, 1e3", 6), wanted);
  must_insert(3, "x");
  must_insert(4, "y");
  EXPECT_EQ(integers("SELECT COUNT(*), SUM(id), MAX(id) FROM t", 3),
            (std::vector<std::optional<int64_t>>{2, 7, 4}));
}

TEST_P(DbContract, TextIsWhateverTheTypeIs) {
  struct Sink {
    std::vector<std::string> values;
    bool on_row(const Row& row) {
      for (int i = 0; i < 4; ++i) values.emplace_back(row.text(i));
      EXPECT_TRUE(row.is_null(3));
      EXPECT_FALSE(row.is_null(0));
      return true;
    }
  } sink;
  ASSERT_TRUE(db->query("SELECT 7, '7', -9223372036854775807, NULL", {},
                        Delegate<bool(const Row&)>::bind<&Sink::on_row>(&sink)));
  EXPECT_EQ(sink.values, (std::vector<std::string>{"7", "7", "-9223372036854775807", ""}));
}

TEST_P(DbContract, AQueryEndsWhenItsCallbackSaysSo) {
  for (int i = 1; i <= 3; ++i) must_insert(i, std::to_string(i));
  struct Sink {
    int rows = 0;
    bool on_row(const Row&) { return ++rows < 2; }
  } sink;
  ASSERT_TRUE(db->query("SELECT id FROM t", {}, Delegate<bool(const Row&)>::bind<&Sink::on_row>(&sink)));
  EXPECT_EQ(sink.rows, 2);
  must_insert(4, "the statement is free again");
}

TEST_P(DbContract, ExecuteCountsTheRowsItMatched) {
  must_insert(1, "a");
  must_insert(2, "b");
  EXPECT_EQ(*db->execute("UPDATE t SET v = v", {}), 2U) << "though none changed";
  EXPECT_EQ(*db->execute("DELETE FROM t WHERE id = 3", {}), 0U);
  EXPECT_EQ(*db->execute("DELETE FROM t", {}), 2U);
}

TEST_P(DbContract, ErrorsHaveTheirCodes) {
  must_insert(1, "a");
  EXPECT_EQ(insert(*db, 2, "a").error().code, TMESH_E_STATE) << "unique";
  EXPECT_EQ(insert(*db, 1, "b").error().code, TMESH_E_STATE) << "primary key";
  run_sql(*db, "CREATE TABLE n (v VARCHAR(10) NOT NULL)");
  const Param null[] = {nullptr};
  EXPECT_EQ(db->execute("INSERT INTO n (v) VALUES (?)", null).error().code, TMESH_E_INVALID);
  EXPECT_EQ(db->execute("UPDATE nothing SET v = 1", {}).error().code, TMESH_E_IO);
  EXPECT_EQ(db->execute("UPDATE t SET nothing = 1", {}).error().code, TMESH_E_IO);
  EXPECT_EQ(db->execute("UPDTE t", {}).error().code, TMESH_E_IO);
  must_insert(4, "usable after every error");
}

TEST_P(DbContract, AValueIsAsLongAsBothEnginesTake) {
  const std::string most(text_bytes_max, 'x');
  const std::string more = most + 'x';
  const Param fits[] = {most};
  run_sql(*db, "INSERT INTO t (id, w) VALUES (1, ?)", fits);
  EXPECT_EQ(scalar(*db, "SELECT w FROM t WHERE id = 1"), most);
  const Param too_long[] = {more};
  EXPECT_EQ(db->execute("INSERT INTO t (id, w) VALUES (2, ?)", too_long).error().code, TMESH_E_TOO_LARGE);
  const Result<std::vector<int64_t>> found = query_all<int64_t>(*db, "SELECT id FROM t WHERE w = ?", too_long,
                                                                [](RowReader& row) { return row.integer(); });
  EXPECT_EQ(found.error().code, TMESH_E_TOO_LARGE);
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

TEST_P(DbContract, WhatIsNotUtf8IsNotStored) {
  for (const char* bytes : {"\xff", "caf\xe9", "\xc3", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    EXPECT_EQ(insert(*db, 1, bytes).error().code, TMESH_E_INVALID) << bytes;
    const Param params[] = {bytes};
    const Result<std::vector<int64_t>> found = query_all<int64_t>(
        *db, "SELECT id FROM t WHERE v = ?", params, [](RowReader& row) { return row.integer(); });
    ASSERT_TRUE(found) << "it can be asked for, and is not there";
    EXPECT_TRUE(found->empty());
  }
  must_insert(1, "x");
}

TEST_P(DbContract, SqlInAValueIsOnlyText) {
  constexpr const char* hostile[] = {
      "'; DROP TABLE t; --",      "\\'; DROP TABLE t; #", "\" OR \"\"=\"", "x' OR '1'='1", "?",
      "/*!50000 DROP TABLE t */", "%00' UNION SELECT 1"};
  int64_t id = 0;
  for (const char* text : hostile) {
    must_insert(++id, text);
    const Param params[] = {text};
    EXPECT_EQ(*db->execute("UPDATE t SET w = 'seen' WHERE v = ?", params), 1U) << text;
    const Param by_id[] = {id};
    const auto back = query_one<std::string>(*db, "SELECT v FROM t WHERE id = ?", by_id,
                                             [](RowReader& row) { return row.text(); });
    EXPECT_EQ(**back, text);
  }
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), std::to_string(id));
}

TEST_P(DbContract, ADestroyedTransactionIsRolledBack) {
  {
    Result<Transaction> tx = Transaction::write(*db);
    ASSERT_TRUE(tx);
    must_insert(1, "a");
  }
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  Result<Transaction> tx = Transaction::write(*db);
  must_insert(1, "a");
  EXPECT_TRUE(tx->commit());
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

TEST_P(DbContract, AFailedStatementLeavesTheRestOfItsTransaction) {
  Result<Transaction> tx = Transaction::write(*db);
  must_insert(1, "a");
  EXPECT_EQ(insert(*db, 2, "a").error().code, TMESH_E_STATE);
  must_insert(2, "b");
  ASSERT_TRUE(tx->commit());
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "2");
}

TEST_P(DbContract, AReadTransactionSeesOneState) {
  std::unique_ptr<Db> other = open();
  Result<Transaction> view = Transaction::read(*db);
  ASSERT_TRUE(view);
  // SQLite takes its view with the first statement.
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  ASSERT_TRUE(insert(*other, 1, "a"));
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  ASSERT_TRUE(view->commit());
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

TEST_P(DbContract, WithoutATransactionEachQueryIsCurrent) {
  std::unique_ptr<Db> other = open();
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  ASSERT_TRUE(insert(*other, 1, "a"));
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

TEST_P(DbContract, TellsItsTablesColumnsAndIndexes) {
  run_sql(*db, "CREATE INDEX i_t ON t (id, v)");
  run_sql(*db, "CREATE TABLE t_a (id INTEGER)");
  run_sql(*db, "CREATE TABLE ta (id INTEGER)");
  EXPECT_EQ(*db->tables(), (std::vector<std::string>{"t", "t_a", "ta"}));
  EXPECT_EQ(*db->columns("t"), (std::vector<std::string>{"id", "v", "w"}));
  EXPECT_TRUE(db->columns("nothing")->empty());
  EXPECT_TRUE(*db->has_index("i_t"));
  EXPECT_FALSE(*db->has_index("t"));
}

TEST_P(DbContract, MoreStatementsThanAreKept) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(scalar(*db, "SELECT " + std::to_string(i)), std::to_string(i));
}

TMESH_BOTH_ENGINES(DbContract);

}  // namespace
}  // namespace tmesh::storage
