#include "cpp/base/json.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tmesh::json {
namespace {

TEST(Json, ReadsEveryKind) {
  const Result<Document> doc =
      parse(R"( {"s":"a\u00e4\ud83d\ude00","n":-12,"t":true,"z":null,"a":[1,2.5],"o":{}} )");
  ASSERT_TRUE(doc) << doc.error().text;
  const Value root = doc->root();
  EXPECT_TRUE(root.is_object());
  EXPECT_EQ(root.size(), 6u);
  EXPECT_EQ(root.get("s").as_string(), "a\xC3\xA4\xF0\x9F\x98\x80");
  EXPECT_EQ(root.get("n").as_int(), -12);
  EXPECT_EQ(root.get("t").as_bool(), true);
  EXPECT_TRUE(root.get("z").is_null());
  EXPECT_TRUE(root.get("a").is_array());
  EXPECT_TRUE(root.get("o").is_object());
  std::vector<double> numbers;
  for (const Value item : root.get("a")) numbers.push_back(*item.as_number());
  EXPECT_EQ(numbers, (std::vector<double>{1, 2.5}));
}

TEST(Json, WrongTypeIsNoAnswer) {
  const Result<Document> doc = parse(R"({"s":"1","n":1,"f":1.5,"big":9007199254740993})");
  ASSERT_TRUE(doc);
  const Value root = doc->root();
  EXPECT_FALSE(root.get("s").as_int());
  EXPECT_FALSE(root.get("s").as_bool());
  EXPECT_FALSE(root.get("n").as_string());
  EXPECT_FALSE(root.get("f").as_int());
  EXPECT_FALSE(root.get("big").as_int()) << "beyond 2^53-1 a JSON number is not exact";
  EXPECT_FALSE(root.get("missing"));
  EXPECT_FALSE(root.get("missing").as_string());
  EXPECT_FALSE(root.get("missing").get("deeper"));
  EXPECT_EQ(root.get("n").size(), 0u);
  EXPECT_EQ(Value().key(), "");
}

TEST(Json, LastOfRepeatedMembersCounts) {
  const Result<Document> doc = parse(R"({"a":1,"A":7,"a":2})");
  ASSERT_TRUE(doc);
  EXPECT_EQ(doc->root().get("a").as_int(), 2);
  EXPECT_EQ(doc->root().get("A").as_int(), 7);
}

TEST(Json, ReaderIsStrict) {
  for (const char* bad : {"",
                          " ",
                          "{",
                          "}",
                          "[1,]",
                          "{\"a\":1,}",
                          "{\"a\"}",
                          "{a:1}",
                          "{'a':1}",
                          "[1 2]",
                          "01",
                          "1.",
                          ".5",
                          "+1",
                          "1e",
                          "-",
                          "nul",
                          "True",
                          "\"",
                          "\"\t\"",
                          "\"\\x\"",
                          "\"\\u12\"",
                          "\"\\u0000\"",
                          "\"\\ud800\"",
                          "\"\\udc00\"",
                          "\"\\ud800\\u0041\"",
                          "\"\xFF\"",
                          "\xEF\xBB\xBF{}",
                          "{} x",
                          "{}{}",
                          "[1]]",
                          "[}",
                          "{]",
                          "//c\n1",
                          "NaN",
                          "Infinity",
                          "[\"a\":1]",
                          "{\"a\":1 \"b\":2}",
                          "{\"a\":[1}",
                          "1 2"}) {
    EXPECT_FALSE(parse(bad)) << bad;
  }
  EXPECT_FALSE(parse(std::string_view("1\0", 2)));
  EXPECT_FALSE(parse(std::string_view("\"a\0b\"", 5)));
  for (const char* good :
       {"1", "-0", "0.5e-3", "1E+2", "\"\\/\\b\"", "[]", "{}", "[[],{}]", "{\"a\":[{}],\"b\":{}}",
        "\n[ 1 , 2 ]\r\n", "null", "\"\\uD83D\\uDE00\"", "[{\"a\":[]},[1]]"}) {
    EXPECT_TRUE(parse(good)) << good;
  }
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(parse(nested(16)));
  EXPECT_EQ(parse(nested(17)).error().code, TMESH_E_TOO_LARGE);
  EXPECT_TRUE(parse(nested(64), {.depth_max = 64}));
  EXPECT_FALSE(parse(nested(100000)));
  EXPECT_FALSE(parse(std::string(100000, '{')));
  EXPECT_TRUE(parse("[[[]],[[]]]", {.depth_max = 3}));
  EXPECT_FALSE(parse("[[[[]]]]", {.depth_max = 3}));
}

TEST(Json, SizeIsBounded) {
  EXPECT_TRUE(parse("[1,2]", {.size_bytes_max = 5}));
  EXPECT_EQ(parse("[1,22]", {.size_bytes_max = 5}).error().code, TMESH_E_TOO_LARGE);
}

TEST(Json, WriterCompact) {
  std::string out;
  Writer w(out);
  w.begin_object()
      .member("s", "a\"b\\\n\x01\xC2\x9B")
      .member("i", -1)
      .member("u", uint64_t{18446744073709551615u});
  w.member("t", true)
      .key("n")
      .null()
      .key("a")
      .begin_array()
      .integer(1)
      .string("x")
      .begin_object()
      .end_object();
  w.end_array().key("r").raw("[1]").end_object();
  EXPECT_EQ(
      out,
      "{\"s\":\"a\\\"b\\\\\\n\\u0001\\u009b\",\"i\":-1,\"u\":18446744073709551615,\"t\":true,\"n\":null,"
      "\"a\":[1,\"x\",{}],\"r\":[1]}");
}

TEST(Json, WriterIndented) {
  std::string out;
  Writer w(out, Writer::Style::indented);
  w.begin_object().key("a").begin_array().integer(1).integer(2).end_array();
  w.key("b").begin_object().end_object().key("c").begin_array().end_array().end_object();
  EXPECT_EQ(out, "{\n  \"a\": [\n    1,\n    2\n  ],\n  \"b\": {},\n  \"c\": []\n}");
}

TEST(Json, WriterNeverMakesInvalidText) {
  std::string every;
  for (int c = 1; c < 256; ++c) every.push_back(static_cast<char>(c));
  std::string out;
  append_quoted(out, every);
  EXPECT_TRUE(parse(out));
  out.clear();
  append_quoted(out, std::string_view("\0", 1));
  EXPECT_EQ(out, "\"\\u0000\"");
}

TEST(JsonDeathTest, WriterAssertsNesting) {
  std::string out;
  EXPECT_DEATH(Writer(out).begin_object().integer(1), "assertion failed");
  EXPECT_DEATH(Writer(out).begin_array().key("a"), "assertion failed");
  EXPECT_DEATH(Writer(out).begin_array().end_object(), "assertion failed");
  EXPECT_DEATH(Writer(out).begin_object().key("a").end_object(), "assertion failed");
}

}  // namespace
}  // namespace tmesh::json
