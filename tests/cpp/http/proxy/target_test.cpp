#include "cpp/http/proxy/target.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tmesh::http {
namespace {

TEST(ParseAuthority, TakesNamesAndLiteralsWithAndWithoutAPort) {
  EXPECT_EQ(parse_authority("a.example", 80), (HostPort{"a.example", 80}));
  EXPECT_EQ(parse_authority("a.example:8080", 80), (HostPort{"a.example", 8080}));
  EXPECT_EQ(parse_authority("a:", 443), (HostPort{"a", 443}));
  EXPECT_EQ(parse_authority("10.0.0.1", 80), (HostPort{"10.0.0.1", 80}));
  EXPECT_EQ(parse_authority("[2001:db8::1]", 80), (HostPort{"2001:db8::1", 80}));
  EXPECT_EQ(parse_authority("[2001:db8::1]:81", 80), (HostPort{"2001:db8::1", 81}));
  EXPECT_EQ(parse_authority("[::1]:", 80), (HostPort{"::1", 80}));
}

TEST(ParseAuthority, RefusesWhatHasNoSingleReading) {
  for (const char* text : {"",          ":80",         "a:0",   "a:65536", "a:x",
                           "a:80:80",   "2001:db8::1", "[::1",  "[::1]x",  "[fe80::1%25eth0]",
                           "[1.2.3.4]", "u@a",         "u:p@a", "a%2eb",   "a b",
                           "a,b",       "a/b",         "\xe4",  "a: 80",   "a:-1",
                           "a:+1"}) {
    EXPECT_FALSE(parse_authority(text, 80)) << text;
  }
}

TEST(ParseConnectTarget, NeedsAPort) {
  EXPECT_EQ(parse_connect_target("a:443"), (HostPort{"a", 443}));
  EXPECT_EQ(parse_connect_target("[2001:db8::1]:443"), (HostPort{"2001:db8::1", 443}));
  // LESSONS P-G3: is the last part of the third one a port?
  for (const char* text : {"a", "a:", "2001:db8::1:443", "[::1]", "a:0", ":443", "http://a:443", "a:443/"}) {
    EXPECT_FALSE(parse_connect_target(text)) << text;
  }
}

TEST(ParseAbsoluteForm, SplitsAuthorityAndOriginForm) {
  const auto check = [](const char* text, const char* authority, uint16_t port, const char* origin_form) {
    const auto form = parse_absolute_form(text, false);
    ASSERT_TRUE(form) << text;
    EXPECT_EQ(form->authority, authority) << text;
    EXPECT_EQ(form->place.port, port) << text;
    EXPECT_EQ(form->origin_form, origin_form) << text;
  };
  check("http://a/", "a", 80, "/");
  check("http://a", "a", 80, "/");
  check("HTTP://A:81/b?c=http://d/", "A:81", 81, "/b?c=http://d/");
  check("http://a:/b", "a", 80, "/b");
  check("http://a?b", "a", 80, "/?b");
  check("http://[::1]/x", "[::1]", 80, "/x");
  check("http://[::1]:8080", "[::1]:8080", 8080, "/");
  check("http://a//b/../c", "a", 80, "//b/../c");
  EXPECT_EQ(parse_absolute_form("http://a", true)->origin_form, "*");
  EXPECT_EQ(parse_absolute_form("http://a/", true)->origin_form, "/");
}

TEST(ParseAbsoluteForm, RefusesOtherSchemesUserInformationAndFragments) {
  for (const char* text : {"/", "*", "a:80", "https://a/", "ftp://a/", "http:/a/", "http:///", "http://",
                           "http://u@a/", "http://u:p@a/", "http://a/#b", "http://::1/", "http://a:0/",
                           "http://a/\x7f", "http://a/ b", "http:// a/", "http://a\\@b/"}) {
    EXPECT_FALSE(parse_absolute_form(text, false)) << text;
  }
}

TEST(IsOriginForm, IsAPathOfVisibleCharacters) {
  EXPECT_TRUE(is_origin_form("/"));
  EXPECT_TRUE(is_origin_form("/a?b"));
  for (const char* text : {"", "*", "a", "http://a/", "/#", "/ ", "/\x80"})
    EXPECT_FALSE(is_origin_form(text));
}

}  // namespace
}  // namespace tmesh::http
