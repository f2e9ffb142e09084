#include "cpp/net/refresher.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

namespace fs = std::filesystem;

class RefresherTest : public LoopTest {
 protected:
  RefresherTest() {
    std::string pattern = testing::TempDir() + "tmesh-refresh-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    file_ = folder_ + "/a";
    write("one");
    auto made = Refresher<std::string>::create(
        loop(), Delegate<std::string()>::bind<&RefresherTest::make>(this),
        Delegate<void(std::string)>::bind<&RefresherTest::on_made>(this), {10'000, 100'000});
    if (made) refresher_ = std::move(*made);
  }
  ~RefresherTest() override {
    refresher_.reset();
    fs::remove_all(folder_);
  }
  void watch() {
    const std::vector<std::string> files = {file_};
    refresher_->watch(print_files(files), true);
  }
  void write(const std::string& text) const { std::ofstream(file_, std::ios::trunc) << text; }
  std::string make() {
    makers_thread_ = std::this_thread::get_id();
    while (is_held_) std::this_thread::yield();
    std::string text;
    std::ifstream(file_) >> text;
    return text;
  }
  void on_made(std::string text) {
    made_.push_back(std::move(text));
    if (goes_with_it_) refresher_.reset();
  }

  std::string folder_, file_;
  std::unique_ptr<Refresher<std::string>> refresher_;
  std::vector<std::string> made_;
  std::atomic<std::thread::id> makers_thread_;
  std::atomic<bool> is_held_ = false;
  bool goes_with_it_ = false;
};

TEST_F(RefresherTest, RequestMakesItAwayFromTheLoop) {
  watch();
  refresher_->request();
  ASSERT_TRUE(run_until([&] { return !made_.empty(); }));
  EXPECT_EQ(made_.front(), "one");
  EXPECT_NE(makers_thread_.load(), std::this_thread::get_id());
}

TEST_F(RefresherTest, ChangeMakesItAnew) {
  watch();
  refresher_->request();
  ASSERT_TRUE(run_until([&] { return made_.size() == 1; }));
  write("two");
  ASSERT_TRUE(run_until([&] { return made_.size() == 2; }));
  EXPECT_EQ(made_.back(), "two");
}

TEST_F(RefresherTest, RequestsWhileItIsMadeAreOneMoreTime) {
  watch();
  is_held_ = true;
  refresher_->request();
  ASSERT_TRUE(run_until([&] { return makers_thread_.load() != std::thread::id(); }));
  for (int i = 0; i < 3; i++) refresher_->request();
  is_held_ = false;
  ASSERT_TRUE(run_until([&] { return made_.size() >= 2; }));
  const uint64_t until_us = loop().now_us() + 50'000;
  run_until([&] { return loop().now_us() >= until_us; });
  EXPECT_LE(made_.size(), 3u);
}

TEST_F(RefresherTest, MayGoInItsOwnCallback) {
  goes_with_it_ = true;
  watch();
  refresher_->request();
  EXPECT_TRUE(run_until([&] { return refresher_ == nullptr; }));
}

}  // namespace
}  // namespace tmesh::net
