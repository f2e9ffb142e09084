// Schema creation and upgrade on both engines, with the program killed between any two of
// its statements (requirement D5, LESSONS R16 and R18).
#include "tests/contract/engine.hpp"
#include "tests/cpp/storage/stopping_db.hpp"
#include "tests/cpp/storage/v8_fixture.hpp"

#include "cpp/storage/migrator.hpp"
#include "cpp/storage/required_schema.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::storage {
namespace {

class MigrationContract : public test::EngineTest {
 protected:
  // Statements end a program that opened the database itself; nobody else may have it open.
  template <class Work>
  bool killed(int n, Work work) {
    return test::killed_before_call(n, [this] { return open(); }, work);
  }
  static void run_sql(Db& db, std::string_view sql) { test::run_sql(db, sql); }
  static std::string scalar(Db& db, std::string_view sql) { return test::scalar(db, sql); }
  static void must_migrate(Db& db, int64_t version_before) {
    const Opened<SchemaReport> report = migrate(db, true);
    ASSERT_TRUE(report) << report.error().text;
    EXPECT_EQ(report->version, schema_version);
    EXPECT_EQ(report->version_before, version_before);
  }
};

TEST_P(MigrationContract, TheFixtureIsVersion8AndHasRowsInEveryTable) {
  const auto db = open();
  test::load_v8(*db);
  EXPECT_EQ(*read_schema_version(*db), 8);
  const std::vector<std::string> tables = test::data_tables(*db);
  EXPECT_EQ(tables.size(), 15U);
  for (const std::string& table : tables) EXPECT_NE(test::dump_table(*db, table), "") << table;
}

TEST_P(MigrationContract, TheUpgradeKeepsEveryRowByteForByte) {
  const auto db = open();
  test::load_v8(*db);
  const std::vector<std::string> tables = test::data_tables(*db);
  const std::string before = test::dump(*db, tables);
  EXPECT_NE(before.find("1099511627777"), std::string::npos);
  EXPECT_NE(before.find("9223372036854775807"), std::string::npos);
  must_migrate(*db, 8);
  EXPECT_EQ(test::dump(*db, tables), before);
  EXPECT_EQ(*read_revision(*db), 1U);
  EXPECT_EQ((*UserRepository(*db).find_by_username("Жанна-雪-🧊"))->created_at, "2026-05-01T08:00:00.1Z");
}

// Requirement D5: an older program may read the database, so nothing it knows has changed
// but the room in a number.
TEST_P(MigrationContract, TheUpgradeAddsOneTableAndTakesNothing) {
  const auto db = open();
  test::load_v8(*db);
  std::vector<std::string> tables = *db->tables();
  std::vector<std::vector<std::string>> columns;
  for (const std::string& table : tables) columns.push_back(*db->columns(table));
  must_migrate(*db, 8);
  for (size_t i = 0; i < tables.size(); ++i) EXPECT_EQ(*db->columns(tables[i]), columns[i]) << tables[i];
  std::vector<std::string> after = *db->tables();
  EXPECT_EQ(std::erase(after, "authorization_revision"), 1U);
  EXPECT_EQ(after, tables);
}

// LESSONS R16: a 64-bit epoch survives in a fresh database and in an upgraded one.
TEST_P(MigrationContract, EpochsHave64BitsHoweverTheDatabaseCameToBe) {
  for (const bool is_upgraded : {false, true}) {
    clear();
    const auto db = open();
    if (is_upgraded) test::load_v8(*db);
    must_migrate(*db, is_upgraded ? 8 : 0);
    run_sql(
        *db,
        "INSERT INTO agent_connection_leases (agent_id, connection_id, node_id, instance_id, "
        "server_node_id, epoch, connection_epoch, acquired_at, expires_at, updated_at) VALUES ('agent-x', "
        "'c', 'n', 'i', 's', 9223372036854775807, 1099511627777, 'x', 'x', 'x')");
    run_sql(*db,
            "INSERT INTO agent_instance_metadata (agent_id, instance_id, node_id, epoch, revision, metadata, "
            "reported_at, last_seen_at, updated_at) VALUES ('agent-x', 'i', 'n', 9223372036854775806, "
            "2147483648, '{}', 'x', 'x', 'x')");
    run_sql(*db,
            "INSERT INTO server_nodes (id, name, address, epoch, metadata, created_at, updated_at) VALUES "
            "('n-x', 'n', 'a', 4611686018427387904, '{}', 'x', 'x')");
    EXPECT_EQ(scalar(*db, "SELECT epoch FROM agent_connection_leases WHERE agent_id = 'agent-x'"),
              "9223372036854775807");
    EXPECT_EQ(scalar(*db, "SELECT connection_epoch FROM agent_connection_leases WHERE agent_id = 'agent-x'"),
              "1099511627777");
    EXPECT_EQ(scalar(*db, "SELECT epoch FROM agent_instance_metadata WHERE agent_id = 'agent-x'"),
              "9223372036854775806");
    EXPECT_EQ(scalar(*db, "SELECT revision FROM agent_instance_metadata WHERE agent_id = 'agent-x'"),
              "2147483648");
    EXPECT_EQ(scalar(*db, "SELECT epoch FROM server_nodes WHERE id = 'n-x'"), "4611686018427387904");
  }
}

// The same on a database that a deployed server brought to a newer version, and not where
// writing is forbidden.
TEST_P(MigrationContract, NarrowColumnsOfOtherServersAreWidenedOrRefused) {
  const auto db = open();
  must_migrate(*db, 0);
  EXPECT_TRUE(schema_gaps(*db, 9)->empty());
  if (!is_mysql()) return;  // SQLite stores 64 bits in every INTEGER
  run_sql(*db, "ALTER TABLE agent_connection_leases MODIFY COLUMN epoch INTEGER NOT NULL");
  const Opened<SchemaReport> refused = migrate(*db, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().text,
            "schema version 9 lacks room for 64-bit numbers in agent_connection_leases.epoch, which this "
            "program needs");
  run_sql(*db, "UPDATE schema_meta SET version = 12");
  ASSERT_TRUE(migrate(*db, true));
  EXPECT_TRUE(schema_gaps(*db, 12)->empty());
  EXPECT_EQ(*read_schema_version(*db), 12);
}

TEST_P(MigrationContract, AnUpgradeKilledBetweenAnyTwoStatementsIsFinishedByTheNextStart) {
  int stops = 0;
  for (bool was_killed = true; was_killed; ++stops) {
    ASSERT_LT(stops, 200) << "the upgrade does not end";
    clear();
    std::string before;
    std::vector<std::string> tables;
    {
      const auto db = open();
      test::load_v8(*db);
      tables = test::data_tables(*db);
      before = test::dump(*db, tables);
    }
    was_killed = killed(stops, [](Db& db) { (void)migrate(db, true); });
    const auto db = open();
    const int64_t version = *read_schema_version(*db);
    EXPECT_TRUE(version == 8 || version == 9) << version;
    if (version == 9) {
      EXPECT_EQ(*read_revision(*db), 1U) << "the version moves last";
    } else if (is_ddl_transactional()) {
      EXPECT_TRUE(db->columns("authorization_revision")->empty()) << "call " << stops;
    }
    EXPECT_EQ(test::dump(*db, tables), before) << "call " << stops;
    must_migrate(*db, version);
    EXPECT_EQ(test::dump(*db, tables), before) << "call " << stops;
    EXPECT_EQ(*read_revision(*db), 1U);
    EXPECT_TRUE(schema_gaps(*db, 9)->empty());
  }
  EXPECT_GT(stops, 8) << "the test killed nothing";
}

TEST_P(MigrationContract, ACreationKilledBetweenAnyTwoStatementsIsFinishedByTheNextStart) {
  int stops = 0;
  for (bool was_killed = true; was_killed; ++stops) {
    ASSERT_LT(stops, 200) << "the creation does not end";
    clear();
    was_killed = killed(stops, [](Db& db) { (void)migrate(db, true); });
    const auto db = open();
    const Opened<int64_t> version = read_schema_version(*db);
    ASSERT_TRUE(version) << "call " << stops << ": " << version.error().text;
    EXPECT_TRUE(*version == 0 || *version == 9) << *version;
    EXPECT_TRUE(!is_ddl_transactional() || db->tables()->empty() == (*version == 0));
    must_migrate(*db, *version);
    EXPECT_EQ(db->tables()->size(), 16U);
    EXPECT_EQ(*read_revision(*db), 1U);
    EXPECT_TRUE(schema_gaps(*db, 9)->empty());
  }
  EXPECT_GT(stops, 30) << "the test killed nothing";
}

// The connection is lost instead of the program: the same, seen from inside.
TEST_P(MigrationContract, AnUpgradeWhoseConnectionFailsAnywhereCanBeRepeated) {
  for (int stop = 0; stop < 200; ++stop) {
    clear();
    const auto db = open();
    test::load_v8(*db);
    test::StoppingDb failing(*db, [stop](int call) -> Result<void> {
      if (call >= stop) return fail(TMESH_E_IO, "the connection is gone");
      return {};
    });
    if (migrate(failing, true)) {
      EXPECT_GT(stop, 5);
      return;
    }
    const Opened<SchemaReport> again = migrate(*db, true);
    ASSERT_TRUE(again) << "call " << stop << ": " << again.error().text;
    EXPECT_EQ(*read_revision(*db), 1U);
  }
  FAIL() << "the upgrade does not end";
}

TEST_P(MigrationContract, SeveralProgramsAtTheSameMomentAllSucceed) {
  for (const bool is_upgrade : {false, true}) {
    clear();
    if (is_upgrade) test::load_v8(*open());
    constexpr int programs = 4;
    std::vector<pid_t> children;
    for (int i = 0; i < programs; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        const auto own = open(10'000);
        const Opened<SchemaReport> report = migrate(*own, true);
        if (!report) (void)std::fprintf(stderr, "%s\n", report.error().text.c_str());
        ::_exit(report && report->version == schema_version ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
    const auto db = open();
    EXPECT_EQ(*read_schema_version(*db), schema_version);
    EXPECT_EQ(*read_revision(*db), 1U);
  }
}

TEST_P(MigrationContract, ARevisionLeftByARollbackDoesNotGoBack) {
  const auto db = open();
  test::load_v8(*db);
  must_migrate(*db, 8);
  run_sql(*db, "UPDATE authorization_revision SET revision = 77");
  run_sql(*db, "UPDATE schema_meta SET version = 8");
  must_migrate(*db, 8);
  EXPECT_EQ(*read_revision(*db), 77U);
}

TEST_P(MigrationContract, ANewerVersionIsOpenedIfAllWeNeedIsThere) {
  const auto db = open();
  must_migrate(*db, 0);
  run_sql(*db, "UPDATE schema_meta SET version = 16");
  run_sql(*db, "CREATE TABLE vpn_peers (id INTEGER)");
  run_sql(*db, "ALTER TABLE users ADD COLUMN email VARCHAR(255)");
  const Opened<SchemaReport> report = migrate(*db, true);
  ASSERT_TRUE(report) << report.error().text;
  EXPECT_EQ(report->version, 16);
  EXPECT_EQ(scalar(*db, "SELECT version FROM schema_meta"), "16");
  run_sql(*db, "DROP TABLE agent_policies");
  const Opened<SchemaReport> refused = migrate(*db, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, TMESH_E_UNSUPPORTED);
  EXPECT_EQ(refused.error().text,
            "schema version 16 lacks the table agent_policies, which this program needs");
}

TEST_P(MigrationContract, APlanSaysWhatWouldBeDoneAndDoesNothing) {
  const auto db = open();
  EXPECT_EQ(plan_schema(*db)->steps.size(), 1U);
  EXPECT_TRUE(db->tables()->empty());
  test::load_v8(*db);
  const std::vector<std::string> tables = *db->tables();
  const std::string before = test::dump(*db, tables);
  const Opened<SchemaPlan> plan = plan_schema(*db);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->version, 8);
  ASSERT_GE(plan->steps.size(), 1U);
  EXPECT_EQ(plan->steps[0].name, "upgrade schema version 8 to 9");
  EXPECT_EQ(plan->steps[0].statements.size(), 4U);
  EXPECT_EQ(plan->steps.size(), GetParam() == Driver::mysql ? 2U : 1U);
  EXPECT_EQ(*db->tables(), tables);
  EXPECT_EQ(test::dump(*db, tables), before);
  must_migrate(*db, 8);
  EXPECT_TRUE(plan_schema(*db)->steps.empty());
}

TMESH_BOTH_ENGINES(MigrationContract);

}  // namespace
}  // namespace tmesh::storage
