#include "cpp/storage/sql_splitter.hpp"

#include <gtest/gtest.h>

#include "cpp/storage/scripts.hpp"

namespace tmesh::storage {
namespace {

struct Case {
  const char* name;
  const char* script;
  std::vector<std::string_view> both;  // expected for both drivers
};

class Splitter : public testing::TestWithParam<Driver> {};

TEST_P(Splitter, CutsAtTheSemicolonsThatEndAStatement) {
  const Case cases[] = {
      {"empty", "", {}},
      {"space and semicolons", " ;\n; ;", {}},
      {"two", "a; b;", {"a", "b"}},
      {"last without semicolon", "a;\n b \n", {"a", "b"}},
      {"line comment with a semicolon", "a -- x; y\n, b; c", {"a -- x; y\n, b", "c"}},
      {"line comment at the end", "a; -- done; really", {"a"}},
      {"only a comment", "-- a;\n/* b; */", {}},
      {"block comment with a semicolon", "a /* x; y */ b; c", {"a /* x; y */ b", "c"}},
      {"block comment over quotes", "a /* it's */ b; c", {"a /* it's */ b", "c"}},
      {"line comment over quotes", "a -- it's\n b; c", {"a -- it's\n b", "c"}},
      {"comment marks inside a string", "a '-- x' b; c '/*'; d", {"a '-- x' b", "c '/*'", "d"}},
      {"string", "a 'x;y'; b", {"a 'x;y'", "b"}},
      {"doubled quote", "a 'it''s; x'; b", {"a 'it''s; x'", "b"}},
      {"string of one quote", "a ''''; b", {"a ''''", "b"}},
      {"double-quoted identifier", "a \"x;\"\"y\"; b", {"a \"x;\"\"y\"", "b"}},
      {"backticks", "a `x;``y`; b", {"a `x;``y`", "b"}},
      {"a single dash is no comment", "a - b; c / d", {"a - b", "c / d"}},
  };
  for (const Case& c : cases) {
    const Result<std::vector<std::string_view>> cut = split_sql(c.script, GetParam());
    ASSERT_TRUE(cut) << c.name;
    EXPECT_EQ(*cut, c.both) << c.name;
  }
}

TEST_P(Splitter, RefusesWhatIsNotClosed) {
  for (const char* script : {"a 'x", "a \"x", "a `x", "a /* x", "a /*/", "a 'it''"}) {
    const Result<std::vector<std::string_view>> cut = split_sql(script, GetParam());
    ASSERT_FALSE(cut) << script;
    EXPECT_EQ(cut.error().code, TMESH_E_INVALID);
  }
}

INSTANTIATE_TEST_SUITE_P(Drivers, Splitter, testing::Values(Driver::sqlite, Driver::mysql));

TEST(SplitterDialect, BackslashEscapesOnlyOnMysql) {
  const char* script = R"(a 'x\'; b'; c)";
  EXPECT_EQ(*split_sql(script, Driver::mysql), (std::vector<std::string_view>{R"(a 'x\'; b')", "c"}));
  EXPECT_FALSE(split_sql(script, Driver::sqlite));
  EXPECT_EQ(*split_sql(R"(a 'x\'; b)", Driver::sqlite), (std::vector<std::string_view>{R"(a 'x\')", "b"}));
}

TEST(SplitterDialect, HashCommentsOnlyOnMysql) {
  EXPECT_EQ(*split_sql("a # b; c\n; d", Driver::mysql), (std::vector<std::string_view>{"a # b; c", "d"}));
  EXPECT_EQ(*split_sql("a # b; c", Driver::sqlite), (std::vector<std::string_view>{"a # b", "c"}));
}

TEST(SplitterDialect, BracketsOnlyOnSqlite) {
  EXPECT_EQ(*split_sql("a [x;y]; b", Driver::sqlite), (std::vector<std::string_view>{"a [x;y]", "b"}));
  EXPECT_EQ(*split_sql("a [x;y]; b", Driver::mysql), (std::vector<std::string_view>{"a [x", "y]", "b"}));
}

TEST(SplitterScripts, EveryEmbeddedScriptCuts) {
  EXPECT_EQ(split_sql(v0008_to_v0009_sqlite_sql, Driver::sqlite)->size(), 4U);
  EXPECT_EQ(split_sql(v0008_to_v0009_mysql_sql, Driver::mysql)->size(), 4U);
  EXPECT_EQ(*split_sql(ddl_sql, Driver::sqlite), *split_sql(ddl_sql, Driver::mysql))
      << "one text for both drivers";
}

}  // namespace
}  // namespace tmesh::storage
