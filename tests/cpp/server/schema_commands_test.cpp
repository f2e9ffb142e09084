#include "cpp/server/schema_commands.hpp"

#include <fstream>

#include "cpp/base/json.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "cpp/storage/schema_plan.hpp"
#include "tests/cpp/server/admin_fixture.hpp"
#include "tests/cpp/server/capture.hpp"
#include "tests/cpp/storage/v8_fixture.hpp"

namespace tmesh::server {
namespace {

struct Ran {
  int exit_code;
  std::string out;
  std::string err;
};

struct SchemaCommands : testing::Test {
  test::TempDir dir;
  std::string path = dir.file("x.db");

  template <class Command>
  Ran run(Command command, bool is_json = false) {
    test::Capture out;
    test::Capture err;
    SchemaRequest request;
    request.database = test::sqlite_settings(path);
    request.is_json = is_json;
    request.out = out.file();
    request.err = err.file();
    const int code = command(request);
    return {code, out.text(), err.text()};
  }
  Ran migrate(bool is_dry_run, bool is_json = false) {
    return run([=](const SchemaRequest& request) { return run_migrate(request, is_dry_run); }, is_json);
  }
  Ran check(bool is_json = false) { return run(&run_db_check, is_json); }

  // As deployed servers left it: with the journal they used.
  void make_v8() {
    const auto db = test::open_db(path);
    test::run_sql(*db, "PRAGMA journal_mode = DELETE");
    test::load_v8(*db);
  }
  std::string bytes() {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void change(const char* sql) { test::run_sql(*test::open_db(path), sql); }
};

TEST_F(SchemaCommands, ADryRunPrintsStepsAndStatementsAndChangesNothing) {
  make_v8();
  const std::string before = bytes();
  const Ran ran = migrate(true);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "schema version 8\n"
            "1. upgrade schema version 8 to 9\n"
            "     INSERT INTO schema_meta (id, version)\n"
            "     SELECT 1, NULL WHERE NOT EXISTS (SELECT 1 FROM schema_meta WHERE id = 1 AND version = 8);\n"
            "     CREATE TABLE IF NOT EXISTS authorization_revision (\n"
            "         id INTEGER PRIMARY KEY,\n"
            "         revision INTEGER NOT NULL,\n"
            "         updated_at TEXT NOT NULL\n"
            "     );\n"
            "     INSERT INTO authorization_revision (id, revision, updated_at)\n"
            "     SELECT 1, 1, '1970-01-01T00:00:00Z'\n"
            "     WHERE NOT EXISTS (SELECT 1 FROM authorization_revision WHERE id = 1);\n"
            "     UPDATE schema_meta SET version = 9 WHERE id = 1 AND version = 8;\n"
            "nothing was changed (--dry-run)\n");
  EXPECT_EQ(bytes(), before) << "not a byte of the file, its journal mode included";
}

TEST_F(SchemaCommands, ADryRunWithoutADatabaseMakesNone) {
  const Ran ran = migrate(true);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with("an empty database\n1. create schema version 9\n     CREATE TABLE"))
      << ran.out;
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SchemaCommands, MigrateUpgradesAndSaysSo) {
  make_v8();
  const Ran ran = migrate(false);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, "1. upgrade schema version 8 to 9\ndone: schema version 9\n");
  EXPECT_EQ(migrate(false).out, "nothing to do: schema version 9\n");
  EXPECT_EQ(migrate(true).out, "schema version 9\nnothing to do\n");
}

TEST_F(SchemaCommands, MigrateCreatesADatabase) {
  EXPECT_EQ(migrate(false).out, "1. create schema version 9\ndone: schema version 9\n");
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
}

TEST_F(SchemaCommands, MigrateForScripts) {
  make_v8();
  const Result<json::Document> plan = json::parse(migrate(true, true).out);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->root().get("versionBefore").as_int(), 8);
  EXPECT_EQ(plan->root().get("version").as_int(), 8);
  EXPECT_EQ(plan->root().get("dryRun").as_bool(), true);
  EXPECT_EQ(plan->root().get("steps").size(), 1U);
  for (const json::Value& step : plan->root().get("steps")) EXPECT_EQ(step.get("statements").size(), 4U);
  const Result<json::Document> done = json::parse(migrate(false, true).out);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->root().get("version").as_int(), 9);
  EXPECT_EQ(done->root().get("dryRun").as_bool(), false);
}

TEST_F(SchemaCommands, WhatCannotBeMigratedIsAFailure) {
  make_v8();
  change("UPDATE schema_meta SET version = 7");
  for (const bool is_dry_run : {true, false}) {
    const Ran ran = migrate(is_dry_run);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err, "migrate: " + path + ": schema version 7 is too old: upgrades begin at version 8\n");
  }
}

TEST_F(SchemaCommands, ACheckOfAGoodDatabase) {
  (void)migrate(false);
  const Ran ran = check();
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "schema version 9\n"
            "ok    integrity     the file is whole\n"
            "ok    migrations    none pending\n"
            "ok    schema        all tables, columns and indexes are there\n"
            "ok    revision      1\n"
            "ok    rows          all can be read\n"
            "ok    owners        every agent has one\n"
            "      users             0\n"
            "      agents            0\n"
            "      agent_policies    0\n"
            "      service_tokens    0\n"
            "      server_nodes      0\n"
            "      audit_logs        0\n");
}

TEST_F(SchemaCommands, ACheckChangesNothing) {
  make_v8();
  const std::string before = bytes();
  const Ran ran = check();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("WRONG migrations    pending: upgrade schema version 8 to 9\n"), std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("WRONG schema        lacks the table authorization_revision\n"), std::string::npos)
      << ran.out;
  EXPECT_EQ(bytes(), before);
}

TEST_F(SchemaCommands, ACheckForScripts) {
  make_v8();
  (void)migrate(false);
  const Ran ran = check(true);
  EXPECT_EQ(ran.exit_code, 0) << ran.out;
  const Result<json::Document> document = json::parse(ran.out);
  ASSERT_TRUE(document);
  EXPECT_EQ(document->root().get("ok").as_bool(), true);
  EXPECT_EQ(document->root().get("version").as_int(), 9);
  EXPECT_EQ(document->root().get("pendingSteps").size(), 0U);
  EXPECT_EQ(document->root().get("rows").get("users").as_int(), 3);
}

// Each kind of damage is found, named, and makes the check fail.
TEST_F(SchemaCommands, ACheckFindsWhatIsWrong) {
  const std::pair<const char*, const char*> damages[] = {
      {"DELETE FROM authorization_revision", "WRONG revision      the authorisation revision is missing\n"},
      {"UPDATE authorization_revision SET revision = -1",
       "WRONG revision      the authorisation revision is negative\n"},
      {"UPDATE authorization_revision SET revision = 9223372036854775807",
       "WRONG revision      near its end: 9223372036854775807\n"},
      {"DROP INDEX idx_users_role_deleted", "WRONG schema        lacks the index idx_users_role_deleted\n"},
      {"ALTER TABLE agents DROP COLUMN capabilities",
       "WRONG schema        lacks the column agents.capabilities\n"},
      {"UPDATE agent_policies SET target_port = 'https'",
       "WRONG rows          agent_policies: a stored row has a value of the wrong type\n"},
  };
  for (const auto& [damage, wanted] : damages) {
    std::filesystem::remove(path);
    make_v8();
    (void)migrate(false);
    change(damage);
    const Ran ran = check();
    EXPECT_EQ(ran.exit_code, 1) << damage;
    EXPECT_NE(ran.out.find(wanted), std::string::npos) << damage << ":\n" << ran.out;
  }
}

TEST_F(SchemaCommands, RowsWithoutOwnersAreToldAndAreNoFailure) {
  make_v8();
  (void)migrate(false);
  change("UPDATE agents SET owner_user_id = 'user-gone'");
  const Ran ran = check();
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_NE(ran.out.find("ok    owners        2 agents without an owner (of no effect)\n"), std::string::npos)
      << ran.out;
}

TEST_F(SchemaCommands, ACheckFindsDamageOfTheFile) {
  make_v8();
  (void)migrate(false);
  change("PRAGMA wal_checkpoint(TRUNCATE)");
  {
    // Every page but the first, which holds the schema.
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(path);
    for (std::uintmax_t at = 4096; at + 8 <= size; at += 4096) {
      file.seekp(static_cast<std::streamoff>(at));
      file.write("\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    }
  }
  const Ran ran = check();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE((ran.out + ran.err).find("damaged"), std::string::npos) << ran.out << ran.err;
}

TEST_F(SchemaCommands, ACheckWithoutADatabaseMakesNone) {
  const Ran ran = check();
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(ran.err,
            "db check: " + path + ": there is no database here: run quickstart, or start the server once\n");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SchemaCommands, AForeignFileIsNamed) {
  std::ofstream(path) << "not a database, but long enough to be looked at as if it were one\n";
  for (const Ran& ran : {migrate(false), migrate(true), check()}) {
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_NE(ran.err.find(path + ": the file is damaged or is not a database"), std::string::npos)
        << ran.err;
  }
}

}  // namespace
}  // namespace tmesh::server
