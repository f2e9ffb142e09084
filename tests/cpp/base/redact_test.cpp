#include "cpp/base/redact.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh {
namespace {

static_assert(!std::is_convertible_v<Secret, std::string_view>);
static_assert(!std::is_convertible_v<Secret, std::string>);
static_assert(!std::is_convertible_v<std::string, Secret>, "a secret is made on purpose");
static_assert(!std::is_constructible_v<log::Field, std::string_view, const Secret&>,
              "a secret must not become a log field");

TEST(Redact, RevealGivesTheBytesBack) {
  const Secret secret("hunter2");
  EXPECT_EQ(secret.reveal(), "hunter2");
  EXPECT_EQ(secret.size(), 7u);
  EXPECT_EQ(secret.reveal().data()[7], '\0');
  EXPECT_TRUE(Secret().empty());
  EXPECT_EQ(Secret().reveal(), "");
  EXPECT_TRUE(Secret("").empty());
}

TEST(Redact, CopiesAreIndependent) {
  Secret a("one");
  Secret b = a;
  a.wipe();
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(b.reveal(), "one");
  a = b;
  b = Secret("two");
  EXPECT_EQ(a.reveal(), "one");
  EXPECT_EQ(b.reveal(), "two");
  Secret& same = a;
  a = same;
  EXPECT_EQ(a.reveal(), "one");
}

TEST(Redact, MoveLeavesNothingBehind) {
  Secret a("token");
  const Secret b = std::move(a);
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): emptiness after a move is the rule
  EXPECT_EQ(a.reveal(), "");
  EXPECT_EQ(b.reveal(), "token");
}

TEST(Redact, WipeOverwritesBytes) {
  char buffer[8] = {'s', 'e', 'c', 'r', 'e', 't', '!', '!'};
  secure_wipe(buffer, 6);
  EXPECT_EQ(std::string(buffer, 6), std::string(6, '\0'));
  EXPECT_EQ(buffer[6], '!');
  secure_wipe(nullptr, 0);
}

TEST(Redact, WipeOfAStringCoversItsWholeBuffer) {
  std::string text(100, 'x');
  text.resize(3);
  const char* data = text.data();
  secure_wipe(text);
  EXPECT_TRUE(text.empty());
  ASSERT_EQ(text.data(), data);
  EXPECT_GE(text.capacity(), 100u);
  text.resize(text.capacity(), 'y');  // what was behind the end is gone, too
  EXPECT_EQ(text.find('x'), std::string::npos);
}

TEST(Redact, EqualComparesContentAndLength) {
  EXPECT_TRUE(equal_constant_time("abc", "abc"));
  EXPECT_FALSE(equal_constant_time("abc", "abd"));
  EXPECT_FALSE(equal_constant_time("abc", "abcd"));
  EXPECT_FALSE(equal_constant_time(std::string_view("a\0b", 3), std::string_view("a\0c", 3)));
  EXPECT_TRUE(Secret("x").equals("x"));
  EXPECT_FALSE(Secret("x").equals(""));
  EXPECT_TRUE(Secret().equals(""));
}

}  // namespace
}  // namespace tmesh
