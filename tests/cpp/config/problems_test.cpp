#include "cpp/config/problems.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tmesh::config {
namespace {

TEST(Problems, OneLineEach) {
  Problems problems;
  problems.error({Origin::Kind::flag, "mode", 0}, "mode", "is bad");
  problems.error({Origin::Kind::file, "f", 9}, "b", "late");
  problems.warn({Origin::Kind::file, "f", 3}, "c", "odd");
  problems.warn({}, "", "everything is odd");
  problems.error({Origin::Kind::env, "X_Y", 0}, "", "is bad");
  problems.error({Origin::Kind::file, "f", 2}, "a", "early");
  problems.error({}, "d", "is required");
  problems.error({Origin::Kind::file, "f", 0}, "", "cannot be read");
  EXPECT_EQ(problems.errors_text(),
            "f:2: a: early\nf:9: b: late\nflag --mode: mode: is bad\nenv X_Y: is bad\nd: is required\nf: "
            "cannot be read\n");
  EXPECT_EQ(problems.warnings_text(), "f:3: warning: c: odd\nwarning: everything is odd\n");
  EXPECT_EQ(problems.error_count(), 6u);
  EXPECT_EQ(problems.warning_count(), 2u);
  EXPECT_TRUE(problems.has_errors());
}

TEST(Problems, WarningsAloneAreNoErrors) {
  Problems problems;
  problems.warn({}, "a", "odd");
  EXPECT_FALSE(problems.has_errors());
  EXPECT_EQ(problems.errors_text(), "");
}

TEST(Problems, ListIsBoundedAndSaysSo) {
  Problems problems;
  for (std::size_t i = 0; i < Problems::kMax + 7; ++i) problems.error({}, "k", "bad");
  EXPECT_TRUE(problems.is_full());
  EXPECT_EQ(problems.list().size(), Problems::kMax);
  EXPECT_TRUE(problems.errors_text().ends_with("k: bad\nand 7 more\n"));
}

TEST(Problems, OriginText) {
  EXPECT_EQ(Origin{}.text(), "default");
  EXPECT_EQ((Origin{Origin::Kind::file, "a.yaml", 12}.text()), "a.yaml:12");
  EXPECT_EQ((Origin{Origin::Kind::env, "TUNNELMESH_MODE", 0}.text()), "env TUNNELMESH_MODE");
  EXPECT_EQ((Origin{Origin::Kind::flag, "mode", 0}.text()), "flag --mode");
}

TEST(Problems, Proposal) {
  EXPECT_EQ(with_proposal("unknown key", "mode"), "unknown key (did you mean mode?)");
  EXPECT_EQ(with_proposal("unknown key", ""), "unknown key");
}

}  // namespace
}  // namespace tmesh::config
