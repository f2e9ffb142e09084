#include "cpp/base/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "cpp/base/instance_id.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/base/random.hpp"

namespace tmesh {
namespace {

class File : public testing::Test {
 protected:
  File() {
    std::string pattern = testing::TempDir() + "tmesh-file-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~File() override { std::filesystem::remove_all(folder_); }
  std::string path(const char* name) const { return folder_ + "/" + name; }
  std::size_t file_count() const {
    std::size_t n = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder_)) ++n;
    return n;
  }
  static unsigned mode(const std::string& p) {
    struct stat st = {};
    return ::stat(p.c_str(), &st) == 0 ? st.st_mode & 07777 : 0;
  }

  std::string folder_;
};

TEST_F(File, WriteThenRead) {
  const std::string data("a\0b\n", 4);
  ASSERT_TRUE(write_file(path("x"), data, 0600));
  EXPECT_EQ(*read_file(path("x"), 4), data);
  EXPECT_EQ(mode(path("x")), 0600u);
  EXPECT_FALSE(is_open_to_others(path("x")));
}

TEST_F(File, WriteReplacesAndSetsTheMode) {
  ASSERT_TRUE(write_file(path("x"), "old and long", 0600));
  ASSERT_TRUE(write_file(path("x"), "new", 0644));
  EXPECT_EQ(*read_file(path("x"), 100), "new");
  EXPECT_EQ(mode(path("x")), 0644u);
  EXPECT_TRUE(is_open_to_others(path("x")));
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(File, FailedWriteLeavesNothing) {
  ASSERT_EQ(::mkdir(path("folder").c_str(), 0700), 0);
  EXPECT_FALSE(write_file(path("folder"), "x", 0600));
  EXPECT_FALSE(write_file(path("none/x"), "x", 0600));
  EXPECT_EQ(file_count(), 1u);
}

TEST_F(File, ReadSaysWhatIsWrong) {
  EXPECT_STREQ(read_file(path("none"), 10).error().text, "no such file or folder");
  EXPECT_STREQ(read_file(folder_, 10).error().text, "is a folder, not a file");
  ASSERT_TRUE(write_file(path("x"), "12345", 0600));
  EXPECT_EQ(read_file(path("x"), 4).error().code, TMESH_E_TOO_LARGE);
  EXPECT_TRUE(read_file(path("x"), 5));
}

TEST_F(File, CheckReadable) {
  EXPECT_FALSE(check_readable(path("none")));
  EXPECT_FALSE(check_readable(folder_));
  ASSERT_TRUE(write_file(path("x"), "", 0600));
  EXPECT_TRUE(check_readable(path("x")));
  if (::geteuid() != 0) {
    ASSERT_EQ(::chmod(path("x").c_str(), 0), 0);
    EXPECT_STREQ(check_readable(path("x")).error().text, "permission denied");
  }
}

TEST_F(File, ErrorTextIsNeverTheSystems) {
  for (const int e : {ENOENT, EACCES, EISDIR, ENOTDIR, ENOSPC, 0, 12345})
    EXPECT_STRNE(file_error_text(e), "");
  EXPECT_STREQ(file_error_text(12345), "cannot be read or written");
}

TEST_F(File, InstanceIdIsMadeOnceAndKept) {
  const InstanceId first = load_or_create_instance_id(path("state/agent-instance-id"), "agent-");
  EXPECT_TRUE(first.is_kept);
  EXPECT_EQ(first.value.size(), 6u + 32u);
  EXPECT_TRUE(first.value.starts_with("agent-"));
  EXPECT_EQ(load_or_create_instance_id(path("state/agent-instance-id"), "agent-").value, first.value);
  EXPECT_EQ(mode(path("state/agent-instance-id")), 0600u);
}

TEST_F(File, UnusableInstanceIdIsReplaced) {
  ASSERT_TRUE(write_file(path("id"), "two words\n", 0600));
  const InstanceId id = load_or_create_instance_id(path("id"), "client-");
  EXPECT_TRUE(id.value.starts_with("client-"));
  EXPECT_EQ(trim(*read_file(path("id"), 100)), id.value);
}

TEST_F(File, InstanceIdWithoutAPlaceLivesWithTheProcess) {
  const InstanceId id = load_or_create_instance_id(path("no/such/folder/id"), "agent-");
  EXPECT_FALSE(id.is_kept);
  EXPECT_EQ(id.value.size(), 38u);
}

TEST(Random, TextsHaveTheirLengthAndDiffer) {
  EXPECT_EQ(random_hex(16).size(), 32u);
  EXPECT_EQ(random_base64url(32).size(), 43u);
  EXPECT_NE(random_hex(16), random_hex(16));
  uint8_t big[1000] = {};
  random_bytes(big);
  int zeros = 0;
  for (const uint8_t b : big) zeros += b == 0;
  EXPECT_LT(zeros, 100);
}

}  // namespace
}  // namespace tmesh
