#include "cpp/http/address_limit.hpp"

#include <gtest/gtest.h>

namespace tmesh::http {
namespace {

TEST(AddressLimitTest, CountsEachAddressByItself) {
  AddressLimit limit(2, {});
  IpAddress a = *parse_ip("192.0.2.1");
  IpAddress b = *parse_ip("192.0.2.2");
  EXPECT_TRUE(limit.acquire(a));
  EXPECT_TRUE(limit.acquire(a));
  EXPECT_FALSE(limit.acquire(a));
  EXPECT_TRUE(limit.acquire(b));
  limit.release(a);
  EXPECT_TRUE(limit.acquire(a));
}

TEST(AddressLimitTest, ARefusalTakesNoPlaceAndNoMemory) {
  AddressLimit limit(1, {});
  IpAddress a = *parse_ip("192.0.2.1");
  EXPECT_TRUE(limit.acquire(a));
  EXPECT_FALSE(limit.acquire(a));
  limit.release(a);
  EXPECT_EQ(limit.address_count(), 0u);
}

TEST(AddressLimitTest, Ipv6CountsByNetworkOf64Bits) {
  AddressLimit limit(1, {});
  EXPECT_TRUE(limit.acquire(*parse_ip("2001:db8:0:1::1")));
  EXPECT_FALSE(limit.acquire(*parse_ip("2001:db8:0:1:ffff::2")));
  EXPECT_TRUE(limit.acquire(*parse_ip("2001:db8:0:2::1")));
  limit.release(*parse_ip("2001:db8:0:1::9"));
  EXPECT_TRUE(limit.acquire(*parse_ip("2001:db8:0:1::3")));
}

TEST(AddressLimitTest, ExemptNetworksAndZeroAreUnlimited) {
  AddressLimit limit(1, {*parse_cidr("10.0.0.0/8")});
  AddressLimit none(0, {});
  IpAddress proxy = *parse_ip("10.1.2.3");
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(limit.acquire(proxy));
    EXPECT_TRUE(none.acquire(proxy));
  }
  for (int i = 0; i < 10; ++i) {
    limit.release(proxy);
    none.release(proxy);
  }
  EXPECT_EQ(limit.address_count(), 0u);
}

}  // namespace
}  // namespace tmesh::http
