#include "cpp/agent/policy.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>

namespace tmesh::agent {
namespace {

// As the dialer does it: the address as it came from the resolver.
IpAddress address(const char* text) {
  uint8_t bytes[16] = {};
  const bool is_v4 = inet_pton(AF_INET, text, bytes) == 1;
  EXPECT_TRUE(is_v4 || inet_pton(AF_INET6, text, bytes) == 1) << text;
  return ip_from_bytes(bytes, is_v4);
}

std::vector<Cidr> networks(std::initializer_list<const char*> texts) {
  std::vector<Cidr> out;
  for (const char* text : texts) out.push_back(parse_cidr(text).value());
  return out;
}

Policy policy(std::initializer_list<const char*> allow, std::initializer_list<const char*> deny) {
  return Policy(networks(allow), networks(deny));
}

Verdict judge(const Policy& p, const char* ip, std::string_view host = "name.test", bool is_name = true) {
  return p.judge(address(ip), host, is_name);
}

struct Row {
  const char* ip;
  Verdict verdict;
};

TEST(Policy, DefaultDenials) {
  const Row rows[] = {
      {"10.0.0.1", Verdict::permitted},
      {"192.168.1.1", Verdict::permitted},
      {"8.8.8.8", Verdict::permitted},
      {"2001:db8::1", Verdict::permitted},
      {"fd00::1", Verdict::permitted},
      {"169.254.0.1", Verdict::link_local},
      {"169.254.255.255", Verdict::link_local},
      {"169.253.255.255", Verdict::permitted},
      {"169.255.0.0", Verdict::permitted},
      {"fe80::1", Verdict::link_local},
      {"febf:ffff::1", Verdict::link_local},
      {"fec0::1", Verdict::permitted},
      {"169.254.169.254", Verdict::metadata_service},
      {"169.254.170.2", Verdict::metadata_service},
      {"fd00:ec2::254", Verdict::metadata_service},
      {"fd00:ec2::253", Verdict::permitted},
      {"100.100.100.200", Verdict::metadata_service},
      {"100.100.100.201", Verdict::permitted},
      {"168.63.129.16", Verdict::metadata_service},
      {"224.0.0.1", Verdict::multicast},
      {"239.255.255.255", Verdict::multicast},
      {"240.0.0.1", Verdict::permitted},
      {"ff02::1", Verdict::multicast},
      {"0.0.0.0", Verdict::unspecified},
      {"0.1.2.3", Verdict::unspecified},
      {"1.0.0.0", Verdict::permitted},
      {"::", Verdict::unspecified},
      {"255.255.255.255", Verdict::broadcast},
  };
  const Policy p;
  for (const Row& row : rows) {
    EXPECT_EQ(judge(p, row.ip), row.verdict) << row.ip;
    EXPECT_EQ(judge(p, row.ip, row.ip, false), row.verdict) << row.ip;
    EXPECT_EQ(p.permits(address(row.ip), "name.test", true), row.verdict == Verdict::permitted);
  }
}

TEST(Policy, LoopbackIsForLiteralsAndLocalhost) {
  const Policy p;
  for (const char* ip : {"127.0.0.1", "127.255.0.9", "::1"}) {
    EXPECT_EQ(judge(p, ip, ip, false), Verdict::permitted);
    for (const char* host : {"localhost", "LocalHost.", "db.localhost"}) {
      EXPECT_EQ(judge(p, ip, host), Verdict::permitted) << host;
    }
    for (const char* host : {"rebind.test", "notlocalhost", "localhost.test", "ocalhost", "", "."}) {
      EXPECT_EQ(judge(p, ip, host), Verdict::loopback_by_name) << host;
    }
  }
}

TEST(Policy, Ipv4InsideIpv6IsUnmappedFirst) {
  const Policy p;
  const Row rows[] = {
      {"::ffff:169.254.169.254", Verdict::metadata_service},
      {"::ffff:10.0.0.1", Verdict::permitted},
      {"::ffff:127.0.0.1", Verdict::loopback_by_name},
      {"::ffff:0.0.0.0", Verdict::unspecified},
      {"64:ff9b::169.254.169.254", Verdict::metadata_service},
      {"64:ff9b::127.0.0.1", Verdict::loopback_by_name},
      {"64:ff9b::10.0.0.1", Verdict::permitted},
      {"64:ff9b:0:0:0:1:a9fe:a9fe", Verdict::permitted},  // outside the /96
      {"2002:a9fe:a9fe::1", Verdict::metadata_service},
      {"2002:7f00:1::", Verdict::loopback_by_name},
      {"2002:a00:1::1", Verdict::permitted},
      {"::169.254.169.254", Verdict::metadata_service},
      {"::1", Verdict::loopback_by_name},
  };
  for (const Row& row : rows) EXPECT_EQ(judge(p, row.ip), row.verdict) << row.ip;
}

TEST(Policy, MappedAddressCannotBypassAnIpv4Rule) {
  const Policy p = policy({}, {"10.0.0.0/8"});
  for (const char* ip : {"10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::10.1.2.3", "2002:a01:203::9"}) {
    EXPECT_EQ(judge(p, ip), Verdict::in_deny_list) << ip;
  }
  IpAddress raw{6, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 1, 2, 3}};  // not normalised
  EXPECT_EQ(p.judge(raw, "name.test", true), Verdict::in_deny_list);
}

TEST(Policy, ListsAreComparedWithBothForms) {
  EXPECT_EQ(judge(policy({}, {"2002::/16"}), "2002:a00:1::1"), Verdict::in_deny_list);
  EXPECT_EQ(judge(policy({"64:ff9b::/96"}, {}), "64:ff9b::10.0.0.1"), Verdict::permitted);
  EXPECT_EQ(judge(policy({"10.0.0.0/8"}, {}), "64:ff9b::10.0.0.1"), Verdict::permitted);
}

TEST(Policy, DenyBeatsAllow) {
  const Policy p = policy({"10.0.0.0/8"}, {"10.1.0.0/16"});
  EXPECT_EQ(judge(p, "10.1.0.1"), Verdict::in_deny_list);
  EXPECT_EQ(judge(p, "10.2.0.1"), Verdict::permitted);
  const Policy all = policy({"169.254.169.254/32"}, {"0.0.0.0/0"});
  EXPECT_EQ(judge(all, "169.254.169.254"), Verdict::in_deny_list);
}

TEST(Policy, ANonEmptyAllowListIsTheWholeWorld) {
  const Policy p = policy({"10.0.0.0/8", "fd00:1::/32"}, {});
  EXPECT_EQ(judge(p, "10.255.0.1"), Verdict::permitted);
  EXPECT_EQ(judge(p, "fd00:1::5"), Verdict::permitted);
  EXPECT_EQ(judge(p, "11.0.0.1"), Verdict::not_in_allow_list);
  EXPECT_EQ(judge(p, "fd00:2::5"), Verdict::not_in_allow_list);
  EXPECT_EQ(judge(p, "127.0.0.1", "127.0.0.1", false), Verdict::not_in_allow_list);
}

TEST(Policy, AnAllowEntryInsideADenialLiftsIt) {
  EXPECT_EQ(judge(policy({"169.254.169.254/32"}, {}), "169.254.169.254"), Verdict::permitted);
  EXPECT_EQ(judge(policy({"169.254.7.0/24"}, {}), "169.254.7.1"), Verdict::permitted);
  EXPECT_EQ(judge(policy({"169.254.7.0/24"}, {}), "169.254.8.1"), Verdict::link_local);
  EXPECT_EQ(judge(policy({"169.254.0.0/16"}, {}), "169.254.8.1"), Verdict::permitted);
  EXPECT_EQ(judge(policy({"127.0.0.0/8"}, {}), "127.0.0.1", "rebind.test"), Verdict::permitted);
  EXPECT_EQ(judge(policy({"::1"}, {}), "::1", "rebind.test"), Verdict::permitted);
}

TEST(Policy, AWideAllowEntryLiftsNoDenial) {
  const Policy p = policy({"0.0.0.0/0", "::/0"}, {});
  EXPECT_EQ(judge(p, "10.0.0.1"), Verdict::permitted);
  EXPECT_EQ(judge(p, "2001:db8::1"), Verdict::permitted);
  EXPECT_EQ(judge(p, "169.254.169.254"), Verdict::metadata_service);
  EXPECT_EQ(judge(p, "169.254.1.1"), Verdict::link_local);
  EXPECT_EQ(judge(p, "0.0.0.0"), Verdict::unspecified);
  EXPECT_EQ(judge(p, "::"), Verdict::unspecified);
  EXPECT_EQ(judge(p, "fd00:ec2::254"), Verdict::metadata_service);
  EXPECT_EQ(judge(p, "127.0.0.1", "rebind.test"), Verdict::loopback_by_name);
  EXPECT_EQ(judge(p, "127.0.0.1", "127.0.0.1", false), Verdict::permitted);
  // Lifting link-local does not lift the metadata service that lives there.
  EXPECT_EQ(judge(policy({"169.254.0.0/16"}, {}), "169.254.169.254"), Verdict::metadata_service);
}

TEST(Policy, EveryVerdictHasItsOwnName) {
  std::vector<std::string> names;
  for (int v = 0; v <= static_cast<int>(Verdict::loopback_by_name); ++v) {
    const std::string name = verdict_name(static_cast<Verdict>(v));
    EXPECT_NE(name, "unknown");
    for (const std::string& other : names) EXPECT_NE(name, other);
    names.push_back(name);
  }
  EXPECT_STREQ(verdict_name(static_cast<Verdict>(250)), "unknown");
}

}  // namespace
}  // namespace tmesh::agent
