#include "cpp/base/address.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tmesh {
namespace {

IpAddress ip(const char* text) {
  const Result<IpAddress> parsed = parse_ip(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(IpAddress{});
}

bool in(const char* network, const char* address) {
  const Result<Cidr> cidr = parse_cidr(network);
  EXPECT_TRUE(cidr) << network;
  return cidr && cidr->contains(ip(address));
}

TEST(Address, LiteralsAreStrict) {
  for (const char* bad : {"", "127.1", "0x7f.0.0.1", "010.0.0.1", "1.2.3.4.5", "256.0.0.1", "1.2.3.4 ",
                          "::1%lo", "[::1]", "1:2:3:4:5:6:7", "localhost", "1.2.3.4/8"}) {
    EXPECT_FALSE(parse_ip(bad)) << bad;
  }
  EXPECT_FALSE(parse_ip(std::string_view("1.2.3.4\0", 8)));
  EXPECT_FALSE(parse_ip(std::string(300, '1')));
}

TEST(Address, CanonicalText) {
  for (const char* text : {"10.0.0.1", "0.0.0.0", "255.255.255.255", "1.20.9.99"}) {
    EXPECT_EQ(format_ip(ip(text)), text);
  }
  EXPECT_EQ(format_ip(ip("2001:DB8:0:0:0:0:0:1")), "2001:db8::1");
}

TEST(Address, MappedAddressesBecomeIpv4) {
  EXPECT_EQ(ip("::ffff:10.0.0.1"), ip("10.0.0.1"));
  EXPECT_EQ(ip("::ffff:0a00:1"), ip("10.0.0.1"));
  EXPECT_TRUE(ip("::ffff:10.0.0.1").is_v4());
  EXPECT_FALSE(ip("::10.0.0.1").is_v4()) << "only ::ffff:0:0/96 is mapped";
  const uint8_t raw[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 127, 0, 0, 1};
  EXPECT_EQ(ip_from_bytes(raw, false), ip("127.0.0.1"));
}

TEST(Address, Loopback) {
  for (const char* yes : {"127.0.0.1", "127.255.0.3", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(is_loopback(ip(yes)));
  for (const char* no : {"128.0.0.1", "0.0.0.0", "::", "::2", "100::1"})
    EXPECT_FALSE(is_loopback(ip(no))) << no;
  EXPECT_TRUE(is_loopback_host("LocalHost"));
  EXPECT_TRUE(is_loopback_host("127.0.0.1"));
  for (const char* no : {"", "0.0.0.0", "::", "localhost.example.com", "127.0.0.1.nip.io"}) {
    EXPECT_FALSE(is_loopback_host(no)) << no;
  }
}

TEST(Address, CidrContains) {
  EXPECT_TRUE(in("10.0.0.0/8", "10.255.1.2"));
  EXPECT_FALSE(in("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(in("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(in("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(in("10.1.2.3", "10.1.2.3"));
  EXPECT_FALSE(in("10.1.2.3", "10.1.2.4"));
  EXPECT_TRUE(in("0.0.0.0/0", "8.8.8.8"));
  EXPECT_FALSE(in("0.0.0.0/0", "2001:db8::1"));
  EXPECT_TRUE(in("fd00::/8", "fdff::1"));
  EXPECT_TRUE(in("2001:db8::/33", "2001:db8:7fff::1"));
  EXPECT_FALSE(in("2001:db8::/33", "2001:db8:8000::1"));
  EXPECT_FALSE(in("fd00::/8", "10.0.0.1"));
}

TEST(Address, MappedAddressCannotSlipPastAnIpv4Rule) {
  EXPECT_TRUE(in("10.0.0.0/8", "::ffff:10.1.2.3"));
  EXPECT_TRUE(in("::ffff:10.0.0.0/104", "10.1.2.3"));
  EXPECT_TRUE(in("::/0", "10.1.2.3")) << "everything contains the mapped block";
  EXPECT_TRUE(in("::ffff:0:0/96", "8.8.8.8"));
  EXPECT_FALSE(in("2000::/3", "10.1.2.3"));
}

TEST(Address, CidrIsCanonical) {
  EXPECT_EQ(format_cidr(*parse_cidr("10.1.2.3/8")), "10.0.0.0/8");
  EXPECT_EQ(format_cidr(*parse_cidr("10.1.2.3/25")), "10.1.2.0/25");
  EXPECT_EQ(format_cidr(*parse_cidr("::ffff:10.1.2.3/104")), "10.0.0.0/8");
  EXPECT_EQ(format_cidr(*parse_cidr("FE80::1/10")), "fe80::/10");
  EXPECT_EQ(format_cidr(*parse_cidr("::1")), "::1/128");
  for (const char* bad : {"", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/8/8", "10.0.0/8",
                          "10.0.0.0/+8", "10.0.0.0/0008", "name/8"}) {
    EXPECT_FALSE(parse_cidr(bad)) << bad;
  }
}

TEST(Address, HostPortForms) {
  EXPECT_EQ(*parse_host_port("127.0.0.1:80"), (HostPort{"127.0.0.1", 80}));
  EXPECT_EQ(*parse_host_port("[::1]:8080"), (HostPort{"::1", 8080}));
  EXPECT_EQ(*parse_host_port(":80"), (HostPort{"", 80}));
  EXPECT_EQ(*parse_host_port("db.example_x-1.com:0"), (HostPort{"db.example_x-1.com", 0}));
  for (const char* bad :
       {"", "80", "host", "host:", "host:65536", "host:-1", "host:0x50", "::1:80", "[::1]", "[::1]80",
        "[host]:80", "[127.0.0.1]:80", "[::1%lo]:80", "ho st:80", "h\xC3\xB6st:80", "a/b:80", "host:80 "}) {
    EXPECT_FALSE(parse_host_port(bad)) << bad;
  }
  EXPECT_FALSE(parse_host_port(std::string(254, 'a') + ":80"));
}

TEST(Address, HostPortFormats) {
  EXPECT_EQ(format_host_port("::1", 80), "[::1]:80");
  EXPECT_EQ(format_host_port("host", 80), "host:80");
  EXPECT_EQ(format_host_port("", 80), ":80");
}

TEST(Address, PortIsNeverZero) {
  EXPECT_EQ(*parse_port("1"), 1);
  EXPECT_EQ(*parse_port("65535"), 65535);
  for (const char* bad : {"0", "65536", "", "x"}) EXPECT_FALSE(parse_port(bad)) << bad;
}

}  // namespace
}  // namespace tmesh
