// Real files in a real folder: every way in which a file changes is one change. The kernel has
// its events ready when a change returns; only the clock is a fake.
#include "cpp/net/file_watch.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kQuiet_us = 200'000;
constexpr uint64_t kRetry_us = 5'000'000;

class FileWatchTest : public LoopTest {
 protected:
  FileWatchTest() {
    std::string pattern = testing::TempDir() + "tmesh-watch-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    auto made = Workers::create(loop(), 1, 8);
    if (made) workers_ = std::move(*made);
    watch_.emplace(loop(), timers_, *workers_, Delegate<void()>::bind<&FileWatchTest::on_changed>(this),
                   FileWatch::Pace{kQuiet_us, kRetry_us});
  }
  ~FileWatchTest() override {
    watch_.reset();
    workers_.reset();
    fs::remove_all(folder_);
  }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::trunc) << text;
  }
  void link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, path(name));
  }
  // As `ln -sfn` and as a mounted volume do it.
  void swap_link(const std::string& target, const std::string& name) const {
    fs::create_symlink(target, path(name + ".tmp"));
    fs::rename(path(name + ".tmp"), path(name));
  }
  void watch(std::vector<std::string> names, bool is_watching = true) {
    for (std::string& name : names) name = path(name);
    watch_->watch(print_files(names), is_watching);
    settle();
  }
  // The events that are there come in, time goes by, and what that leads to ends.
  void after(uint64_t us) {
    int turns = 0;
    run_until([&] { return turns++ == 3; });
    timers_.advance(us);
    run_until([&] { return workers_->active_count() == 0; });
  }
  void settle() {
    after(kQuiet_us);
    after(kQuiet_us);
  }
  void append(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::app) << text;
  }
  // The worker has read the files; nobody on the loop knows yet.
  void wait_for_worker() {
    std::atomic<bool> is_done = false;
    auto behind = workers_->submit([&is_done] { is_done = true; }, Delegate<void()>());
    ASSERT_TRUE(behind.has_value());
    while (!is_done) std::this_thread::yield();
  }
  // Changes since the last look.
  int changes() {
    settle();
    return std::exchange(changes_, 0);
  }
  void on_changed() { changes_++; }

  std::string folder_;
  std::unique_ptr<Workers> workers_;
  test::FakeTimers timers_;
  std::optional<FileWatch> watch_;
  int changes_ = 0;
};

TEST_F(FileWatchTest, NothingIsToldAboutTheContentItBeginsWith) {
  write("a", "one");
  watch({"a"});
  EXPECT_EQ(changes(), 0);
}

TEST_F(FileWatchTest, SomethingElseThanWhatWasReadIsAChange) {
  write("a", "two");
  watch_->watch({{path("a"), print_of("one")}}, true);
  EXPECT_EQ(changes(), 1) << "it changed between the reading and the watching";
}

TEST_F(FileWatchTest, AChangeBetweenTheFirstLookAndTheWatchIsNotLost) {
  write("a", "one");
  watch_->watch({{path("a"), print_of("one")}}, true);
  wait_for_worker();
  write("a", "two");
  EXPECT_EQ(changes(), 1);
}

TEST_F(FileWatchTest, ALookThatBeganBeforeCountsNoMore) {
  write("a", "one");
  watch_->watch({{path("a"), print_of("one")}}, true);
  wait_for_worker();
  write("a", "two");
  watch_->watch({{path("a"), print_of("two")}}, true);
  EXPECT_EQ(changes(), 0) << "it has seen what is known to be old";
}

TEST_F(FileWatchTest, AFileThatWasMissingAndIsThereNow) {
  watch({"a"});
  EXPECT_EQ(changes(), 0);
  write("a", "one");
  EXPECT_EQ(changes(), 1);
}

TEST_F(FileWatchTest, WriteIntoTheFile) {
  write("a", "one");
  watch({"a"});
  write("a", "two");
  EXPECT_EQ(changes(), 1);
  append("a", "more");
  EXPECT_EQ(changes(), 1);
}

TEST_F(FileWatchTest, RenameOverIt) {
  write("a", "one");
  watch({"a"});
  for (const char* text : {"two", "three"}) {
    write("a.new", text);
    fs::rename(path("a.new"), path("a"));
    EXPECT_EQ(changes(), 1) << text;
  }
}

// vim with `backup`: the old file is renamed away, a new one is written, the old one removed.
TEST_F(FileWatchTest, SavedByAnEditorThatRenamesTheOldOneAway) {
  write("a", "one");
  watch({"a"});
  for (const char* text : {"two", "three"}) {
    write("4913", "");
    fs::remove(path("4913"));
    fs::rename(path("a"), path("a~"));
    write("a", text);
    fs::remove(path("a~"));
    EXPECT_EQ(changes(), 1) << text;
  }
}

TEST_F(FileWatchTest, RemovedAndMadeAgain) {
  write("a", "one");
  watch({"a"});
  fs::remove(path("a"));
  EXPECT_EQ(changes(), 0) << "a file that is gone holds nothing new";
  write("a", "two");
  EXPECT_EQ(changes(), 1);
  fs::remove(path("a"));
  EXPECT_EQ(changes(), 0);
  write("a", "two");
  EXPECT_EQ(changes(), 0) << "the same as before";
}

TEST_F(FileWatchTest, LinkToAnotherFile) {
  write("one", "1");
  write("two", "2");
  link("one", "a");
  watch({"a"});
  swap_link("two", "a");
  EXPECT_EQ(changes(), 1);
  write("two", "22");
  EXPECT_EQ(changes(), 1) << "the file that the link leads to now";
  write("one", "11");
  EXPECT_EQ(changes(), 0) << "it does not lead there any more";
}

TEST_F(FileWatchTest, LinkIntoAnotherFolder) {
  fs::create_directory(path("elsewhere"));
  write("elsewhere/real", "1");
  link(path("elsewhere") + "/real", "a");
  watch({"a"});
  write("elsewhere/real", "2");
  EXPECT_EQ(changes(), 1);
}

// As a mounted volume is renewed: app.yaml -> ..data/app.yaml, ..data -> ..2026.
TEST_F(FileWatchTest, LinkToTheFolderSwapped) {
  for (const char* version : {"..2026", "..2027", "..2028"}) fs::create_directory(path(version));
  write("..2026/app.yaml", "1");
  write("..2027/app.yaml", "2");
  write("..2028/app.yaml", "3");
  link("..2026", "..data");
  link("..data/app.yaml", "app.yaml");
  watch({"app.yaml"});
  swap_link("..2027", "..data");
  fs::remove_all(path("..2026"));
  EXPECT_EQ(changes(), 1);
  swap_link("..2028", "..data");
  fs::remove_all(path("..2027"));
  EXPECT_EQ(changes(), 1);
  write("..2028/app.yaml", "4");
  EXPECT_EQ(changes(), 1) << "a write in the folder of today";
}

TEST_F(FileWatchTest, FolderRemovedAndMadeAgain) {
  fs::create_directory(path("conf"));
  write("conf/a", "1");
  watch({"conf/a"});
  fs::remove_all(path("conf"));
  EXPECT_EQ(changes(), 0);
  fs::create_directory(path("conf"));
  write("conf/a", "2");
  after(kRetry_us);
  EXPECT_EQ(changes(), 1);
  write("conf/a", "3");
  EXPECT_EQ(changes(), 1);
}

// It may even have the number of the old one.
TEST_F(FileWatchTest, FolderReplacedAtOnce) {
  fs::create_directory(path("conf"));
  write("conf/a", "1");
  watch({"conf/a"});
  fs::remove_all(path("conf"));
  fs::create_directory(path("conf"));
  write("conf/a", "2");
  EXPECT_EQ(changes(), 1);
  write("conf/a", "3");
  EXPECT_EQ(changes(), 1);
}

TEST_F(FileWatchTest, TouchedOrRewrittenIsNoChange) {
  write("a", "one");
  watch({"a"});
  fs::last_write_time(path("a"), fs::file_time_type::clock::now());
  write("a", "one");
  ::chmod(path("a").c_str(), 0640);
  EXPECT_EQ(changes(), 0);
}

TEST_F(FileWatchTest, OtherFilesOfTheFolderDoNotMatter) {
  write("a", "one");
  watch({"a"});
  write("b", "two");
  fs::remove(path("b"));
  EXPECT_EQ(changes(), 0);
}

TEST_F(FileWatchTest, SeveralFilesAtOnceAreOneChange) {
  write("cert", "c1");
  write("key", "k1");
  watch({"cert", "key"});
  write("cert", "c2");
  write("key", "k2");
  EXPECT_EQ(changes(), 1);
}

// A file written in pieces: the writer pauses for less than the quiet time.
TEST_F(FileWatchTest, PiecesAreOneChange) {
  write("a", "");
  watch({"a"});
  for (int i = 0; i < 30; i++) {
    append("a", "piece");
    after(kQuiet_us / 4);
    EXPECT_EQ(changes_, 0) << "half of it after piece " << i;
  }
  EXPECT_EQ(changes(), 1);
}

TEST_F(FileWatchTest, AFileThatNeverRestsIsLookedAtAllTheSame) {
  write("a", "");
  watch({"a"});
  for (unsigned i = 0; i < 2 * (FileWatch::kQuietRoundsMax + 1); i++) {
    append("a", "x");
    after(kQuiet_us / 2);
  }
  EXPECT_EQ(changes_, 1);
}

TEST_F(FileWatchTest, CheckAlwaysAnswersAndTakesTheChangeWithIt) {
  write("a", "one");
  watch({"a"});
  watch_->check();
  EXPECT_EQ(changes(), 1) << "asked for";
  write("a", "two");
  watch_->check();
  EXPECT_EQ(changes(), 1) << "not once more for the event";
}

TEST_F(FileWatchTest, OnlyCheckLooksWhenWatchingIsOff) {
  write("a", "one");
  watch({"a"}, false);
  write("a", "two");
  EXPECT_EQ(changes(), 0);
  watch_->check();
  EXPECT_EQ(changes(), 1);
}

TEST_F(FileWatchTest, WhatChangedBeforeWatchingWentOffIsNotTold) {
  write("a", "two");
  watch_->watch({{path("a"), print_of("one")}}, false);
  EXPECT_EQ(changes(), 0);
  watch_->check();
  watch_->watch({{path("a"), print_of("one")}}, false);
  EXPECT_EQ(changes(), 1) << "but who asked gets an answer";
}

TEST_F(FileWatchTest, AnotherListOfFiles) {
  write("a", "one");
  write("b", "one");
  watch({"a"});
  watch({"a", "b"});
  EXPECT_EQ(changes(), 0) << "b begins with what it holds";
  write("b", "two");
  EXPECT_EQ(changes(), 1);
  watch({"b"});
  write("a", "two");
  EXPECT_EQ(changes(), 0);
}

TEST_F(FileWatchTest, GoneMeansSilent) {
  write("a", "one");
  watch({"a"});
  write("a", "two");
  watch_->check();
  watch_.reset();
  EXPECT_EQ(changes(), 0);
}

}  // namespace
}  // namespace tmesh::net
