#include "cpp/session/metadata_items.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tmesh::session {
namespace {

struct MetadataItemsTest : testing::Test {
  MetadataItemsTest() {
    std::string name = (std::filesystem::temp_directory_path() / "tmesh-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder = name;
  }
  ~MetadataItemsTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string path(const std::string& name) const { return folder + '/' + name; }
  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(path(name), std::ios::binary) << text;
    return path(name);
  }
  std::string folder;

  static std::vector<CollectedItem> collect(const std::vector<MetadataSource>& sources) {
    return collect_metadata(sources);
  }
  static MetadataSource file(const std::string& name, const std::string& from) { return {name, from, ""}; }
  static MetadataSource env(const std::string& name, const std::string& key) { return {name, "", key}; }
};

TEST_F(MetadataItemsTest, ReadsFilesAndVariablesInOrder) {
  ::setenv("TMESH_TEST_ITEM", "from env", 1);
  const auto items = collect({file("os", write("os", "linux")), env("site", "TMESH_TEST_ITEM")});
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(items[0].name, "os");
  EXPECT_STREQ(items[0].source, "file");
  EXPECT_EQ(items[0].value, "linux");
  EXPECT_FALSE(items[0].is_failed);
  EXPECT_STREQ(items[1].source, "env");
  EXPECT_EQ(items[1].value, "from env");
}

TEST_F(MetadataItemsTest, WhatCannotBeReadIsNamedAndEmpty) {
  ::unsetenv("TMESH_TEST_ITEM");
  const auto items =
      collect({file("gone", path("gone")), env("unset", "TMESH_TEST_ITEM"), file("folder", folder)});
  ASSERT_EQ(items.size(), 3u);
  for (const auto& item : items) {
    EXPECT_TRUE(item.is_failed) << item.name;
    EXPECT_TRUE(item.value.empty());
  }
}

TEST_F(MetadataItemsTest, ValuesHaveTheProtocolsLimits) {
  const auto items = collect({file("most", write("most", std::string(4096, 'x'))),
                              file("more", write("more", std::string(4097, 'x'))),
                              file("binary", write("binary", "\xff\xfe")),
                              file("nul", write("nul", std::string("a\0b", 3)))});
  EXPECT_FALSE(items[0].is_failed);
  EXPECT_EQ(items[0].value.size(), 4096u);
  for (std::size_t i : {1, 2, 3}) {
    EXPECT_TRUE(items[i].is_failed) << items[i].name;
    EXPECT_TRUE(items[i].value.empty()) << items[i].name;
  }
}

TEST_F(MetadataItemsTest, APipeThatNobodyWritesToDoesNotKeepTheCallerWaiting) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto items = collect({file("pipe", path("pipe"))});
  ASSERT_EQ(items.size(), 1u);
  EXPECT_TRUE(items[0].is_failed);
}

TEST_F(MetadataItemsTest, NamesTheProtocolDoesNotAllowAreLeftOut) {
  ::setenv("TMESH_TEST_ITEM", "x", 1);
  const auto items = collect({env("host name", "TMESH_TEST_ITEM"), env("api_token", "TMESH_TEST_ITEM"),
                              env(std::string(65, 'n'), "TMESH_TEST_ITEM"), env("ok", "TMESH_TEST_ITEM")});
  ASSERT_EQ(items.size(), 1u) << "one of them would make a server refuse the whole hello";
  EXPECT_EQ(items[0].name, "ok");
}

TEST_F(MetadataItemsTest, AHelloTakesThemAndNamesWhatFailed) {
  const std::vector<CollectedItem> items{{"os", "file", "linux", false}, {"gone", "file", "", true}};
  tmesh_client_metadata hello{};
  put_metadata(hello, items);
  ASSERT_EQ(hello.item_count, 1u);
  EXPECT_STREQ(hello.items[0].name, "os");
  EXPECT_STREQ(hello.items[0].source, "file");
  EXPECT_STREQ(hello.items[0].value, "linux");
  ASSERT_EQ(hello.error_count, 1u);
  EXPECT_STREQ(hello.errors[0].name, "gone");
  EXPECT_STREQ(hello.errors[0].code, "collection_error");
  put_metadata(hello, std::vector<CollectedItem>(2 * TMESH_METADATA_ERRORS_MAX, items[0]));
  put_metadata(hello, std::vector<CollectedItem>(2 * TMESH_METADATA_ERRORS_MAX, items[1]));
  EXPECT_EQ(hello.item_count, TMESH_METADATA_ITEMS_MAX);
  EXPECT_EQ(hello.error_count, TMESH_METADATA_ERRORS_MAX);
}

}  // namespace
}  // namespace tmesh::session
