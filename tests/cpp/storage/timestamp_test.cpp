#include "cpp/storage/timestamp.hpp"

#include <gtest/gtest.h>

namespace tmesh::storage {
namespace {

constexpr int64_t second = 1'000'000;

TEST(Timestamp, FormatTrimsZerosAndKeepsMicroseconds) {
  EXPECT_EQ(format_timestamp(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(format_timestamp(500'000), "1970-01-01T00:00:00.5Z");
  EXPECT_EQ(format_timestamp(1), "1970-01-01T00:00:00.000001Z");
  EXPECT_EQ(format_timestamp(1'800'000'000 * second), "2027-01-15T08:00:00Z");
  EXPECT_EQ(format_timestamp(951'827'696 * second + 10), "2000-02-29T12:34:56.00001Z");
  EXPECT_EQ(format_timestamp(-1), "1969-12-31T23:59:59.999999Z");
}

TEST(Timestamp, FormatStaysInsideTheYears1To9999) {
  EXPECT_EQ(format_timestamp(INT64_MIN), "0001-01-01T00:00:00Z");
  EXPECT_EQ(format_timestamp(INT64_MAX), "9999-12-31T23:59:59.999999Z");
}

TEST(Timestamp, ParseReadsWhatFormatWrites) {
  for (const int64_t us : {int64_t{0}, int64_t{-1}, int64_t{123'456}, int64_t{1'800'000'000'999'999},
                           int64_t{951'827'696'000'010}}) {
    EXPECT_EQ(parse_timestamp(format_timestamp(us)), us) << us;
  }
}

TEST(Timestamp, ParseDropsDigitsBeyondMicroseconds) {
  EXPECT_EQ(parse_timestamp("1970-01-01T00:00:01.123456789Z"), 1'123'456);
  EXPECT_EQ(parse_timestamp("1970-01-01T00:00:01.0000009Z"), 1'000'000);
}

TEST(Timestamp, ParseRefusesEverythingElse) {
  for (const char* text : {"",
                           "Z",
                           "1970-01-01",
                           "1970-01-01T00:00:00",
                           "1970-01-01 00:00:00Z",
                           "1970-01-01T00:00:00+00:00",
                           "1970-01-01t00:00:00z",
                           "1970-13-01T00:00:00Z",
                           "1970-00-01T00:00:00Z",
                           "1970-02-30T00:00:00Z",
                           "2023-02-29T00:00:00Z",
                           "1970-01-01T24:00:00Z",
                           "1970-01-01T00:60:00Z",
                           "1970-01-01T00:00:60Z",
                           "1970-01-01T00:00:00.Z",
                           "1970-01-01T00:00:00.1234567890Z",
                           "1970-01-01T00:00:00.12x4Z",
                           "1970-01-01T00:00:00,5Z",
                           "0000-01-01T00:00:00Z",
                           "+970-01-01T00:00:00Z",
                           "1970-1-01T00:00:00Z",
                           "1970-01-01T00:00:00ZZ",
                           " 1970-01-01T00:00:00Z"}) {
    EXPECT_EQ(parse_timestamp(text), std::nullopt) << text;
  }
}

TEST(Timestamp, SystemClockIsThisCentury) {
  EXPECT_GT(system_clock()(), *parse_timestamp("2024-01-01T00:00:00Z"));
}

}  // namespace
}  // namespace tmesh::storage
