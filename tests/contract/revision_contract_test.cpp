// Requirement D6 over every write there is, on both engines: a write of rights and its step
// of the revision are in the database together or not at all, wherever the program or its
// connection ends; no other write steps it.
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "cpp/storage/change.hpp"
#include "cpp/storage/migrator.hpp"
#include "tests/contract/engine.hpp"
#include "tests/contract/write_table.hpp"
#include "tests/cpp/storage/stopping_db.hpp"
#include "tests/cpp/storage/v8_fixture.hpp"

namespace tmesh::storage {
namespace {

class RevisionContract : public test::EngineTest {
 protected:
  void SetUp() override {
    test::EngineTest::SetUp();
    if (IsSkipped()) return;
    const auto db = open();
    const Opened<SchemaReport> made = migrate(*db, true);
    ASSERT_TRUE(made) << made.error().text;
    for (const test::Change& row : test::first_rows()) must(*db, row);
  }
  static void must(Db& db, const test::Change& work) {
    const Result<void> done = change(db, work);
    ASSERT_TRUE(done) << done.error().text;
  }
};

// Every static function that takes a Transaction, by the text of the headers.
std::set<std::string> declared_writes() {
  std::set<std::string> found;
  const std::regex declaration(R"(static\s+Result<[^;{]*?>\s+(\w+)\(\s*Transaction&)");
  for (const auto& file : std::filesystem::directory_iterator(TMESH_STORAGE_SOURCES)) {
    const std::string name = file.path().filename().string();
    if (!name.ends_with("_repository.hpp")) continue;
    std::ifstream in(file.path());
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::smatch type;
    const bool has_class = std::regex_search(text, type, std::regex(R"(\nclass (\w+) )"));
    EXPECT_TRUE(has_class || text.find("Transaction&") == std::string::npos) << name;
    if (!has_class) continue;
    for (auto at = std::sregex_iterator(text.begin(), text.end(), declaration); at != std::sregex_iterator();
         ++at) {
      found.insert(type[1].str() + "::" + (*at)[1].str());
    }
  }
  return found;
}

TEST(WriteTable, EveryWriteIsInTheTable) {
  std::set<std::string> listed;
  for (const test::Write& write : test::all_writes()) listed.insert(write.function);
  const std::set<std::string> declared = declared_writes();
  EXPECT_GT(declared.size(), 30U) << "the headers were not understood";
  EXPECT_EQ(listed, declared);
}

TEST_P(RevisionContract, ExactlyTheWritesOfRightsStepTheRevision) {
  const auto db = open();
  for (const test::Write& write : test::all_writes()) {
    const uint64_t before = *read_revision(*db);
    must(*db, write.change);
    EXPECT_EQ(*read_revision(*db) - before, static_cast<uint64_t>(write.steps)) << write.function;
  }
  EXPECT_EQ(test::scalar(*db, "SELECT updated_at FROM authorization_revision"), test::write_time);
}

// A process of its own for each statement of each write.
TEST_P(RevisionContract, AProgramKilledAtAnyStatementLeavesNeitherOrBoth) {
  int kills = 0;
  for (const test::Write& write : test::all_writes()) {
    std::string before;
    uint64_t revision_before = 0;
    {
      const auto db = open();
      before = test::dump(*db);
      revision_before = *read_revision(*db);
    }
    std::string after;
    for (int n = 0; after.empty(); ++n) {
      ASSERT_LT(n, 30) << write.function;
      const bool was_killed = test::killed_before_call(
          n, [this] { return open(); },
          [&write](Db& db) { (void)change(db, [&](Transaction& tx) { return write.change(tx); }); });
      const auto db = open();
      const std::string now = test::dump(*db);
      if (now == before && was_killed) {
        ++kills;
        continue;
      }
      // Killed behind the commit, or not at all: all of it is there.
      after = now;
      EXPECT_EQ(*read_revision(*db) - revision_before, static_cast<uint64_t>(write.steps))
          << write.function << " killed before call " << n;
      // The last run was whole, or it would not have changed anything.
      EXPECT_GE(n, 2 + write.steps) << write.function << ": begin, statement, step, commit";
    }
    EXPECT_TRUE(write.steps == 0 || after != before) << write.function;
  }
  EXPECT_GT(kills, 100) << "the test killed nothing";
}

// The same as the program sees it when its connection goes in the middle.
TEST_P(RevisionContract, AConnectionLostAtAnyStatementLeavesNeitherOrBoth) {
  const auto db = open();
  for (const test::Write& write : test::all_writes()) {
    const std::string before = test::dump(*db);
    const uint64_t revision_before = *read_revision(*db);
    for (int n = 0;; ++n) {
      ASSERT_LT(n, 30) << write.function;
      test::StoppingDb failing(*db, [n](int call) -> Result<void> {
        if (call == n) return fail(TMESH_E_IO, "the connection is gone");
        return {};
      });
      const Result<void> done = change(failing, write.change);
      if (done) break;
      EXPECT_EQ(test::dump(*db), before) << write.function << " lost at call " << n;
    }
    EXPECT_EQ(*read_revision(*db) - revision_before, static_cast<uint64_t>(write.steps)) << write.function;
  }
}

TMESH_BOTH_ENGINES(RevisionContract);

}  // namespace
}  // namespace tmesh::storage
