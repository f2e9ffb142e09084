#include "cpp/server/housekeeper.hpp"

#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/ws_fixture.hpp"

namespace tmesh::server {
namespace {

struct HousekeeperTest : test::WsFixture {
  HousekeeperTest() {
    test::run_sql(*rows.db, "DELETE FROM audit_logs");
    add(2 * housekeeping_rows_max + 1, "2020-01-01T00:00:00Z");
    add(1, "2999-01-01T00:00:00Z");
  }
  void add(int count, const char* at) {
    storage::Transaction tx = std::move(*storage::Transaction::write(*rows.db));
    for (int i = 0; i < count; i++) {
      storage::AuditRecord row;
      row.id = std::string(at) + std::to_string(i);
      row.action = "test";
      row.resource_type = "test";
      row.details = "{}";
      row.created_at = at;
      ASSERT_TRUE(storage::AuditRepository::append(tx, row));
    }
    ASSERT_TRUE(tx.commit());
  }
  std::string left() { return test::scalar(*rows.db, "SELECT COUNT(*) FROM audit_logs"); }
  bool until(const std::string& count) {
    return run_until([&] { return left() == count && timers.count() == 1; });
  }
};

TEST_F(HousekeeperTest, OldRowsGoInBatchesWithPausesOnceADay) {
  Housekeeper keeper(timers, *database, 30);
  timers.advance(Housekeeper::kFirst_us - 1);
  EXPECT_EQ(left(), "1002");
  timers.advance(1);
  EXPECT_TRUE(until("502"));
  timers.advance(Housekeeper::kPause_us - 1);
  EXPECT_EQ(left(), "502") << "others have the database in between";
  timers.advance(1);
  EXPECT_TRUE(until("2"));
  timers.advance(Housekeeper::kPause_us);
  EXPECT_TRUE(until("1"));
  add(1, "2020-01-01T00:00:00Z");
  timers.advance(Housekeeper::kInterval_us - 1);
  EXPECT_EQ(left(), "2");
  timers.advance(1);
  EXPECT_TRUE(until("1"));
}

TEST_F(HousekeeperTest, WithoutARetentionAuditRowsStay) {
  Housekeeper keeper(timers, *database, 0);
  timers.advance(Housekeeper::kFirst_us);
  ASSERT_TRUE(run_until([&] { return timers.count() == 1; }));
  EXPECT_EQ(left(), "1002");
}

TEST_F(HousekeeperTest, ADatabaseThatFailsIsTriedAgainLater) {
  test::run_sql(*rows.db, "ALTER TABLE audit_logs RENAME TO gone");
  Housekeeper keeper(timers, *database, 30);
  timers.advance(Housekeeper::kFirst_us);
  ASSERT_TRUE(run_until([&] { return timers.count() == 1; }));
  test::run_sql(*rows.db, "ALTER TABLE gone RENAME TO audit_logs");
  timers.advance(Housekeeper::kRetry_us);
  EXPECT_TRUE(until("502"));
}

}  // namespace
}  // namespace tmesh::server
