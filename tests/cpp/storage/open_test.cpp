#include "cpp/storage/open.hpp"

#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::storage {
namespace {

TEST(OpenDatabase, OpensTheEngineOfTheSettings) {
  const test::TempDir dir;
  DatabaseSettings settings;
  settings.sqlite_path = dir.file("x.db");
  const auto db = open_database(settings, {.create = true});
  ASSERT_TRUE(db) << db.error().text;
  EXPECT_EQ((*db)->driver(), Driver::sqlite);
  settings.driver = Driver::mysql;
  EXPECT_EQ(open_database(settings, {.create = true}).error().text, "storage.mysql.dsn: is empty");
}

TEST(OpenDatabase, CreatesASqliteFileOnlyWhenToldTo) {
  const test::TempDir dir;
  DatabaseSettings settings;
  settings.sqlite_path = dir.file("x.db");
  ASSERT_FALSE(open_database(settings, {}));
  ASSERT_TRUE(open_database(settings, {.create = true}));
  EXPECT_TRUE(open_database(settings, {}));
}

TEST(OpenDatabase, AnUnusableDsnIsAProblemBeforeAnythingIsDialled) {
  DatabaseSettings settings;
  settings.driver = Driver::mysql;
  settings.mysql_dsn = Secret("user:HUNTER2@tcp(h)");
  const auto db = open_database(settings, {});
  ASSERT_FALSE(db);
  EXPECT_EQ(db.error().code, TMESH_E_INVALID);
  EXPECT_EQ(db.error().text, "storage.mysql.dsn: there is no '/' before the name of the database");
}

}  // namespace
}  // namespace tmesh::storage
