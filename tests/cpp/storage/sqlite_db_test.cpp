#include "cpp/storage/sqlite_db.hpp"

#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::storage {
namespace {

using test::open_db;
using test::run_sql;
using test::scalar;
using test::TempDir;

void insert(Db& db, int64_t id, std::string_view text) {
  const Param params[] = {id, text};
  run_sql(db, "INSERT INTO t (id, v) VALUES (?, ?)", params);
}

struct TwoColumns : testing::Test {
  TempDir dir;
  std::string path = dir.file("x.db");
  std::unique_ptr<Db> db = open_db(path);
  void SetUp() override { run_sql(*db, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT UNIQUE)"); }
};

TEST(SqliteOpen, CreatesTheFileForItsOwnerOnly) {
  const TempDir dir;
  const ::mode_t before = ::umask(0);
  std::unique_ptr<Db> db = open_db(dir.file("x.db"));
  ::umask(before);
  run_sql(*db, "CREATE TABLE t (id INTEGER)");
  for (const char* name : {"x.db", "x.db-wal", "x.db-shm"}) {
    struct stat about{};
    ASSERT_EQ(::stat(dir.file(name).c_str(), &about), 0) << name;
    EXPECT_EQ(about.st_mode & 0777, 0600U) << name;
  }
}

TEST(SqliteOpen, UsesTheWalJournalAndFullSync) {
  const TempDir dir;
  std::unique_ptr<Db> db = open_db(dir.file("x.db"));
  EXPECT_EQ(scalar(*db, "PRAGMA journal_mode"), "wal");
  EXPECT_EQ(scalar(*db, "PRAGMA synchronous"), "2");
}

// A database of another program may have another journal, and that program may hold it.
TEST(SqliteOpen, WaitsForALockedFileOnceAndNotForEachTry) {
  const TempDir dir;
  std::unique_ptr<Db> other = open_db(dir.file("x.db"));
  run_sql(*other, "CREATE TABLE t (id INTEGER)");
  ASSERT_EQ(scalar(*other, "PRAGMA journal_mode = DELETE"), "delete");
  Result<Transaction> lock = Transaction::read(*other);
  ASSERT_TRUE(lock);
  ASSERT_EQ(scalar(*other, "SELECT COUNT(*) FROM t"), "0");
  constexpr int busy_timeout_ms = 200;
  const auto before = std::chrono::steady_clock::now();
  const auto db =
      open_sqlite({.path = dir.file("x.db"), .create = false, .busy_timeout_ms = busy_timeout_ms});
  const auto waited = std::chrono::steady_clock::now() - before;
  ASSERT_FALSE(db);
  EXPECT_EQ(db.error().code, TMESH_E_TIMEOUT);
  EXPECT_GE(waited, std::chrono::milliseconds(busy_timeout_ms));
  EXPECT_LT(waited, std::chrono::milliseconds(10 * busy_timeout_ms));  // once would be 20 times
}

TEST(SqliteOpen, MissingFileIsAnErrorWithoutCreate) {
  const TempDir dir;
  const auto db = open_sqlite({.path = dir.file("none.db"), .create = false});
  ASSERT_FALSE(db);
  EXPECT_EQ(db.error().text,
            dir.file("none.db") + ": there is no database here: run quickstart, or start the server once");
  EXPECT_FALSE(std::filesystem::exists(dir.file("none.db")));
}

TEST(SqliteOpen, NamesThePathOfWhatIsNoDatabase) {
  const TempDir dir;
  std::ofstream(dir.file("text")) << std::string(5000, 'x');
  std::filesystem::create_directory(dir.file("folder"));
  for (const auto& [path, reason] : {std::pair{dir.file("text"), "the file is damaged or is not a database"},
                                     std::pair{dir.file("folder"), "Is a directory"},
                                     std::pair{dir.file("no/such/x.db"), "No such file or directory"}}) {
    const auto db = open_sqlite({.path = path});
    ASSERT_FALSE(db) << path;
    EXPECT_EQ(db.error().code, TMESH_E_IO);
    EXPECT_EQ(db.error().text, path + ": " + reason);
  }
  EXPECT_EQ(open_sqlite({.path = ""}).error().text, "storage.sqlite.path is empty");
}

TEST_F(TwoColumns, ValuesComeBackAsTheyWent) {
  insert(*db, 1, "it's; -- \xc3\xa4");
  insert(*db, INT64_MAX, "");
  const Param null[] = {2, nullptr};
  run_sql(*db, "INSERT INTO t (id, v) VALUES (?, ?)", null);
  EXPECT_EQ(scalar(*db, "SELECT v FROM t WHERE id = 1"), "it's; -- \xc3\xa4");
  EXPECT_EQ(scalar(*db, "SELECT v IS NULL FROM t WHERE id = 2"), "1");
  EXPECT_EQ(scalar(*db, "SELECT v IS NULL FROM t WHERE id = 9223372036854775807"), "0")
      << "an empty text is not NULL";
}

TEST_F(TwoColumns, IntegerRefusesOtherTypes) {
  struct Sink {
    std::vector<std::optional<int64_t>> values;
    bool on_row(const Row& row) {
      for (int i = 0; i < 5; ++i) values.push_back(row.integer(i));
      EXPECT_TRUE(row.is_null(2));
      EXPECT_FALSE(row.is_null(0));
      return true;
    }
  } sink;
  ASSERT_TRUE(db->query("SELECT 7, '7', NULL, 7.0, 9223372036854775808", {},
                        Delegate<bool(const Row&)>::bind<&Sink::on_row>(&sink)));
  const std::vector<std::optional<int64_t>> wanted = {7, std::nullopt, std::nullopt, std::nullopt,
                                                      std::nullopt};
  EXPECT_EQ(sink.values, wanted);
}

TEST_F(TwoColumns, AQueryEndsWhenItsCallbackSaysSo) {
  for (int i = 1; i <= 3; ++i) insert(*db, i, std::to_string(i));
  struct Sink {
    int rows = 0;
    bool on_row(const Row&) { return ++rows < 2; }
  } sink;
  ASSERT_TRUE(db->query("SELECT id FROM t", {}, Delegate<bool(const Row&)>::bind<&Sink::on_row>(&sink)));
  EXPECT_EQ(sink.rows, 2);
  insert(*db, 4, "the statement is free again");
}

TEST_F(TwoColumns, ExecuteCountsTheRowsItMatched) {
  insert(*db, 1, "a");
  insert(*db, 2, "b");
  EXPECT_EQ(*db->execute("UPDATE t SET v = v", {}), 2U);
  EXPECT_EQ(*db->execute("DELETE FROM t WHERE id = 3", {}), 0U);
}

TEST_F(TwoColumns, ErrorsHaveTheirCodes) {
  insert(*db, 1, "a");
  const Param same[] = {2, "a"};
  EXPECT_EQ(db->execute("INSERT INTO t (id, v) VALUES (?, ?)", same).error().code, TMESH_E_STATE);
  run_sql(*db, "CREATE TABLE n (v TEXT NOT NULL)");
  const Param null[] = {nullptr};
  EXPECT_EQ(db->execute("INSERT INTO n (v) VALUES (?)", null).error().code, TMESH_E_INVALID);
  EXPECT_EQ(db->execute("UPDATE nothing SET v = 1", {}).error().code, TMESH_E_IO);
  const std::string big(17 * 1024 * 1024, 'x');
  const Param large[] = {3, big};
  EXPECT_EQ(db->execute("INSERT INTO t (id, v) VALUES (?, ?)", large).error().code, TMESH_E_TOO_LARGE);
  insert(*db, 4, "usable after every error");
}

TEST_F(TwoColumns, AFullDiskIsItsOwnErrorAndLeavesNothing) {
  insert(*db, 1, "before");
  run_sql(*db, "PRAGMA wal_checkpoint(TRUNCATE)");
  EXPECT_EQ(scalar(*db, "PRAGMA max_page_count = 4"), "4");  // what a full disk looks like to SQLite
  {
    Result<Transaction> tx = Transaction::write(*db);
    ASSERT_TRUE(tx);
    insert(*db, 2, "first half");
    Result<uint64_t> full = 1;
    for (int id = 3; full && id < 10; ++id) {
      const std::string big(60'000, static_cast<char>('0' + id));
      const Param params[] = {id, big};
      full = db->execute("INSERT INTO t (id, v) VALUES (?, ?)", params);
    }
    ASSERT_FALSE(full);
    EXPECT_EQ(full.error().code, TMESH_E_LIMIT);
    EXPECT_STREQ(full.error().text, "the disk that holds the database is full");
  }
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
  insert(*db, 4, "small");
}

TEST_F(TwoColumns, ADestroyedTransactionIsRolledBack) {
  {
    Result<Transaction> tx = Transaction::write(*db);
    ASSERT_TRUE(tx);
    insert(tx->db(), 1, "a");
  }
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  Result<Transaction> tx = Transaction::write(*db);
  insert(tx->db(), 1, "a");
  EXPECT_TRUE(tx->commit());
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

// What comes behind would be committed on its own.
TEST_F(TwoColumns, AfterSqliteUndidATransactionItTakesNothingMore) {
  insert(*db, 1, "a");
  {
    Result<Transaction> tx = Transaction::write(*db);
    insert(*db, 2, "b");
    EXPECT_FALSE(db->execute("INSERT OR ROLLBACK INTO t (id, v) VALUES (1, 'x')", {}));
    EXPECT_EQ(db->execute("INSERT INTO t (id, v) VALUES (3, 'c')", {}).error().code, TMESH_E_IO);
    EXPECT_EQ(tx->commit().error().code, TMESH_E_IO);
  }
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
  EXPECT_TRUE(Transaction::write(*db)) << "the next one works";
}

TEST_F(TwoColumns, AMovedTransactionBelongsToItsNewOwner) {
  {
    Result<Transaction> tx = Transaction::write(*db);
    Transaction moved = std::move(*tx);
    insert(*db, 1, "a");
    EXPECT_TRUE(moved.commit());
  }
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

TEST_F(TwoColumns, AWriteTransactionTakesTheLockAtOnce) {
  std::unique_ptr<Db> other = open_db(path);
  Result<Transaction> tx = Transaction::write(*db);
  ASSERT_TRUE(tx);
  const Result<Transaction> second = Transaction::write(*other);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, TMESH_E_TIMEOUT);
  EXPECT_EQ(scalar(*other, "SELECT COUNT(*) FROM t"), "0") << "readers are not kept waiting";
  ASSERT_TRUE(tx->commit());
  EXPECT_TRUE(Transaction::write(*other));
}

TEST_F(TwoColumns, AReadTransactionSeesOneState) {
  std::unique_ptr<Db> other = open_db(path);
  Result<Transaction> view = Transaction::read(*db);
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  insert(*other, 1, "a");
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  ASSERT_TRUE(view->commit());
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "1");
}

TEST_F(TwoColumns, ForeignCommitsShowOthersCommitsOnly) {
  std::unique_ptr<Db> other = open_db(path);
  const uint64_t before = *db->foreign_commits();
  insert(*db, 1, "own");
  EXPECT_EQ(*db->foreign_commits(), before);
  insert(*other, 2, "foreign");
  const uint64_t after = *db->foreign_commits();
  EXPECT_NE(after, before);
  EXPECT_EQ(*db->foreign_commits(), after);
}

TEST_F(TwoColumns, TellsItsTablesColumnsAndIndexes) {
  run_sql(*db, "CREATE INDEX i_t ON t (v)");
  EXPECT_EQ(*db->tables(), std::vector<std::string>{"t"});
  EXPECT_EQ(*db->columns("t"), (std::vector<std::string>{"id", "v"}));
  EXPECT_TRUE(db->columns("nothing")->empty());
  EXPECT_TRUE(*db->has_index("i_t"));
  EXPECT_FALSE(*db->has_index("t"));
}

TEST_F(TwoColumns, MoreStatementsThanTheCacheHolds) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(scalar(*db, "SELECT " + std::to_string(i)), std::to_string(i));
}

}  // namespace
}  // namespace tmesh::storage
