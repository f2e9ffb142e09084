#include "cpp/storage/migrator.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include "cpp/storage/required_schema.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "cpp/storage/scripts.hpp"
#include "cpp/storage/sql_splitter.hpp"
#include "cpp/storage/token_repository.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/cpp/storage/temp_db.hpp"
#include "tests/cpp/storage/v8_fixture.hpp"

namespace tmesh::storage {
namespace {

using test::open_db;
using test::open_migrated;
using test::run_sql;
using test::scalar;

struct Migrator : testing::Test {
  test::TempDir dir;
  std::unique_ptr<Db> db = open_db(dir.file("x.db"));

  std::string refusal(bool auto_init = true) {
    const auto report = migrate(*db, auto_init);
    EXPECT_FALSE(report);
    return report ? "" : report.error().text;
  }
};

TEST_F(Migrator, AFreshDatabaseGetsTheFullSchema) {
  EXPECT_EQ(*read_schema_version(*db), 0);
  const auto report = migrate(*db, true);
  ASSERT_TRUE(report) << report.error().text;
  EXPECT_EQ(report->version_before, 0);
  EXPECT_EQ(report->version, 9);
  EXPECT_EQ(scalar(*db, "SELECT version FROM schema_meta WHERE id = 1"), "9");
  EXPECT_EQ(*read_revision(*db), 1U);
  EXPECT_EQ(scalar(*db, "SELECT updated_at FROM authorization_revision"), "1970-01-01T00:00:00Z");
  const std::vector<std::string> wanted = {"agent_connection_leases",
                                           "agent_instance_metadata",
                                           "agent_policies",
                                           "agent_probe_results",
                                           "agent_runtime_stats",
                                           "agents",
                                           "api_tokens",
                                           "audit_logs",
                                           "authorization_revision",
                                           "idempotency_keys",
                                           "schema_meta",
                                           "server_nodes",
                                           "service_tokens",
                                           "tunnel_groups",
                                           "tunnels",
                                           "users"};
  EXPECT_EQ(*db->tables(), wanted);
}

TEST_F(Migrator, AgainDoesNothing) {
  ASSERT_TRUE(migrate(*db, true));
  const auto again = migrate(*db, true);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->version_before, 9);
  EXPECT_TRUE(migrate(*db, false));
}

TEST_F(Migrator, TheSecondOfTwoProgramsFindsTheWorkDone) {
  std::unique_ptr<Db> other = open_db(dir.file("x.db"));
  EXPECT_EQ(*read_schema_version(*other), 0);
  ASSERT_TRUE(migrate(*db, true));
  ASSERT_TRUE(migrate(*other, true));
}

TEST_F(Migrator, SeveralProgramsAtTheSameMomentAllSucceed) {
  const std::string path = dir.file("shared.db");
  std::atomic<int> ready = 0;
  std::vector<std::thread> programs;
  for (int i = 0; i < 4; ++i) {
    programs.emplace_back([&] {
      std::unique_ptr<Db> own = open_db(path, 5000);
      const auto report = migrate(*own, true);
      EXPECT_TRUE(report) << report.error().text;
      ready += report && report->version == 9 ? 1 : 0;
    });
  }
  for (std::thread& program : programs) program.join();
  EXPECT_EQ(ready, 4);
}

TEST_F(Migrator, WithAutoInitOffNothingIsWritten) {
  EXPECT_EQ(refusal(false),
            "the database is empty, but storage.auto_init is off and this program needs exactly version 9");
  EXPECT_TRUE(db->tables()->empty());
  test::load_v8(*db);
  EXPECT_EQ(
      refusal(false),
      "the schema has version 8, but storage.auto_init is off and this program needs exactly version 9");
  run_sql(*db, "UPDATE schema_meta SET version = 10");
  EXPECT_NE(refusal(false).find("version 10"), std::string::npos);
}

TEST_F(Migrator, Version8BecomesVersion9AndKeepsItsRows) {
  test::load_v8(*db);
  const auto report = migrate(*db, true);
  ASSERT_TRUE(report) << report.error().text;
  EXPECT_EQ(report->version_before, 8);
  EXPECT_EQ(report->version, 9);
  EXPECT_EQ(scalar(*db, "SELECT version FROM schema_meta"), "9");
  EXPECT_EQ(*read_revision(*db), 1U);
  EXPECT_EQ((*UserRepository(*db).find_by_username("alice"))->role, "admin");
  EXPECT_EQ((*TokenRepository(*db).find("stok_AAAAAAAAAAAAAAAAAAAAAA"))->token_prefix, "Zk3v0q9a");
}

TEST_F(Migrator, ARevisionLeftByARollbackDoesNotGoBack) {
  test::load_v8(*db);
  run_sql(*db,
          "CREATE TABLE authorization_revision (id INTEGER PRIMARY KEY, revision INTEGER NOT NULL, "
          "updated_at TEXT NOT NULL)");
  run_sql(*db, "INSERT INTO authorization_revision VALUES (1, 77, '2026-01-01T00:00:00Z')");
  ASSERT_TRUE(migrate(*db, true));
  EXPECT_EQ(*read_revision(*db), 77U);
}

TEST_F(Migrator, AFailedUpgradeChangesNothing) {
  test::load_v8(*db);
  run_sql(*db, "CREATE TRIGGER stop BEFORE UPDATE ON schema_meta BEGIN SELECT RAISE(ABORT, 'no'); END");
  EXPECT_NE(refusal().find("upgrade schema version 8 to 9 failed: "), std::string::npos);
  EXPECT_EQ(scalar(*db, "SELECT version FROM schema_meta"), "8");
  EXPECT_TRUE(db->columns("authorization_revision")->empty())
      << "the table was created in the same transaction";
}

TEST_F(Migrator, AFullDiskDuringTheUpgradeChangesNothing) {
  test::load_v8(*db);
  run_sql(*db, "PRAGMA wal_checkpoint(TRUNCATE)");
  scalar(*db, "PRAGMA max_page_count = 1");  // SQLite sets it to the pages there are
  const auto report = migrate(*db, true);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, TMESH_E_LIMIT);
  EXPECT_EQ(report.error().text,
            "upgrade schema version 8 to 9 failed: the disk that holds the database is full");
  EXPECT_EQ(scalar(*db, "SELECT version FROM schema_meta"), "8");
  scalar(*db, "PRAGMA max_page_count = 1000000");
  EXPECT_TRUE(migrate(*db, true));
}

TEST_F(Migrator, TheScriptItselfRefusesAnotherVersion) {
  test::load_v8(*db);
  run_sql(*db, "UPDATE schema_meta SET version = 7");
  const Result<std::vector<std::string_view>> script = split_sql(v0008_to_v0009_sqlite_sql, Driver::sqlite);
  EXPECT_FALSE(db->execute(script->front(), {})) << "run by hand on version 7";
  run_sql(*db, "UPDATE schema_meta SET version = 8");
  EXPECT_TRUE(db->execute(script->front(), {}));
}

TEST_F(Migrator, OlderThan8IsRefused) {
  test::load_v8(*db);
  run_sql(*db, "UPDATE schema_meta SET version = 7");
  EXPECT_EQ(refusal(), "schema version 7 is too old: upgrades begin at version 8");
}

TEST_F(Migrator, NewerWithEverythingWeNeedIsOpened) {
  ASSERT_TRUE(migrate(*db, true));
  run_sql(*db, "UPDATE schema_meta SET version = 16");
  run_sql(*db, "CREATE TABLE vpn_peers (id INTEGER)");
  run_sql(*db, "DROP INDEX idx_users_role_deleted");
  const auto report = migrate(*db, true);
  ASSERT_TRUE(report) << report.error().text;
  EXPECT_EQ(report->version, 16);
  EXPECT_EQ(scalar(*db, "SELECT version FROM schema_meta"), "16");
}

TEST_F(Migrator, NewerWithoutAColumnIsRefusedByName) {
  ASSERT_TRUE(migrate(*db, true));
  run_sql(*db, "UPDATE schema_meta SET version = 16");
  run_sql(*db, "ALTER TABLE service_tokens DROP COLUMN scope");
  EXPECT_EQ(refusal(), "schema version 16 lacks the column service_tokens.scope, which this program needs");
}

TEST_F(Migrator, NewerWithoutATableIsRefusedByName) {
  ASSERT_TRUE(migrate(*db, true));
  run_sql(*db, "UPDATE schema_meta SET version = 10");
  run_sql(*db, "DROP TABLE agent_policies");
  EXPECT_EQ(refusal(), "schema version 10 lacks the table agent_policies, which this program needs");
}

TEST_F(Migrator, EveryRequiredTableAndColumnIsMissed) {
  for (const RequiredTable& table : required_tables()) {
    if (std::string_view(table.name) == "schema_meta") continue;  // without it there is no version
    for (const char* column : table.columns) {
      const test::TempDir own;
      std::unique_ptr<Db> damaged = open_migrated(own.file("x.db"));
      const std::string name = std::string(table.name) + '.' + column;
      // Renaming works for key columns, too, where dropping does not.
      run_sql(*damaged, "ALTER TABLE " + std::string(table.name) + " RENAME COLUMN " + column + " TO gone");
      const auto report = migrate(*damaged, true);
      ASSERT_FALSE(report) << name;
      EXPECT_NE(report.error().text.find("the column " + name + ","), std::string::npos)
          << report.error().text;
    }
  }
}

TEST_F(Migrator, Version9WithoutItsIndexIsRefused) {
  ASSERT_TRUE(migrate(*db, true));
  run_sql(*db, "DROP INDEX idx_users_role_deleted");
  EXPECT_EQ(refusal(), "schema version 9 lacks the index idx_users_role_deleted, which this program needs");
}

TEST_F(Migrator, AForeignDatabaseIsRefusedAndNotTouched) {
  run_sql(*db, "CREATE TABLE photos (id INTEGER)");
  EXPECT_EQ(refusal(), "not a TunnelMesh database: it has tables, but no table schema_meta");
  EXPECT_EQ(*db->tables(), std::vector<std::string>{"photos"});
}

TEST_F(Migrator, AnUnknownVersionIsRefused) {
  run_sql(*db, "CREATE TABLE schema_meta (id INTEGER PRIMARY KEY, version)");
  EXPECT_EQ(refusal(), "schema_meta has no row with id 1, so the version is unknown");
  run_sql(*db, "INSERT INTO schema_meta VALUES (1, 'nine')");
  EXPECT_EQ(refusal(), "schema_meta cannot be read: a stored row has a value of the wrong type");
  run_sql(*db, "UPDATE schema_meta SET version = -9");
  EXPECT_EQ(refusal(), "schema_meta holds an impossible version");
}

// A v8 database that was upgraded and a fresh one hold the same tables and columns.
TEST_F(Migrator, UpgradedAndFreshSchemasAgree) {
  test::load_v8(*db);
  ASSERT_TRUE(migrate(*db, true));
  std::unique_ptr<Db> fresh = open_migrated(dir.file("fresh.db"));
  std::vector<std::string> upgraded = *db->tables();
  EXPECT_EQ(std::erase(upgraded, "agent_runtime_leases"), 1U) << "left over from version 6";
  ASSERT_EQ(upgraded, *fresh->tables());
  const std::vector<std::string> tables = *fresh->tables();
  for (const std::string& table : tables) EXPECT_EQ(*db->columns(table), *fresh->columns(table)) << table;
}

}  // namespace
}  // namespace tmesh::storage
