#include <gtest/gtest.h>

#include "cpp/server/target.hpp"
#include "cpp/server/target_pattern.hpp"

namespace tmesh::server {
namespace {

TEST(Target, IsNormalised) {
  struct Case {
    const char* protocol;
    const char* host;
    const char* wanted_protocol;
    const char* wanted_host;
    bool is_ip;
  };
  const Case cases[] = {
      {"tcp", "Example.COM", "tcp", "example.com", false},
      {" UDP ", "example.com.", "udp", "example.com", false},
      {"websocket", "a_b-c.example", "ws", "a_b-c.example", false},
      {"http", "10.0.0.1", "http", "10.0.0.1", true},
      {"tcp", "::FFFF:10.0.0.1", "tcp", "10.0.0.1", true},
      {"tcp", "2001:0DB8:0:0:0:0:0:1", "tcp", "2001:db8::1", true},
      {"tcp", "1password.example", "tcp", "1password.example", false},
      {"tcp", "0x1f.example", "tcp", "0x1f.example", false},
      {"tcp", "localhost", "tcp", "localhost", false},
  };
  for (const Case& c : cases) {
    const Result<Target> target = normalize_target(c.protocol, c.host, 80);
    ASSERT_TRUE(target) << c.host;
    EXPECT_EQ(target->protocol, c.wanted_protocol);
    EXPECT_EQ(target->host, c.wanted_host);
    EXPECT_EQ(target->ip.has_value(), c.is_ip) << c.host;
    EXPECT_EQ(target->port, 80);
  }
}

TEST(Target, RefusesHostsThatAreNeitherNameNorAddress) {
  const std::string long_label(64, 'a');
  for (const std::string& host :
       {std::string(), std::string("."), std::string(".example"), std::string("a..example"),
        std::string("example.."), std::string("a b"), std::string("a\0b", 3), std::string("a/b"),
        std::string("[::1]"), std::string("fe80::1%eth0"), std::string("*"), std::string("*.example"),
        std::string("a:80"), std::string("user@host"), std::string("m\xc3\xbcnchen.example"),
        long_label + ".example", std::string(256, 'a'), std::string("10.0.0.0/8")}) {
    const Result<Target> target = normalize_target("tcp", host, 80);
    ASSERT_FALSE(target) << host;
    EXPECT_EQ(target.error().code, TMESH_E_POLICY) << host;
  }
}

TEST(Target, RefusesNumbersThatAResolverTakesForAnAddress) {
  for (const char* host : {"127.1", "2130706433", "0x7f.0.0.1", "0x7f000001", "0177.0.0.1", "1.2.3.4.5",
                           "a.example.0x10", "10.0.0.1.", "0X7F000001", "1.2.3.0x4", "0x"}) {
    EXPECT_FALSE(normalize_target("tcp", host, 80)) << host;
  }
}

TEST(Target, RefusesUnknownProtocolsAndPortZero) {
  for (const char* protocol : {"", "icmp", "tcp6", "socks5", "tcp udp"}) {
    EXPECT_EQ(normalize_target(protocol, "a.example", 80).error().code, TMESH_E_POLICY) << protocol;
  }
  EXPECT_FALSE(normalize_target(std::string(29, ' ') + "tcp ", "a.example", 80)) << "over 32 bytes";
  EXPECT_FALSE(normalize_target("tcp", "a.example", 0));
}

TEST(TargetPattern, IsReadIntoThePolicyColumns) {
  struct Case {
    const char* text;
    const char* host;
    uint16_t port;
    const char* ports;
  };
  const Case cases[] = {
      {"*:*", "*", 0, "[]"},
      {"example.com:443", "example.com", 443, "[]"},
      {"Example.COM.:443", "example.com", 443, "[]"},
      {"*.Example.com:443", "*.example.com", 443, "[]"},
      {"10.0.0.0/8:*", "10.0.0.0/8", 0, "[]"},
      {"10.1.2.3/8:22", "10.0.0.0/8", 22, "[]"},
      {"10.0.0.1:22", "10.0.0.1", 22, "[]"},
      {"[::1]:443", "::1", 443, "[]"},
      {"[fd00::/8]:*", "fd00::/8", 0, "[]"},
      {"[::ffff:10.0.0.1]:1", "10.0.0.1", 1, "[]"},
      {"localhost:8080", "localhost", 8080, "[]"},
      {"a.example:443,80,80", "a.example", 0, "[80,443]"},
      {"a.example:8000-8100", "a.example", 0, "8000-8100"},
      {"*:1-1024,8080", "*", 0, "1-1024,8080"},
      {"*:7-7", "*", 7, "[]"},
  };
  for (const Case& c : cases) {
    const Result<TargetPattern> pattern = parse_target_pattern(c.text);
    ASSERT_TRUE(pattern) << c.text << ": " << pattern.error().text;
    EXPECT_EQ(pattern->target_host, c.host) << c.text;
    EXPECT_EQ(pattern->target_port, c.port) << c.text;
    EXPECT_EQ(format_port_list(pattern->allowed_ports), c.ports) << c.text;
  }
}

TEST(TargetPattern, SaysWhatIsWrong) {
  struct Case {
    const char* text;
    const char* reason;
  };
  const Case cases[] = {
      {"", "there is no :PORT at the end"},
      {"example.com", "there is no :PORT at the end"},
      {"[::1]", "there is no :PORT at the end"},
      {"[::1]443", "there is no :PORT at the end"},
      {"[::1:443", "the bracket is not closed"},
      {"::1:443", "an IPv6 address needs brackets"},
      {"fd00::/8:*", "an IPv6 address needs brackets"},
      {"[10.0.0.1]:1", "brackets are for IPv6 addresses"},
      {"[example.com]:1", "brackets are for IPv6 addresses"},
      {":443", "the host is empty"},
      {"[]:443", "the host is empty"},
      {"10.0.0.0/33:*", "the CIDR is malformed"},
      {"a/8:*", "the CIDR is malformed"},
      {"a*:1", "a * stands alone or as *. at the start"},
      {"*.*:1", "a * stands alone or as *. at the start"},
      {"*.:1", "the host is neither an address nor a host name"},
      {"127.1:80", "the host is neither an address nor a host name"},
      {"a b:1", "it contains a space or control character"},
      {"http://a.example:80", "an IPv6 address needs brackets"},
      {"a.example:0", "the port is not *, a number from 1 to 65535, a range or a list of these"},
      {"a.example:", "the port is not *, a number from 1 to 65535, a range or a list of these"},
      {"a.example:65536", "the port is not *, a number from 1 to 65535, a range or a list of these"},
      {"a.example:http", "the port is not *, a number from 1 to 65535, a range or a list of these"},
      {"a.example:90-80", "the port is not *, a number from 1 to 65535, a range or a list of these"},
      {"a.example:[80]", "the port is not *, a number from 1 to 65535, a range or a list of these"},
      {"a.example:*,80", "the port is not *, a number from 1 to 65535, a range or a list of these"},
  };
  for (const Case& c : cases) {
    const Result<TargetPattern> pattern = parse_target_pattern(c.text);
    ASSERT_FALSE(pattern) << c.text;
    EXPECT_EQ(pattern.error().code, TMESH_E_INVALID);
    EXPECT_STREQ(pattern.error().text, c.reason) << c.text;
  }
}

}  // namespace
}  // namespace tmesh::server
