#include "cpp/server/housekeeping.hpp"

#include "cpp/storage/audit_repository.hpp"
#include "tests/cpp/server/admin_fixture.hpp"

namespace tmesh::server {
namespace {

struct HousekeepingTest : testing::Test {
  test::TempDir dir;
  test::FakeClock time;  // 2027-01-15T08:00:00Z
  std::unique_ptr<storage::Db> db = test::open_migrated(dir.file("x.db"));

  void add_entries(int count, const char* created_at) {
    for (int i = 0; i < count; ++i) {
      const std::string id = "audit-" + std::string(created_at) + std::to_string(i);
      const storage::Param params[] = {id, created_at};
      test::run_sql(*db,
                    "INSERT INTO audit_logs (id, action, resource_type, details, created_at) VALUES (?, 'a', "
                    "'b', '{}', ?)",
                    params);
    }
  }
  std::string count(const std::string& table) { return test::scalar(*db, "SELECT COUNT(*) FROM " + table); }
};

TEST_F(HousekeepingTest, AuditEntriesGoAfterTheirDays) {
  add_entries(1, "2027-01-05T07:59:59Z");
  add_entries(1, "2027-01-05T08:00:01Z");
  const Result<Housekept> kept = housekeep(*db, time.now_us, 10);
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->audit_count, 1U);
  EXPECT_FALSE(kept->has_more);
  EXPECT_EQ(test::scalar(*db, "SELECT created_at FROM audit_logs"), "2027-01-05T08:00:01Z");
}

TEST_F(HousekeepingTest, ZeroDaysKeepThemForEver) {
  add_entries(1, "1970-01-01T00:00:00Z");
  EXPECT_EQ(housekeep(*db, time.now_us, 0)->audit_count, 0U);
  EXPECT_EQ(count("audit_logs"), "1");
}

TEST_F(HousekeepingTest, TheLongestRetentionIsNoOverflow) {
  add_entries(1, "1970-01-01T00:00:00Z");
  EXPECT_EQ(housekeep(*db, time.now_us, 36500)->audit_count, 0U);
  EXPECT_EQ(count("audit_logs"), "1");
}

TEST_F(HousekeepingTest, OneCallRemovesOneBatch) {
  add_entries(housekeeping_rows_max + 1, "2026-01-01T00:00:00Z");
  EXPECT_TRUE(housekeep(*db, time.now_us, 10)->has_more);
  EXPECT_EQ(count("audit_logs"), "1");
  const Result<Housekept> last = housekeep(*db, time.now_us, 10);
  EXPECT_EQ(last->audit_count, 1U);
  EXPECT_FALSE(last->has_more);
  EXPECT_EQ(count("audit_logs"), "0");
}

TEST_F(HousekeepingTest, SessionsGoADayAfterTheirEnd) {
  const char* insert =
      "INSERT INTO api_tokens (id, user_id, token_hash, revoked_at, expires_at, created_at) VALUES (?, 'u', "
      "?, ?, "
      "?, '2026-01-01T00:00:00Z')";
  const struct {
    const char* id;
    const char* revoked;
    const char* expires;
  } rows[] = {{"live", "", ""},
              {"revoked", "2027-01-14T07:59:00Z", ""},
              {"just-revoked", "2027-01-14T08:01:00Z", ""},
              {"expired", "", "2027-01-14T07:59:00Z"},
              {"just-expired", "", "2027-01-14T08:01:00Z"},
              {"later", "", "2027-02-01T00:00:00Z"}};
  for (const auto& row : rows) {
    const storage::Param params[] = {row.id, row.id, storage::Param::nullable(row.revoked),
                                     storage::Param::nullable(row.expires)};
    test::run_sql(*db, insert, params);
  }
  EXPECT_EQ(housekeep(*db, time.now_us, 0)->session_count, 2U);
  EXPECT_EQ(test::scalar(*db, "SELECT GROUP_CONCAT(id) FROM (SELECT id FROM api_tokens ORDER BY id)"),
            "just-expired,just-revoked,later,live");
}

TEST_F(HousekeepingTest, KeptAnswersGoWhenTheyExpire) {
  for (const char* expires : {"2027-01-15T07:59:59Z", "2027-01-15T08:00:01Z"}) {
    const storage::Param params[] = {expires, expires};
    test::run_sql(*db,
                  "INSERT INTO idempotency_keys (idempotency_key, response, created_at, expires_at) VALUES "
                  "('k' || ?, '{}', '2027-01-01T00:00:00Z', ?)",
                  params);
  }
  EXPECT_EQ(housekeep(*db, time.now_us, 0)->idempotency_count, 1U);
  EXPECT_EQ(test::scalar(*db, "SELECT expires_at FROM idempotency_keys"), "2027-01-15T08:00:01Z");
}

TEST_F(HousekeepingTest, AFailureIsSaid) {
  test::run_sql(*db, "DROP TABLE api_tokens");
  EXPECT_FALSE(housekeep(*db, time.now_us, 0));
}

}  // namespace
}  // namespace tmesh::server
