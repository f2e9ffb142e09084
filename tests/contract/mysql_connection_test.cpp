// A MySQL connection that breaks, and what its user notices of it.
#include <chrono>

#include "cpp/storage/change.hpp"
#include "cpp/storage/mysql_dsn.hpp"
#include "cpp/storage/rows.hpp"
#include "tests/contract/cut_proxy.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage {
namespace {

using test::run_sql;
using test::scalar;

constexpr auto much_longer = std::chrono::seconds(40);  // than any limit set here

class MysqlConnection : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    db = open();
    run_sql(*db, "CREATE TABLE t (id INTEGER PRIMARY KEY)");
  }
  void TearDown() override {
    db.reset();
    EngineTest::TearDown();
  }

  // Ends the connection of `victim` from outside, and waits until the server has done so.
  void kill(Db& victim) {
    const std::string id = scalar(victim, "SELECT CONNECTION_ID()");
    const auto other = open();
    run_sql(*other, "KILL CONNECTION " + id);
    const auto end = std::chrono::steady_clock::now() + much_longer;
    while (scalar(*other, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = " + id) != "0") {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
    }
  }
  static Result<uint64_t> insert(Db& into, int id) {
    const Param params[] = {id};
    return into.execute("INSERT INTO t (id) VALUES (?)", params);
  }
  int64_t session_status(const std::string& name) {
    struct Sink {
      int64_t value = -1;
      bool on_row(const Row& row) {
        value = std::atoll(std::string(row.text(1)).c_str());
        return true;
      }
    } sink;
    EXPECT_TRUE(db->query("SHOW SESSION STATUS LIKE '" + name + "'", {},
                          Delegate<bool(const Row&)>::bind<&Sink::on_row>(&sink)));
    return sink.value;
  }
  // What is there, seen by somebody else.
  std::string ids() { return scalar(*open(), "SELECT COALESCE(GROUP_CONCAT(id ORDER BY id), '') FROM t"); }

  HostPort server_address() {
    const Opened<MysqlDsn> dsn = parse_mysql_dsn(server_dsn);
    return {dsn->host, dsn->port};
  }
  // The test's database through a proxy.
  std::unique_ptr<Db> open_through(const test::CutProxy& proxy, const char* parameters = "") {
    DatabaseSettings other = settings;
    const Opened<MysqlDsn> dsn = parse_mysql_dsn(server_dsn);
    other.mysql_dsn = Secret(dsn->user + ':' + std::string(dsn->password.reveal()) +
                             "@tcp(127.0.0.1:" + std::to_string(proxy.port()) + ")/" + database + parameters);
    auto opened = open_database(other, {.lock_wait_ms = 1000});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return opened ? std::move(*opened) : nullptr;
  }

  std::unique_ptr<Db> db;
};

TEST_P(MysqlConnection, IsMadeAgainForAQuery) {
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  kill(*db);
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0") << "a statement prepared on the old connection";
}

TEST_P(MysqlConnection, IsMadeAgainForAChange) {
  ASSERT_TRUE(insert(*db, 1));
  kill(*db);
  ASSERT_TRUE(insert(*db, 2)) << "lost between prepare and execute";
  EXPECT_EQ(ids(), "1,2");
}

TEST_P(MysqlConnection, IsMadeAgainForATransaction) {
  for (const bool is_write : {false, true}) {
    kill(*db);
    Result<Transaction> tx = is_write ? Transaction::write(*db) : Transaction::read(*db);
    ASSERT_TRUE(tx) << tx.error().text;
    EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
    EXPECT_TRUE(tx->commit());
  }
}

TEST_P(MysqlConnection, LostInATransactionFailsItWhole) {
  {
    Result<Transaction> tx = Transaction::write(*db);
    ASSERT_TRUE(insert(*db, 1));
    kill(*db);
    EXPECT_EQ(insert(*db, 2).error().code, TMESH_E_IO);
    EXPECT_EQ(insert(*db, 3).error().code, TMESH_E_IO) << "not on a new connection";
    EXPECT_EQ(tx->commit().error().code, TMESH_E_IO);
  }
  EXPECT_EQ(ids(), "");
  ASSERT_TRUE(change(*db, [](Transaction& tx) { return insert(tx.db(), 4); })) << "the next one works";
  EXPECT_EQ(ids(), "4");
}

TEST_P(MysqlConnection, LostBeforeTheCommitIsNotCommitted) {
  Result<Transaction> tx = Transaction::write(*db);
  ASSERT_TRUE(insert(*db, 1));
  kill(*db);
  EXPECT_EQ(tx->commit().error().code, TMESH_E_IO);
  EXPECT_EQ(ids(), "");
}

TEST_P(MysqlConnection, LostInAViewFailsTheView) {
  Result<Transaction> view = Transaction::read(*db);
  ASSERT_EQ(scalar(*db, "SELECT COUNT(*) FROM t"), "0");
  kill(*db);
  const Param none[] = {0};
  const auto found = query_one<int64_t>(*db, "SELECT id FROM t WHERE id > ?", none,
                                        [](RowReader& row) { return row.integer(); });
  EXPECT_EQ(found.error().code, TMESH_E_IO) << "a new connection would have another view";
}

TEST_P(MysqlConnection, AChangeOfUnknownOutcomeIsAnErrorAndNotRunAgain) {
  test::CutProxy proxy(server_address());
  const auto through = open_through(proxy);
  ASSERT_TRUE(insert(*through, 1));
  proxy.cut_next_answer();
  EXPECT_EQ(insert(*through, 2).error().code, TMESH_E_IO);
  EXPECT_EQ(ids(), "1,2") << "it was done; a second run would have said STATE";
  ASSERT_TRUE(insert(*through, 3));
  EXPECT_EQ(ids(), "1,2,3");
}

TEST_P(MysqlConnection, ACommitOfUnknownOutcomeIsAnErrorAndNotRunAgain) {
  test::CutProxy proxy(server_address());
  const auto through = open_through(proxy);
  int runs = 0;
  const Result<uint64_t> done = change(*through, [&](Transaction& tx) {
    ++runs;
    Result<uint64_t> made = insert(tx.db(), 1);
    proxy.cut_next_answer();
    return made;
  });
  EXPECT_EQ(done.error().code, TMESH_E_IO);
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(ids(), "1") << "this one was committed";
}

TEST_P(MysqlConnection, AQueryWhoseAnswerIsLostIsRunAgain) {
  test::CutProxy proxy(server_address());
  const auto through = open_through(proxy);
  EXPECT_EQ(scalar(*through, "SELECT COUNT(*) FROM t"), "0");
  proxy.cut_next_answer();
  EXPECT_EQ(scalar(*through, "SELECT COUNT(*) FROM t"), "0");
  EXPECT_EQ(proxy.accepted(), 2);
}

TEST_P(MysqlConnection, IsMadeAgainOnceForEachCall) {
  auto proxy = std::make_unique<test::CutProxy>(server_address());
  const auto through = open_through(*proxy);
  proxy.reset();
  EXPECT_EQ(insert(*through, 1).error().code, TMESH_E_IO);
  EXPECT_EQ(Transaction::write(*through).error().code, TMESH_E_IO);
  EXPECT_EQ(ids(), "");
}

TEST_P(MysqlConnection, ASilentServerIsWaitedForUntilTheReadTimeout) {
  test::CutProxy proxy(server_address());
  const auto through = open_through(proxy, "?timeout=1s&readTimeout=2s&writeTimeout=2s");
  proxy.mute();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(insert(*through, 1).error().code, TMESH_E_IO);
  EXPECT_LT(std::chrono::steady_clock::now() - before, much_longer);
}

TEST_P(MysqlConnection, AServerThatNeverGreetsIsAProblem) {
  test::CutProxy proxy(server_address());
  proxy.mute();
  DatabaseSettings other = settings;
  other.mysql_dsn =
      Secret("u:p@tcp(127.0.0.1:" + std::to_string(proxy.port()) + ")/d?timeout=1s&readTimeout=2s");
  const auto before = std::chrono::steady_clock::now();
  const auto opened = open_database(other, {});
  EXPECT_LT(std::chrono::steady_clock::now() - before, much_longer);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, TMESH_E_IO);
}

TEST_P(MysqlConnection, KeepsALimitedNumberOfStatements) {
  for (int i = 0; i < 200; ++i) EXPECT_EQ(scalar(*db, "SELECT " + std::to_string(i)), std::to_string(i));
  const int64_t kept = session_status("Com_stmt_prepare") - session_status("Com_stmt_close");
  EXPECT_GE(kept, 1);
  EXPECT_LE(kept, 65) << "64, and the one that asks";
}

TEST_P(MysqlConnection, IsUsableFromAnyThreadInTurn) {
  for (int i = 1; i <= 4; ++i) {
    std::thread([&, i] { EXPECT_TRUE(insert(*db, i)); }).join();
  }
  EXPECT_EQ(ids(), "1,2,3,4");
}

TMESH_ONLY_MYSQL(MysqlConnection);

}  // namespace
}  // namespace tmesh::storage
