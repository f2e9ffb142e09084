// A directory that goes away, databases in it, and a clock that a test sets.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "cpp/storage/migrator.hpp"
#include "cpp/storage/rows.hpp"
#include "cpp/storage/sqlite_db.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::test {

class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "tmesh-test-XXXXXX").string();
    const char* made = ::mkdtemp(name.data());
    EXPECT_NE(made, nullptr);
    path_ = std::filesystem::canonical(name).string();
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
};

struct FakeClock {
  int64_t now_us = 1'800'000'000'000'000;  // 2027-01-15T08:00:00Z
  int64_t read() { return now_us; }
  storage::WallClock clock() { return storage::WallClock::bind<&FakeClock::read>(this); }
};

inline std::unique_ptr<storage::Db> open_db(const std::string& path, int busy_timeout_ms = 0) {
  auto db = storage::open_sqlite({.path = path, .create = true, .busy_timeout_ms = busy_timeout_ms});
  EXPECT_TRUE(db) << (db ? "" : db.error().text);
  return db ? std::move(*db) : nullptr;
}

inline std::unique_ptr<storage::Db> open_migrated(const std::string& path, int busy_timeout_ms = 0) {
  std::unique_ptr<storage::Db> db = open_db(path, busy_timeout_ms);
  auto report = storage::migrate(*db, true);
  EXPECT_TRUE(report) << (report ? "" : report.error().text);
  return db;
}

inline void run_sql(storage::Db& db, std::string_view sql, storage::Params params = {}) {
  Result<uint64_t> done = db.execute(sql, params);
  EXPECT_TRUE(done) << sql << ": " << (done ? "" : done.error().text);
}

// The first column of the first row as text; "(none)" without a row.
inline std::string scalar(storage::Db& db, std::string_view sql) {
  Result<std::optional<std::string>> found = storage::query_one<std::string>(
      db, sql, {}, [](storage::RowReader& row) { return row.optional_text(); });
  EXPECT_TRUE(found) << sql << ": " << (found ? "" : found.error().text);
  return found ? found->value_or("(none)") : "(error)";
}

}  // namespace tmesh::test
