#include "cpp/config/yaml.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tmesh::config {
namespace {

// "path=value@line" for scalars, "path~" null, "path{}" mapping, "path[]" sequence.
std::string flat(std::string_view text, Problems* problems = nullptr) {
  Problems own;
  Problems& where = problems == nullptr ? own : *problems;
  const std::string file = "f.yaml";
  std::string out;
  for (const YamlNode& node : read_yaml(text, file, where)) {
    if (!out.empty()) out += ' ';
    out += node.path;
    switch (node.kind) {
      case YamlNode::Kind::scalar:
        out += "=" + node.value + "@" + std::to_string(node.line);
        break;
      case YamlNode::Kind::null:
        out += "~";
        break;
      case YamlNode::Kind::mapping:
        out += "{}";
        break;
      case YamlNode::Kind::sequence:
        out += "[]";
        break;
    }
  }
  EXPECT_EQ(own.errors_text(), "") << text;
  return out;
}

std::string errors(std::string_view text) {
  Problems problems;
  flat(text, &problems);
  return problems.errors_text();
}

TEST(Yaml, PathsValuesAndLines) {
  EXPECT_EQ(flat("a:\n  b: 1\n  c: [x, y]\nd:\n  - e: 2\n  - f: 3\n"),
            "{} a{} a.b=1@2 a.c[] a.c[0]=x@3 a.c[1]=y@3 d[] d[0]{} d[0].e=2@5 d[1]{} d[1].f=3@6");
}

TEST(Yaml, JsonIsReadByTheSameParser) {
  EXPECT_EQ(flat("{\"a\":{\"b\":1},\n\t\"c\":[\"x\",null],\"d\":\"\\u00e4\\/\"}"),
            "{} a{} a.b=1@1 c[] c[0]=x@2 c[1]~ d=\xC3\xA4/@2");
}

TEST(Yaml, NullAndQuotedNothingDiffer) {
  EXPECT_EQ(flat("a:\nb: ~\nc: null\nd: ''\ne: \"null\"\nf: !!str null\n"), "{} a~ b~ c~ d=@4 e=null@5 f~");
}

TEST(Yaml, EmptyTextHasNoNodes) {
  EXPECT_EQ(flat(""), "");
  EXPECT_EQ(flat("# only a comment\n"), "");
  EXPECT_EQ(flat("---\n"), "~");
}

TEST(Yaml, KeysCompareWithoutCase) {
  EXPECT_EQ(flat("Server:\n  HTTP_Addr: x\n"), "{} server{} server.http_addr=x@2");
}

TEST(Yaml, KeysWithDotsArePaths) {
  EXPECT_EQ(flat("a.b: 1\n"), "{} a.b=1@1");
}

TEST(Yaml, TabsInTheIndentation) {
  EXPECT_EQ(errors("a:\n\tb: 1\n \tc: 2\n"),
            "f.yaml:2: has a tab in the indentation; use spaces\nf.yaml:3: has a tab in the indentation; use "
            "spaces\n");
  EXPECT_EQ(errors("a: 1\t# a tab behind a value is harmless\n"), "");
  EXPECT_EQ(errors("a: 1\n\t\n"), "f.yaml:2: has a tab in the indentation; use spaces\n");
}

// Some editors begin every file with a byte order mark.
TEST(Yaml, AByteOrderMarkIsNoContent) {
  EXPECT_EQ(flat("\xEF\xBB\xBF{\r\n\t\"a\": 1}\r\n"), "{} a=1@2");
  EXPECT_EQ(flat("\xEF\xBB\xBF"
                 "a: 1\r\n"),
            "{} a=1@1");
}

TEST(Yaml, RepeatedKeys) {
  EXPECT_EQ(errors("a: 1\nb:\n  c: 1\n  C: 2\na:\n  x: 1\n"),
            "f.yaml:4: b.c: is set twice; the first is on line 3\nf.yaml:5: a: is set twice; the first is on "
            "line 1\n");
  Problems problems;
  EXPECT_EQ(flat("a: 1\na: {x: {y: 1}}\nb: 2\n", &problems), "{} a=1@1 b=2@3")
      << "the first stays, reading goes on";
}

TEST(Yaml, AliasesAreRefused) {
  EXPECT_EQ(errors("a: &x [1, 2]\nb: *x\nc: 3\n"),
            "f.yaml:2: aliases (*name) are not supported; write the value out\n");
  Problems problems;
  EXPECT_EQ(flat("a: &x 1\nb: *x\n*x : 5\nc: [*x, 2]\nd: 3\n", &problems), "{} a=1@1 c[] c[1]=2@4 d=3@5");
  EXPECT_EQ(problems.error_count(), 3u);
}

TEST(Yaml, AliasBombCostsNothing) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    const std::string p = "*a" + std::to_string(i - 1);
    bomb +=
        "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + p + "," + p + "," + p + "," + p + "]\n";
  }
  Problems problems;
  const std::string file = "f.yaml";
  EXPECT_LT(read_yaml(bomb, file, problems).size(), 100u);
  EXPECT_EQ(problems.error_count(), 29u * 4);
}

TEST(Yaml, TagsAreRefused) {
  EXPECT_EQ(errors("a: !secret x\nb: !!int 3\nc: !!python/object {}\n"),
            "f.yaml:1: tags (!name) are not supported\nf.yaml:3: tags (!name) are not supported\n");
}

TEST(Yaml, OnlyOneDocument) {
  EXPECT_EQ(errors("a: 1\n---\nb: 2\n"), "f.yaml:2: only one document is read\n");
}

TEST(Yaml, KeysArePlainText) {
  Problems problems;
  EXPECT_EQ(flat("? [a, b]\n: {c: 1}\n'': 1\n'x y': 2\nd[0]: 3\ne: 4\n", &problems), "{} e=4@6");
  EXPECT_EQ(problems.error_count(), 4u);
}

TEST(Yaml, SyntaxErrorNamesItsLine) {
  const std::string text = errors("a: 1\nb: [1, 2\nc: 3\n");
  EXPECT_TRUE(text.starts_with("f.yaml:3: syntax: ") || text.starts_with("f.yaml:4: syntax: ")) << text;
  EXPECT_TRUE(errors("a: \"open\n").starts_with("f.yaml:2: syntax: "));
  EXPECT_TRUE(errors("a: b: c\n").starts_with("f.yaml:1: syntax: "));
}

TEST(Yaml, WhatStandsBeforeASyntaxErrorIsRead) {
  Problems problems;
  EXPECT_EQ(flat("a: 1\nb: ]\n", &problems), "{} a=1@1");
  EXPECT_EQ(problems.error_count(), 1u);
}

TEST(Yaml, InvalidUtf8NamesItsLine) {
  EXPECT_EQ(errors("a: 1\nb: \xFF\n"), "f.yaml:2: is not valid UTF-8, or has control characters\n");
  EXPECT_EQ(errors(std::string_view("a: 1\nb: x\0y\n", 12)),
            "f.yaml:2: is not valid UTF-8, or has control characters\n");
  EXPECT_EQ(errors("a: \"x\\0y\"\n"), "f.yaml:1: a value holds a NUL character\n");
}

TEST(Yaml, NestingIsBounded) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  EXPECT_EQ(errors(text), "f.yaml:17: is nested too deeply\n");
  EXPECT_NE(errors(std::string(20000, '[')), "");
  EXPECT_NE(errors(std::string(20000, '{')), "");
}

TEST(Yaml, SizeAndCountAreBounded) {
  EXPECT_EQ(errors(std::string(kFileBytesMax + 1, '#')), "f.yaml: is larger than 1 MiB\n");
  EXPECT_EQ(errors(std::string(kFileBytesMax, '#')), "");
  std::string many = "[";
  for (std::size_t i = 0; i < kYamlNodesMax + 10; ++i) many += "1,";
  EXPECT_EQ(errors(many + "1]"), "f.yaml:1: has too many values\n");
}

// Each of these took minutes before something was bounded.
TEST(Yaml, HostileTextsTakeNoTime) {
  std::string keys = "{";
  for (int i = 0; i < 60000; ++i) keys += "k" + std::to_string(i) + ": 1,";
  EXPECT_NE(errors(keys + "}"), "") << "too many values";
  EXPECT_NE(errors(std::string(1000000, '{')), "");
  std::string pairs;
  for (int i = 0; i < 300000; ++i) pairs += "? ";
  EXPECT_NE(errors(pairs), "");
}

TEST(Yaml, ProblemsAreBounded) {
  std::string text = "a: 1\n";
  for (int i = 0; i < 5000; ++i) text += "a: 1\n";
  Problems problems;
  const std::string file = "f.yaml";
  read_yaml(text, file, problems);
  EXPECT_EQ(problems.list().size(), Problems::kMax);
}

TEST(Yaml, EveryPrefixOfAFileIsHandled) {
  const std::string text =
      "server:\n  http_addr: \":80\"\n  stream: {max_pending_opens: 5}\nclient:\n  tunnels:\n  - name: a\n   "
      " hosts: [x]\n";
  for (std::size_t n = 0; n <= text.size(); ++n) {
    Problems problems;
    flat(text.substr(0, n), &problems);
    EXPECT_LE(problems.error_count(), 1u);
  }
}

}  // namespace
}  // namespace tmesh::config
