// Two programs write at the same time: nothing is lost, and nobody waits for ever.
#include <barrier>
#include <chrono>
#include <thread>

#include "cpp/storage/change.hpp"
#include "cpp/storage/rows.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::storage {
namespace {

using test::run_sql;
using test::scalar;

class LocksContract : public test::EngineTest {
 protected:
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    db = open(lock_wait_ms);
    run_sql(*db, "CREATE TABLE t (id INTEGER PRIMARY KEY, n BIGINT NOT NULL)");
    run_sql(*db, "INSERT INTO t (id, n) VALUES (1, 0), (2, 0)");
  }
  void TearDown() override {
    db.reset();
    EngineTest::TearDown();
  }

  static Result<void> add(Db& to, int id) {
    const Param params[] = {id};
    return change_one(to, "UPDATE t SET n = n + 1 WHERE id = ?", params);
  }
  std::string numbers() {
    return scalar(*db, "SELECT n FROM t WHERE id = 1") + ' ' + scalar(*db, "SELECT n FROM t WHERE id = 2");
  }

  static constexpr int lock_wait_ms = 1000;  // the shortest of MySQL
  static constexpr auto much_longer = std::chrono::seconds(20);
  std::unique_ptr<Db> db;
};

// Each reads a number and writes one more, as a change does that depends on what it finds.
TEST_P(LocksContract, NoUpdateIsLostBetweenTwoWriters) {
  constexpr int changes = 40;
  const auto write = [this] {
    const auto own = open(30'000);
    for (int i = 0; i < changes; ++i) {
      const Result<void> done = change(*own, [](Transaction& tx) -> Result<void> {
        const std::string sql = "SELECT n FROM t WHERE id = 1" + std::string(tx.db().lock_suffix());
        const auto n = query_one<int64_t>(tx.db(), sql, {}, [](RowReader& row) { return row.integer(); });
        if (!n) return std::unexpected(n.error());
        const Param params[] = {**n + 1};
        return change_one(tx.db(), "UPDATE t SET n = ? WHERE id = 1", params);
      });
      EXPECT_TRUE(done) << done.error().text;
    }
  };
  std::thread other(write);
  write();
  other.join();
  EXPECT_EQ(numbers(), std::to_string(2 * changes) + " 0");
}

TEST_P(LocksContract, AChangeWaitsForALimitedTimeAndLeavesNothing) {
  const auto other = open(lock_wait_ms);
  Result<Transaction> holder = Transaction::write(*other);
  ASSERT_TRUE(holder);
  ASSERT_TRUE(add(*other, 1));
  const auto before = std::chrono::steady_clock::now();
  {
    Result<Transaction> late = Transaction::write(*db);
    if (is_mysql()) {
      ASSERT_TRUE(add(*db, 2));
      EXPECT_EQ(add(*db, 1).error().code, TMESH_E_TIMEOUT);
      // The server would go on with what is left of the transaction. We do not.
      EXPECT_EQ(add(*db, 2).error().code, TMESH_E_TIMEOUT);
      EXPECT_EQ(late->commit().error().code, TMESH_E_TIMEOUT);
    } else {
      EXPECT_EQ(late.error().code, TMESH_E_TIMEOUT);
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, much_longer);
  ASSERT_TRUE(holder->commit());
  EXPECT_EQ(numbers(), "1 0");
  EXPECT_TRUE(change(*db, [](Transaction& tx) { return add(tx.db(), 1); }));
  EXPECT_EQ(numbers(), "2 0");
}

TEST_P(LocksContract, AChangeIsTriedAgainAFewTimesOnly) {
  const auto other = open(lock_wait_ms);
  Result<Transaction> holder = Transaction::write(*other);
  ASSERT_TRUE(add(*other, 1));
  int tries = 0;
  const Result<void> done = change(*db, [&](Transaction& tx) {
    ++tries;
    return add(tx.db(), 1);
  });
  EXPECT_EQ(done.error().code, TMESH_E_TIMEOUT);
  // SQLite does not even begin without the lock.
  EXPECT_EQ(tries, is_mysql() ? change_attempts_max : 0);
}

// SQLite has one writer, so only MySQL knows deadlocks.
class MysqlLocks : public LocksContract {};

// The barrier makes both hold one row before either asks for the other.
TEST_P(MysqlLocks, ADeadlockIsResolvedAndTheChangeRunAgain) {
  std::barrier<> both_hold_one(2);
  std::atomic<int> tries = 0;
  const auto work = [&](int first, int second) {
    const auto own = open(30'000);
    bool is_first_try = true;
    const Result<void> done = change(*own, [&](Transaction& tx) -> Result<void> {
      ++tries;
      if (Result<void> one = add(tx.db(), first); !one) return one;
      if (std::exchange(is_first_try, false)) both_hold_one.arrive_and_wait();
      return add(tx.db(), second);
    });
    EXPECT_TRUE(done) << done.error().text;
  };
  std::thread other(work, 2, 1);
  work(1, 2);
  other.join();
  EXPECT_EQ(numbers(), "2 2");
  EXPECT_EQ(tries, 3);
}

TEST_P(MysqlLocks, AfterADeadlockNothingOfTheTransactionIsKept) {
  const auto other = open(30'000);
  Result<Transaction> heavy = Transaction::write(*other);
  ASSERT_TRUE(add(*other, 2));
  // InnoDB gives up the transaction that has changed less: ours.
  for (int i = 100; i < 150; ++i)
    run_sql(*other, "INSERT INTO t (id, n) VALUES (" + std::to_string(i) + ", 0)");
  Result<Transaction> light = Transaction::write(*db);
  run_sql(*db, "INSERT INTO t (id, n) VALUES (10, 0)");
  ASSERT_TRUE(add(*db, 1));
  std::thread waits([&] { EXPECT_TRUE(add(*other, 1)); });
  const Result<void> lost = add(*db, 2);
  waits.join();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, TMESH_E_TIMEOUT);
  EXPECT_EQ(db->execute("INSERT INTO t (id, n) VALUES (11, 0)", {}).error().code, TMESH_E_TIMEOUT)
      << "on its own it would be committed at once";
  EXPECT_EQ(light->commit().error().code, TMESH_E_TIMEOUT);
  ASSERT_TRUE(heavy->commit());
  EXPECT_EQ(scalar(*db, "SELECT COUNT(*) FROM t WHERE id IN (10, 11)"), "0");
  EXPECT_EQ(numbers(), "1 1");
}

TMESH_BOTH_ENGINES(LocksContract);
TMESH_ONLY_MYSQL(MysqlLocks);

}  // namespace
}  // namespace tmesh::storage
