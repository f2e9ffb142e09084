#include "cpp/base/file_print.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "cpp/base/file.hpp"

namespace tmesh {
namespace {

namespace fs = std::filesystem;

class FilePrintTest : public testing::Test {
 protected:
  FilePrintTest() {
    std::string pattern = testing::TempDir() + "tmesh-print-XXXXXX";
    folder = ::mkdtemp(pattern.data());
  }
  ~FilePrintTest() override { fs::remove_all(folder); }
  std::string path(const std::string& name) const { return folder + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(write_file(path(name), text, 0600));
  }
  uint64_t print(const std::string& name) const {
    const std::vector<std::string> paths = {path(name)};
    const FilePrints prints = print_files(paths);
    return prints.begin()->second;
  }

  static bool has_none(const std::vector<std::string>& paths) {
    const FilePrints prints = print_files(paths);
    return prints.size() == paths.size() &&
           std::all_of(prints.begin(), prints.end(), [](const auto& one) { return one.second == kNoPrint; });
  }

  std::string folder;
};

TEST_F(FilePrintTest, FollowsTheContentAndNothingElse) {
  write("a", "one");
  write("b", "one");
  EXPECT_EQ(print("a"), print("b"));
  write("b", "two");
  EXPECT_NE(print("a"), print("b"));
  EXPECT_EQ(print("b"), print_of("two"));
  write("b", "");
  EXPECT_NE(print("b"), kNoPrint) << "an empty file is there";
}

TEST_F(FilePrintTest, WhatCannotBeReadHasNone) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  write("large", std::string(kPrintedBytesMax + 1, 'x'));
  const std::vector<std::string> paths = {path("missing"), folder, path("pipe"), path("large")};
  EXPECT_TRUE(has_none(paths)) << "and it does not wait for the pipe's writer";
}

TEST_F(FilePrintTest, PlacesOfALink) {
  fs::create_directory(path("v1"));
  write("v1/app", "1");
  fs::create_symlink("v1", path("now"));
  fs::create_symlink("now/app", path("app"));
  const std::vector<std::string> paths = {path("app")};
  const FilePlaces places = find_places(paths);
  for (const char* name : {"app", "now", "v1"}) EXPECT_TRUE(places.names.contains(name)) << name;
  ASSERT_TRUE(places.folders.contains(folder));
  ASSERT_TRUE(places.folders.contains(path("now")));
  EXPECT_NE(places.folders.at(folder), places.folders.at(path("now")));
}

TEST_F(FilePrintTest, PlacesOfWhatIsNotThere) {
  const std::vector<std::string> paths = {path("no/such")};
  const FilePlaces places = find_places(paths);
  ASSERT_TRUE(places.folders.contains(path("no")));
  EXPECT_EQ(places.folders.at(path("no")), FilePlaces::Identity{});
}

TEST_F(FilePrintTest, ACircleOfLinksEnds) {
  fs::create_symlink("b", path("a"));
  fs::create_symlink("a", path("b"));
  const std::vector<std::string> paths = {path("a")};
  EXPECT_TRUE(find_places(paths).names.contains("b"));
  EXPECT_TRUE(has_none(paths));
}

TEST_F(FilePrintTest, ARelativePathIsInTheWorkingFolder) {
  const std::vector<std::string> paths = {"some-name"};
  EXPECT_TRUE(find_places(paths).folders.contains("."));
}

}  // namespace
}  // namespace tmesh
