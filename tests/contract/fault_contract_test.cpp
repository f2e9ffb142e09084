// Storage under faults, on both engines: whatever happens, a change that was confirmed stays,
// one that was not is there whole or not at all, and the revision tells exactly the changes
// that are there. Faults of the MySQL server itself: tests/e2e/test_storage_faults.py.
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <thread>

#include "cpp/storage/change.hpp"
#include "cpp/storage/migrator.hpp"
#include "tests/contract/engine.hpp"
#include "tests/contract/write_table.hpp"
#include "tests/cpp/storage/stopping_db.hpp"
#include "tests/cpp/storage/v8_fixture.hpp"

namespace tmesh::storage {
namespace {

class FaultContract : public test::EngineTest {
 protected:
  void SetUp() override {
    test::EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto db = open();
    const Opened<SchemaReport> made = migrate(*db, true);
    ASSERT_TRUE(made) << made.error().text;
    for (const test::Change& row : test::first_rows()) ASSERT_TRUE(change(*db, row));
    first_revision = *read_revision(*db);
    first_tokens = tokens(*db);
  }
  static int64_t tokens(Db& db) {
    return std::stoll(test::scalar(db, "SELECT COUNT(*) FROM service_tokens"));
  }
  static Result<void> add_token(Db& db, const std::string& name) {
    return change(db, [&](Transaction& tx) { return TokenRepository::create(tx, test::token_row(name)); });
  }
  static Result<void> scope_token(Db& db, const std::string& id) {
    return change(
        db, [&](Transaction& tx) { return TokenRepository::set_scope(tx, id, "{}", test::write_time); });
  }
  // Each token that is there was created by one step, whoever was told what about it.
  void expect_consistent(Db& db) {
    EXPECT_EQ(*read_revision(db) - first_revision, static_cast<uint64_t>(tokens(db) - first_tokens));
  }
  // Runs `work() -> exit code` in a process of its own.
  template <class Work>
  pid_t in_child(Work work) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(work());
    EXPECT_GT(child, 0);
    return child;
  }
  static int wait_for(pid_t child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  uint64_t first_revision = 0;
  int64_t first_tokens = 0;
};

TEST_P(FaultContract, ALockThatIsNotGivenUpIsATimeoutAndLosesNothing) {
  const auto holder = open();
  const auto db = open(200);
  {
    Result<Transaction> tx = Transaction::write(*holder);
    ASSERT_TRUE(tx);
    ASSERT_TRUE(TokenRepository::set_scope(*tx, "stok_one", "{\"targetPorts\":[1]}", test::write_time));
    const Result<void> refused = scope_token(*db, "stok_one");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, TMESH_E_TIMEOUT);
    EXPECT_EQ(*read_revision(*db), first_revision);
    ASSERT_TRUE(tx->commit());
  }
  EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->scope, "{\"targetPorts\":[1]}");
  ASSERT_TRUE(scope_token(*db, "stok_one"));
  EXPECT_EQ(*read_revision(*db), first_revision + 2);
}

// Each holds what the other wants next: the engine ends one of them, and change() tries again.
TEST_P(FaultContract, WritersThatWantEachOthersRowsBothFinish) {
  ASSERT_TRUE(add_token(*open(), "two"));
  constexpr int rounds = 25;
  const auto writer = [this](const char* first, const char* second) {
    return in_child([this, first, second] {
      const auto db = open(10'000);
      const auto both = [&](Transaction& tx) -> Result<void> {
        if (auto done = TokenRepository::set_scope(tx, first, "{}", test::write_time); !done) return done;
        return TokenRepository::set_scope(tx, second, "{}", test::write_time);
      };
      for (int round = 0; round < rounds; ++round) {
        Result<void> done = change(*db, both);
        // Bounded: bad luck three times in a row is told, and whoever asked may ask again.
        for (int again = 0; !done && done.error().code == TMESH_E_TIMEOUT && again < 20; ++again) {
          done = change(*db, both);
        }
        if (!done) return 1;
      }
      return 0;
    });
  };
  const pid_t one = writer("stok_one", "stok_two");
  const pid_t two = writer("stok_two", "stok_one");
  EXPECT_EQ(wait_for(one), 0);
  EXPECT_EQ(wait_for(two), 0);
  EXPECT_EQ(*read_revision(*open()), first_revision + 1 + 2 * 2 * rounds);
}

TEST_P(FaultContract, TwoServersWritingAtOnceLoseNothing) {
  constexpr int each = 40;
  std::vector<pid_t> servers;
  for (const char* name : {"left-", "right-"}) {
    servers.push_back(in_child([this, name] {
      const auto db = open(10'000);
      for (int i = 0; i < each; ++i) {
        if (!add_token(*db, name + std::to_string(i))) return 1;
      }
      return 0;
    }));
  }
  for (const pid_t server : servers) EXPECT_EQ(wait_for(server), 0);
  const auto db = open();
  EXPECT_EQ(tokens(*db) - first_tokens, 2 * each);
  expect_consistent(*db);
}

// Ends at any moment, inside a statement too.
TEST_P(FaultContract, AProgramKilledAtARandomMomentLosesNothingItConfirmed) {
  constexpr int runs = 12;
  int confirmed_count = 0;
  for (int run = 0; run < runs; ++run) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const std::string prefix = "run" + std::to_string(run) + "-";
    const pid_t child = in_child([&] {
      const auto db = open(10'000);
      for (uint32_t i = 0;; ++i) {
        if (!add_token(*db, prefix + std::to_string(i))) return 1;
        if (::write(pipe[1], &i, sizeof i) != sizeof i) return 1;
      }
    });
    ::close(pipe[1]);
    // Some writes in, and then a time that differs from run to run.
    std::vector<uint32_t> confirmed(1);
    ASSERT_EQ(::read(pipe[0], confirmed.data(), sizeof(uint32_t)), static_cast<ssize_t>(sizeof(uint32_t)));
    ::usleep(static_cast<useconds_t>(run) * 1'357);
    ::kill(child, SIGKILL);
    EXPECT_EQ(wait_for(child), -SIGKILL);
    for (uint32_t i = 0; ::read(pipe[0], &i, sizeof i) == sizeof i;) confirmed.push_back(i);
    ::close(pipe[0]);
    const auto db = open();
    for (const uint32_t i : confirmed) {
      EXPECT_TRUE(*TokenRepository(*db).find("stok_" + prefix + std::to_string(i))) << prefix << i;
    }
    confirmed_count += static_cast<int>(confirmed.size());
    expect_consistent(*db);
  }
  EXPECT_GE(confirmed_count, runs);
}

// The server ends the connection under the program, again and again.
TEST_P(FaultContract, AConnectionEndedByTheServerLosesNothingItConfirmed) {
  if (!is_mysql()) return;  // SQLite has no connection
  const auto db = open();
  const auto other = server();
  int failures = 0;
  for (int i = 0; i < 30; ++i) {
    const std::string id = test::scalar(*db, "SELECT CONNECTION_ID()");
    // Before a transaction the driver connects again; inside of one it is an error.
    const bool is_inside = i % 3 != 0;
    const auto kill = [&] { test::run_sql(*other, "KILL CONNECTION " + id); };
    if (!is_inside) kill();
    bool has_killed = false;
    const Result<void> done = change(*db, [&](Transaction& tx) -> Result<void> {
      if (i % 3 == 1) kill();
      auto made = TokenRepository::create(tx, test::token_row("k" + std::to_string(i)));
      if (i % 3 == 2 && !has_killed) kill();
      has_killed = true;
      return made;
    });
    EXPECT_EQ(done.has_value(), !is_inside) << i << ": " << (done ? "" : done.error().text);
    if (!done) ++failures;
    EXPECT_EQ((*TokenRepository(*db).find("stok_k" + std::to_string(i))).has_value(), done.has_value()) << i;
    expect_consistent(*db);
  }
  EXPECT_EQ(failures, 20);
}

TEST_P(FaultContract, AClockThatStepsBackTakesNothingBack) {
  const auto db = open();
  ASSERT_TRUE(scope_token(*db, "stok_one"));
  const char* earlier = "2019-01-01T00:00:00.5Z";
  const auto revoke = [&](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", earlier); };
  ASSERT_TRUE(change(*db, revoke));
  EXPECT_EQ(*read_revision(*db), first_revision + 2) << "the revision knows no time";
  EXPECT_EQ(test::scalar(*db, "SELECT updated_at FROM authorization_revision"), earlier);
  EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->revoked_at, earlier);
  EXPECT_EQ(change(*db, revoke).error().code, TMESH_E_STATE) << "it stays revoked";
}

TEST_P(FaultContract, ARevisionThatIsMissingOrAtItsEndStopsChangesOfRightsOnly) {
  for (const char* fault : {"DELETE FROM authorization_revision",
                            "INSERT INTO authorization_revision VALUES (1, 9223372036854775807, 'x')"}) {
    const auto db = open();
    test::run_sql(*db, fault);
    const std::string before = test::dump(*db);
    for (const test::Write& write : test::all_writes()) {
      Result<Transaction> tx = Transaction::write(*db);
      ASSERT_TRUE(tx);
      const Result<void> done = write.change(*tx);
      if (write.steps != 0) {
        // Without what the rows before it made, some find nothing to change.
        ASSERT_FALSE(done) << write.function;
        EXPECT_TRUE(done.error().code == TMESH_E_INVALID || done.error().code == TMESH_E_STATE)
            << write.function << ": " << done.error().text;
      }
    }
    EXPECT_EQ(test::dump(*db), before);
    // What changes no rights goes on.
    EXPECT_TRUE(change(*db, [](Transaction& tx) {
      return TokenRepository::touch_last_used(tx, "stok_one", "2027-01-16T00:00:00Z");
    }));
    EXPECT_EQ(change(*db, [](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", "x"); })
                  .error()
                  .code,
              TMESH_E_INVALID);
    EXPECT_EQ((*TokenRepository(*db).find("stok_one"))->revoked_at, "");
  }
}

TMESH_BOTH_ENGINES(FaultContract);

// The rest is about a file.
class FileFault : public FaultContract {};

TEST_P(FileFault, AFullDiskIsSaidAndLosesNothingItConfirmed) {
  const auto db = open();
  test::run_sql(*db, "PRAGMA wal_checkpoint(TRUNCATE)");
  test::scalar(*db, "PRAGMA max_page_count = 60");
  int added = 0;
  Result<void> done;
  while ((done = add_token(*db, "full-" + std::to_string(added)))) ++added;
  EXPECT_EQ(done.error().code, TMESH_E_LIMIT);
  EXPECT_STREQ(done.error().text, "the disk that holds the database is full");
  EXPECT_GT(added, 0);
  EXPECT_EQ(tokens(*db) - first_tokens, added);
  expect_consistent(*db);
  EXPECT_TRUE(change(*db, [](Transaction& tx) { return TokenRepository::revoke(tx, "stok_one", "x"); }))
      << "what needs no room still works: rights can be taken away";
  test::scalar(*db, "PRAGMA max_page_count = 100000");
  EXPECT_TRUE(add_token(*db, "room"));
}

// As the kernel sees it: a write to the journal fails half-way.
TEST_P(FileFault, AFileThatMayNotGrowLosesNothingItConfirmed) {
  for (const rlim_t room_bytes : {rlim_t{4'096}, rlim_t{20'000}, rlim_t{150'000}}) {
    std::array<int, 2> pipe{};
    ASSERT_EQ(::pipe(pipe.data()), 0);
    const pid_t child = in_child([&] {
      const auto db = open();
      (void)std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{room_bytes, room_bytes};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
      for (int i = 0; i < 2'000; ++i) {
        if (!add_token(*db, std::to_string(room_bytes) + "-" + std::to_string(i))) return 0;
        if (::write(pipe[1], "+", 1) != 1) return 3;
      }
      return 4;  // nothing failed
    });
    ::close(pipe[1]);
    EXPECT_EQ(wait_for(child), 0) << room_bytes;
    int confirmed = 0;
    for (char c = 0; ::read(pipe[0], &c, 1) == 1;) ++confirmed;
    ::close(pipe[0]);
    const auto db = open();
    for (int i = 0; i < confirmed; ++i) {
      EXPECT_TRUE(*TokenRepository(*db).find("stok_" + std::to_string(room_bytes) + "-" + std::to_string(i)));
    }
    expect_consistent(*db);
    EXPECT_TRUE(add_token(*db, "after-" + std::to_string(room_bytes)));
  }
}

TEST_P(FileFault, AFileThatMayNotBeWrittenIsRefusedAndReadable) {
  ASSERT_EQ(::chmod(settings.sqlite_path.c_str(), 0444), 0);
  for (const char* suffix : {"-wal", "-shm"}) std::filesystem::remove(settings.sqlite_path + suffix);
  ASSERT_EQ(::chmod(dir.path().c_str(), 0755), 0);
  const pid_t child = in_child([this] {
    // The superuser may write everything.
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 2;
    const auto refused = open_database(settings, {});
    if (refused || refused.error().code != TMESH_E_IO) return 3;
    return refused.error().text == settings.sqlite_path + ": the database cannot be written" ? 0 : 4;
  });
  EXPECT_EQ(wait_for(child), 0);
  const auto reader = open_database(settings, {.is_read_only = true});
  ASSERT_TRUE(reader) << reader.error().text;
  EXPECT_EQ(*read_revision(**reader), first_revision);
  EXPECT_FALSE(add_token(**reader, "no"));
}

// No page of the file, whatever is in it, makes the program fall over or believe a wrong row.
TEST_P(FileFault, ADamagedPageIsAnErrorAndNeverADecision) {
  {
    test::run_sql(*open(), "PRAGMA wal_checkpoint(TRUNCATE)");
  }
  const std::string whole = settings.sqlite_path;
  settings.sqlite_path = dir.file("damaged.db");
  const auto pages = static_cast<int>(std::filesystem::file_size(whole) / 4096);
  ASSERT_GT(pages, 30);
  int found = 0;
  for (int page = 0; page < pages; ++page) {
    clear();
    std::filesystem::copy_file(whole, settings.sqlite_path);
    {
      std::fstream file(settings.sqlite_path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(page * 4096 + (page == 0 ? 100 : 0));
      file.write("\x00\xff\xff\xff\xff\xff\xff\xff\x80\x80\x80\x80", 12);
    }
    const auto db = open_database(settings, {});
    if (!db || !migrate(**db, true)) {
      ++found;
      continue;
    }
    bool is_found = false;
    const auto token = TokenRepository(**db).find_by_hash("hash-of-one", "-");
    if (!token) {
      is_found = true;
    } else if (*token) {
      EXPECT_EQ((*token)->owner_user_id, "user-alice") << "page " << page;
    }
    if (!read_revision(**db) || !add_token(**db, "more") || !PolicyRepository(**db).list({}, "agent-home")) {
      is_found = true;
    }
    found += is_found ? 1 : 0;
  }
  EXPECT_GT(found, 5) << "of " << pages << " pages";
}

INSTANTIATE_TEST_SUITE_P(Engines, FileFault, testing::Values(Driver::sqlite),
                         [](const testing::TestParamInfo<Driver>&) { return "sqlite"; });

}  // namespace
}  // namespace tmesh::storage
