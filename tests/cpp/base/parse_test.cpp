#include "cpp/base/parse.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace tmesh {
namespace {

TEST(Parse, UintTakesDigitsOnly) {
  EXPECT_EQ(*parse_uint("0"), 0u);
  EXPECT_EQ(*parse_uint("18446744073709551615"), UINT64_MAX);
  EXPECT_EQ(parse_uint("18446744073709551616").error().code, TMESH_E_TOO_LARGE);
  EXPECT_EQ(parse_uint("99999999999999999999999").error().code, TMESH_E_TOO_LARGE);
  for (const char* bad : {"", " 1", "1 ", "+1", "1.0", "1e3", "0x10", "1_000", "-", "one", "1\n"}) {
    EXPECT_FALSE(parse_uint(bad)) << bad;
  }
  EXPECT_STREQ(parse_uint("-1").error().text, "must not be negative");
}

TEST(Parse, BoolTakesGoSpellings) {
  for (const char* yes : {"true", "True", "TRUE", "t", "T", "1"}) EXPECT_TRUE(*parse_bool(yes)) << yes;
  for (const char* no : {"false", "False", "FALSE", "f", "F", "0"}) EXPECT_FALSE(*parse_bool(no)) << no;
  for (const char* bad : {"", "yes", "on", "tRUE", "2", " true"}) EXPECT_FALSE(parse_bool(bad)) << bad;
}

TEST(Parse, DurationInGoSyntax) {
  const struct {
    const char* text;
    uint64_t us;
  } cases[] = {{"0", 0},
               {"0s", 0},
               {"100ms", 100000},
               {"5s", 5000000},
               {"1m30s", 90000000},
               {"1.5h", 5400000000},
               {"2h45m", 9900000000},
               {".5s", 500000},
               {"1.s", 1000000},
               {"+3s", 3000000},
               {"7us", 7},
               {"7\xC2\xB5s", 7},
               {"7\xCE\xBCs", 7},
               {"1500ns", 1},
               {"1s500ms", 1500000},
               {"0.000001s", 1},
               {"1.0000000000000000001s", 1000000}};
  for (const auto& c : cases) {
    const Result<uint64_t> us = parse_duration_us(c.text);
    ASSERT_TRUE(us) << c.text;
    EXPECT_EQ(*us, c.us) << c.text;
  }
}

TEST(Parse, DurationRefusesEverythingElse) {
  for (const char* bad :
       {"", "5", "5 s", "s", ".s", "5sec", "5S", "1m 30s", "-5s", "5s ", "1d", "--1s", "5s5"}) {
    EXPECT_FALSE(parse_duration_us(bad)) << bad;
  }
  EXPECT_STREQ(parse_duration_us("10").error().text, "needs a unit, as in 100ms, 5s or 1m30s");
  EXPECT_FALSE(parse_duration_us("999ns")) << "a time that becomes zero is a mistake";
}

TEST(Parse, DurationNoticesOverflow) {
  EXPECT_EQ(*parse_duration_us("9223372036854775807ns"), kDurationMax_us);
  EXPECT_EQ(*parse_duration_us("2562047h47m16.854775807s"), kDurationMax_us);
  for (const char* bad : {"9223372036854775808ns", "2562048h", "99999999999999999999h",
                          "18446744073709551615h", "2562047h60m"}) {
    const Result<uint64_t> us = parse_duration_us(bad);
    ASSERT_FALSE(us) << bad;
    EXPECT_EQ(us.error().code, TMESH_E_TOO_LARGE) << bad;
  }
}

TEST(Parse, DurationFormatsToTheShortestAndParsesBack) {
  EXPECT_EQ(format_duration(0), "0s");
  EXPECT_EQ(format_duration(90000000), "1m30s");
  EXPECT_EQ(format_duration(300000000), "5m");
  EXPECT_EQ(format_duration(100000), "100ms");
  EXPECT_EQ(format_duration(1500000), "1s500ms");
  EXPECT_EQ(format_duration(1), "1us");
  EXPECT_EQ(format_duration(3600000000), "1h");
  for (uint64_t us = 1; us < kDurationMax_us / 7; us = us * 7 + 3) {
    EXPECT_EQ(*parse_duration_us(format_duration(us)), us);
  }
}

TEST(Parse, SizesWithUnits) {
  EXPECT_EQ(*parse_size_bytes("262144"), 262144u);
  EXPECT_EQ(*parse_size_bytes("256KiB"), 262144u);
  EXPECT_EQ(*parse_size_bytes("256k"), 262144u);
  EXPECT_EQ(*parse_size_bytes("1MB"), 1048576u);
  EXPECT_EQ(*parse_size_bytes("2GiB"), 2147483648u);
  EXPECT_EQ(*parse_size_bytes("7B"), 7u);
  EXPECT_EQ(parse_size_bytes("18446744073709551615K").error().code, TMESH_E_TOO_LARGE);
  for (const char* bad : {"", "k", "1 k", "1.5M", "-1", "1TiB", "0x1"})
    EXPECT_FALSE(parse_size_bytes(bad)) << bad;
}

TEST(Parse, AsciiHelpers) {
  EXPECT_EQ(ascii_lower("AbC-\xC3\x84"), "abc-\xC3\x84");
  EXPECT_EQ(ascii_upper("aB.z"), "AB.Z");
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" \n"), "");
  EXPECT_TRUE(has_space_or_control("a b"));
  EXPECT_TRUE(has_space_or_control("a\x7F"));
  EXPECT_TRUE(has_space_or_control(std::string_view("\0", 1)));
  EXPECT_FALSE(has_space_or_control("a-b_\xC3\xA4"));
}

}  // namespace
}  // namespace tmesh
