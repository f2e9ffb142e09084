#include "cpp/base/utf8.hpp"

#include <gtest/gtest.h>

#include <string_view>

namespace tmesh {
namespace {

TEST(Utf8, ReadsOneToFourBytes) {
  EXPECT_EQ(utf8_next("A", 0).code_point, 'A');
  EXPECT_EQ(utf8_next("\xC3\xA4", 0).code_point, 0xE4u);
  EXPECT_EQ(utf8_next("\xE2\x82\xAC", 0).code_point, 0x20ACu);
  EXPECT_EQ(utf8_next("\xF0\x9F\x98\x80", 0).code_point, 0x1F600u);
  EXPECT_EQ(utf8_next("\xF4\x8F\xBF\xBF", 0).size_bytes, 4u);
  EXPECT_TRUE(
      utf8_valid("gr\xC3\xBC\xC3\x9F"
                 "e"));
  EXPECT_TRUE(utf8_valid(""));
}

TEST(Utf8, RefusesWhatRfc3629Refuses) {
  for (const std::string_view bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3", "\xE2\x82", "\xC3\x28", "a\xF0\x9F\x98"}) {
    EXPECT_FALSE(utf8_valid(bad));
  }
}

}  // namespace
}  // namespace tmesh
