#include "cpp/base/nearest.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tmesh {
namespace {

TEST(Nearest, DistanceCountsEdits) {
  EXPECT_EQ(edit_distance("", ""), 0u);
  EXPECT_EQ(edit_distance("abc", "abc"), 0u);
  EXPECT_EQ(edit_distance("abc", ""), 3u);
  EXPECT_EQ(edit_distance("abc", "abd"), 1u);
  EXPECT_EQ(edit_distance("abc", "abcd"), 1u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
}

TEST(Nearest, SwapOfNeighboursIsOneEdit) {
  EXPECT_EQ(edit_distance("listen", "lisetn"), 1u);
  EXPECT_EQ(edit_distance("ab", "ba"), 1u);
}

TEST(Nearest, CaseIsIgnored) {
  EXPECT_EQ(edit_distance("Server", "sERVER"), 0u);
}

TEST(Nearest, LongNamesAreNotCompared) {
  const std::string longest(kNearestBytesMax, 'a');
  EXPECT_EQ(edit_distance(longest, longest), 0u);
  EXPECT_EQ(edit_distance(longest + "a", longest), SIZE_MAX);
}

TEST(Nearest, PicksTheClosestAndTheFirstOfEquals) {
  const std::vector<std::string_view> names = {"run", "check-config", "print-config", "quickstart"};
  EXPECT_EQ(nearest("rnu", names), "run");
  EXPECT_EQ(nearest("chekc-config", names), "check-config");
  EXPECT_EQ(nearest("quikstart", names), "quickstart");
  const std::vector<std::string_view> equals = {"aaab", "aaac"};
  EXPECT_EQ(nearest("aaad", equals), "aaab");
}

TEST(Nearest, ProposesNothingFarFetched) {
  const std::vector<std::string_view> names = {"run", "check-config"};
  EXPECT_EQ(nearest("zzzzzz", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest("ran", {}), "");
}

}  // namespace
}  // namespace tmesh
