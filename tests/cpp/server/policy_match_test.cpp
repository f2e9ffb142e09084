#include "cpp/server/policy_match.hpp"

#include <gtest/gtest.h>

#include "cpp/server/policy_lists.hpp"

namespace tmesh::server {
namespace {

struct Row {
  std::string host = "*";
  int64_t port = 0;
  std::string protocol = "tcp";
  std::string cidrs = "[]";
  std::string ports = "[]";
};
struct Case {
  Row row;
  const char* host;
  uint16_t port;
  bool is_allowed;
  const char* protocol = "tcp";
};

storage::PolicyRecord record(const Row& row) {
  storage::PolicyRecord policy;
  policy.target_host = row.host;
  policy.target_port = row.port;
  policy.protocol = row.protocol;
  policy.allowed_cidrs = row.cidrs;
  policy.allowed_ports = row.ports;
  return policy;
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const Result<Target> target = normalize_target(c.protocol, c.host, c.port);
    ASSERT_TRUE(target) << c.host;
    const Result<PolicyRule> rule = PolicyRule::read(record(c.row));
    ASSERT_TRUE(rule) << c.row.host << ": " << rule.error().text;
    PolicyRules rules;
    rules.add(*rule);
    EXPECT_EQ(rules.allows(*target), c.is_allowed) << c.row.host << ": found by its host";
    EXPECT_EQ(rule->allows(*target), c.is_allowed)
        << "row " << c.row.host << ':' << c.row.port << ' ' << c.row.protocol << " cidrs " << c.row.cidrs
        << " ports " << c.row.ports << " target " << c.protocol << ' ' << c.host << ':' << c.port;
  }
}

TEST(PolicyMatch, ProtocolIsEqualAfterNormalisation) {
  check({{{.protocol = "tcp"}, "a.example", 1, true, "tcp"},
         {{.protocol = " TCP "}, "a.example", 1, true, "tcp"},
         {{.protocol = "tcp"}, "a.example", 1, true, "Tcp"},
         {{.protocol = "tcp"}, "a.example", 1, false, "udp"},
         {{.protocol = "websocket"}, "a.example", 1, true, "ws"},
         {{.protocol = "ws"}, "a.example", 1, true, "websocket"},
         {{.protocol = "http"}, "a.example", 1, false, "tcp"},
         {{.protocol = ""}, "a.example", 1, false, "tcp"},
         {{.protocol = "sctp"}, "a.example", 1, false, "tcp"}});
}

TEST(PolicyMatch, HostNamesIgnoreCaseSpaceAndTrailingDot) {
  check({{{.host = "db.example.com"}, "db.example.com", 1, true},
         {{.host = "db.example.com"}, "DB.Example.COM", 1, true},
         {{.host = " DB.example.com\t"}, "db.example.com", 1, true},
         {{.host = "db.example.com."}, "db.example.com", 1, true},
         {{.host = "db.example.com"}, "db.example.com.", 1, true},
         {{.host = "db.example.com"}, "b.example.com", 1, false},
         {{.host = "db.example.com"}, "x.db.example.com", 1, false},
         {{.host = "db.example.com"}, "db.example.comx", 1, false},
         {{.host = "localhost"}, "localhost", 1, true},
         {{.host = "localhost"}, "127.0.0.1", 1, false}});
}

TEST(PolicyMatch, AStarAllowsAnyHost) {
  check({{{.host = "*"}, "a.example", 1, true},
         {{.host = " * "}, "10.0.0.1", 1, true},
         {{.host = "*"}, "::1", 1, true}});
}

TEST(PolicyMatch, AWildcardAllowsSubdomainsOnly) {
  check({{{.host = "*.example.com"}, "a.example.com", 1, true},
         {{.host = "*.example.com"}, "a.b.example.com", 1, true},
         {{.host = "*.EXAMPLE.com."}, "A.example.com.", 1, true},
         {{.host = "*.example.com"}, "example.com", 1, false},
         {{.host = "*.example.com"}, "badexample.com", 1, false},
         {{.host = "*.example.com"}, "a.example.com.evil.test", 1, false},
         {{.host = "*.example.com"}, "10.0.0.1", 1, false}});
}

TEST(PolicyMatch, ACidrHostAllowsAddressesOnly) {
  check({{{.host = "10.0.0.0/8"}, "10.255.0.1", 1, true},
         {{.host = "10.1.2.3/8"}, "10.255.0.1", 1, true},
         {{.host = "10.0.0.0/8"}, "11.0.0.1", 1, false},
         {{.host = "10.0.0.0/8"}, "ten.example.com", 1, false},
         {{.host = "10.0.0.0/8"}, "::ffff:10.0.0.1", 1, true},
         {{.host = "::ffff:10.0.0.0/104"}, "10.9.9.9", 1, true},
         {{.host = "fd00::/8"}, "fd12::1", 1, true},
         {{.host = "fd00::/8"}, "fe80::1", 1, false},
         {{.host = "0.0.0.0/0"}, "203.0.113.9", 1, true},
         {{.host = "0.0.0.0/0"}, "2001:db8::1", 1, false},
         {{.host = "::/0"}, "203.0.113.9", 1, false},
         {{.host = "192.0.2.7/32"}, "192.0.2.7", 1, true},
         {{.host = "192.0.2.7/32"}, "192.0.2.8", 1, false}});
}

TEST(PolicyMatch, AddressesCompareAsAddresses) {
  check({{{.host = "192.0.2.7"}, "192.0.2.7", 1, true},
         {{.host = "192.0.2.7"}, "::ffff:192.0.2.7", 1, true},
         {{.host = "::ffff:192.0.2.7"}, "192.0.2.7", 1, true},
         {{.host = "2001:DB8:0:0::1"}, "2001:db8::1", 1, true},
         {{.host = "192.0.2.7"}, "192.0.2.77", 1, false},
         {{.host = "::1"}, "127.0.0.1", 1, false}});
}

TEST(PolicyMatch, PortsAreEqualOrAnyForZero) {
  check({{{.port = 443}, "a.example", 443, true},
         {{.port = 443}, "a.example", 444, false},
         {{.port = 0}, "a.example", 1, true},
         {{.port = 0}, "a.example", 65535, true}});
}

TEST(PolicyMatch, AllowedPortsDecideAfterThePort) {
  check({{{.ports = "[80,443]"}, "a.example", 443, true},
         {{.ports = "[80,443]"}, "a.example", 444, false},
         {{.ports = "80, 443"}, "a.example", 443, true},
         {{.ports = "8000-8100,9000"}, "a.example", 8000, true},
         {{.ports = "8000-8100,9000"}, "a.example", 8100, true},
         {{.ports = "8000-8100,9000"}, "a.example", 8101, false},
         {{.ports = " 9000 "}, "a.example", 9000, true},
         {{.ports = ""}, "a.example", 5, true},
         {{.ports = " "}, "a.example", 5, true},
         {{.port = 443, .ports = "[80]"}, "a.example", 443, false},
         {{.port = 443, .ports = "[443]"}, "a.example", 443, true}});
}

TEST(PolicyMatch, AllowedCidrsNeedAnAddress) {
  check({{{.cidrs = R"(["10.0.0.0/8"])"}, "10.1.1.1", 1, true},
         {{.cidrs = R"(["10.0.0.0/8"])"}, "11.1.1.1", 1, false},
         {{.cidrs = R"(["10.0.0.0/8"])"}, "a.example", 1, false},
         {{.cidrs = "10.0.0.0/8, fd00::/8"}, "fd00::1", 1, true},
         {{.cidrs = "10.0.0.0/8"}, "::ffff:10.0.0.1", 1, true},
         {{.cidrs = ""}, "a.example", 1, true},
         {{.host = "10.0.0.0/8", .cidrs = "10.1.0.0/16"}, "10.2.0.1", 1, false},
         {{.host = "10.0.0.0/8", .cidrs = "10.1.0.0/16"}, "10.1.0.1", 1, true}});
}

TEST(PolicyMatch, AMalformedRowIsReportedWhateverTheTarget) {
  const Row rows[] = {
      {.host = ""},
      {.host = "  "},
      {.host = "a b"},
      {.host = "a\x01"
               "b"},
      {.host = std::string(256, 'a')},
      {.host = "a*"},
      {.host = "*a"},
      {.host = "*."},
      {.host = "*.*"},
      {.host = "a.*.example"},
      {.host = "**"},
      {.host = "*.10.0.0.1"},
      {.host = "10.0.0.0/33"},
      {.host = "10.0.0/8"},
      {.host = "a/8"},
      {.host = "/"},
      {.port = -1},
      {.port = 65536},
      {.cidrs = "[\"10.0.0.0/33\"]"},
      {.cidrs = "[10]"},
      {.cidrs = "{}"},
      {.cidrs = "[\"10.0.0.0/8\""},
      {.cidrs = "10.0.0.0/8,"},
      {.cidrs = "any"},
      {.cidrs = "null"},
      {.cidrs = "[null]"},
      {.ports = "[\"80\"]"},
      {.ports = "[0]"},
      {.ports = "[65536]"},
      {.ports = "[80.5]"},
      {.ports = "[80] x"},
      {.ports = "80,,443"},
      {.ports = "443-80"},
      {.ports = "80-"},
      {.ports = "-80"},
      {.ports = "0"},
      {.ports = "70000"},
      {.ports = "http"},
      {.ports = "null"},
      {.ports = "[80-90]"},
  };
  for (const Row& row : rows) {
    const Result<PolicyRule> rule = PolicyRule::read(record(row));
    ASSERT_FALSE(rule) << row.host << ' ' << row.port << ' ' << row.cidrs << ' ' << row.ports;
    EXPECT_EQ(rule.error().code, TMESH_E_INVALID);
  }
}

TEST(PolicyMatch, AnOddHostOfADeployedRowMatchesNothingAndBreaksNothing) {
  check({{{.host = "m\xc3\xbcnchen.example"}, "munchen.example", 1, false},
         {{.host = "010.1.1.1"}, "10.1.1.1", 1, false},
         {{.host = "[::1]"}, "::1", 1, false}});
}

TEST(PolicyLists, AreBounded) {
  std::string ports = "1";
  for (int i = 2; i <= 1024; ++i) ports += "," + std::to_string(i);
  EXPECT_EQ(parse_port_list(ports)->size(), 1024U);
  EXPECT_FALSE(parse_port_list(ports + ",1025"));
  EXPECT_FALSE(parse_port_list("[" + ports + ",1025]"));
  EXPECT_TRUE(parse_port_list("[" + ports + "]"));
}

}  // namespace
}  // namespace tmesh::server
