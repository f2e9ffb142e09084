// A test that runs on a database of its own, once for each engine.
//
// MySQL is the server of TUNNELMESH_TEST_MYSQL_DSN, whose user may create databases
// (tests/support/private_mariadb.py run starts one). Without it the MySQL half says
// "deferred" and fails, or, where TUNNELMESH_ALLOW_DEFERRED=1 says so on purpose, is skipped.
#pragma once

#include <string_view>

#include "cpp/base/random.hpp"
#include "cpp/storage/open.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::test {

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The DSN of another database of the same server.
inline std::string with_database(const std::string& dsn, std::string_view database) {
  const size_t slash = dsn.rfind('/');
  const size_t question = dsn.find('?', slash);
  return dsn.substr(0, slash + 1) + std::string(database) +
         (question == std::string::npos ? "" : dsn.substr(question));
}

class EngineTest : public testing::TestWithParam<storage::Driver> {
 protected:
  void SetUp() override {
    settings.driver = GetParam();
    settings.sqlite_path = dir.file("x.db");
    if (GetParam() == storage::Driver::sqlite) return;
    server_dsn = environment("TUNNELMESH_TEST_MYSQL_DSN");
    if (server_dsn.empty()) {
      const bool is_allowed = environment("TUNNELMESH_ALLOW_DEFERRED") == "1";
      if (is_allowed) GTEST_SKIP() << "deferred: TUNNELMESH_TEST_MYSQL_DSN is not set";
      FAIL() << "deferred: TUNNELMESH_TEST_MYSQL_DSN is not set; TUNNELMESH_ALLOW_DEFERRED=1 accepts that";
    }
    database = "tm_" + random_hex(8);
    settings.mysql_dsn = Secret(with_database(server_dsn, database));
    create_database();
  }
  void TearDown() override {
    if (database.empty()) return;
    if (const auto cleaner = server()) run_sql(*cleaner, "DROP DATABASE IF EXISTS " + database);
  }

  bool is_mysql() const { return GetParam() == storage::Driver::mysql; }

  // Another connection to the same database, like another program has one.
  std::unique_ptr<storage::Db> open(int lock_wait_ms = 2000) {
    auto opened = storage::open_database(settings, {.create = true, .lock_wait_ms = lock_wait_ms});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return opened ? std::move(*opened) : nullptr;
  }
  // A connection to the MySQL server that has nothing to do with the test's database.
  std::unique_ptr<storage::Db> server() {
    storage::DatabaseSettings other;  // whatever the test has done to its own
    other.driver = storage::Driver::mysql;
    other.mysql_dsn = Secret(server_dsn);
    auto opened = storage::open_database(other, {});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text);
    return opened ? std::move(*opened) : nullptr;
  }
  // Makes the database empty; nobody may have it open.
  void clear() {
    if (is_mysql()) {
      run_sql(*server(), "DROP DATABASE " + database);
      create_database();
      return;
    }
    for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(settings.sqlite_path + suffix);
  }
  bool is_ddl_transactional() const { return !is_mysql(); }

  TempDir dir;
  storage::DatabaseSettings settings;
  std::string server_dsn;
  std::string database;  // MySQL

 private:
  // With the defaults that deployed databases have: they do not tell upper from lower case.
  void create_database() {
    run_sql(*server(), "CREATE DATABASE " + database + " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci");
  }
};

}  // namespace tmesh::test

#define TMESH_BOTH_ENGINES(suite)                                                                            \
  INSTANTIATE_TEST_SUITE_P(Engines, suite, testing::Values(storage::Driver::sqlite, storage::Driver::mysql), \
                           [](const testing::TestParamInfo<storage::Driver>& engine) {                       \
                             return engine.param == storage::Driver::sqlite ? "sqlite" : "mysql";            \
                           })

#define TMESH_ONLY_MYSQL(suite)                                                    \
  INSTANTIATE_TEST_SUITE_P(Engine, suite, testing::Values(storage::Driver::mysql), \
                           [](const auto&) { return "mysql"; })
