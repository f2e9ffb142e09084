#include "cpp/server/admin_api/login_throttle.hpp"

#include <gtest/gtest.h>

namespace tmesh::server {
namespace {

constexpr uint64_t kSecond_us = 1'000'000;

struct ThrottleTest : testing::Test {
  LoginThrottle throttle{LoginThrottle::Settings{}};
  uint64_t now_us = 77 * kSecond_us;
  IpAddress here = *parse_ip("192.0.2.1");

  IpAddress address(unsigned i) {
    return *parse_ip("10." + std::to_string(i >> 16) + "." + std::to_string(i >> 8 & 255) + "." +
                     std::to_string(i & 255));
  }
  // Microseconds to wait, 0 where the attempt was made and failed.
  uint64_t fail(std::string_view name, const IpAddress& from) {
    const uint64_t wait = throttle.begin(name, from, now_us);
    if (wait == 0) throttle.failed(name, from, now_us);
    return wait;
  }
};

TEST_F(ThrottleTest, TenFailuresOfAnAddressBlockItForTenMinutes) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fail("user" + std::to_string(i), here), 0u) << i;
  EXPECT_EQ(fail("somebody", here), 600 * kSecond_us);
  now_us += 599 * kSecond_us;
  EXPECT_EQ(fail("somebody", here), kSecond_us);
  now_us += kSecond_us;
  EXPECT_EQ(fail("somebody", here), 0u);
}

TEST_F(ThrottleTest, TenFailuresOfANameBlockItFromEverywhere) {
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(fail("alice", address(i)), 0u);
  EXPECT_EQ(fail("alice", address(99)), 600 * kSecond_us);
  EXPECT_EQ(fail("bob", address(99)), 0u);
}

TEST_F(ThrottleTest, OnlyFailuresWithinTheWindowCount) {
  for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(fail("alice", address(i)), 0u);
  now_us += 299 * kSecond_us;
  EXPECT_EQ(throttle.begin("alice", address(50), now_us), 0u);
  throttle.withdrawn("alice", address(50), now_us);
  now_us += kSecond_us;
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(fail("alice", address(100 + i)), 0u);
  EXPECT_GT(fail("alice", address(200)), 0u);
}

// A window that moves, not one that starts anew: nine and nine around its end are too many.
TEST_F(ThrottleTest, TheWindowMoves) {
  EXPECT_EQ(fail("alice", address(1)), 0u);
  now_us += 290 * kSecond_us;
  for (unsigned i = 0; i < 8; ++i) EXPECT_EQ(fail("alice", address(10 + i)), 0u);
  now_us += 20 * kSecond_us;
  EXPECT_EQ(fail("alice", address(30)), 0u);
  EXPECT_EQ(fail("alice", address(31)), 0u);
  EXPECT_GT(fail("alice", address(32)), 0u);
}

TEST_F(ThrottleTest, AttemptsUnderWayCountAsFailures) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(throttle.begin("alice", here, now_us), 0u);
  EXPECT_EQ(throttle.begin("alice", here, now_us), kSecond_us);
  throttle.withdrawn("alice", here, now_us);
  EXPECT_EQ(throttle.begin("alice", here, now_us), 0u);
}

TEST_F(ThrottleTest, ASuccessForgetsTheNamesFailuresButNotTheAddresss) {
  for (int i = 0; i < 9; ++i) EXPECT_EQ(fail("alice", here), 0u);
  EXPECT_EQ(throttle.begin("alice", here, now_us), 0u);
  throttle.succeeded("alice", here, now_us);
  EXPECT_EQ(fail("bob", here), 0u);
  EXPECT_GT(fail("carol", here), 0u);
  for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(fail("alice", address(i)), 0u);
}

TEST_F(ThrottleTest, Ipv6CountsByNetwork) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(fail("u" + std::to_string(i), *parse_ip("2001:db8:0:1::" + std::to_string(i + 1))), 0u);
  }
  EXPECT_GT(fail("x", *parse_ip("2001:db8:0:1:ffff::1")), 0u);
  EXPECT_EQ(fail("x", *parse_ip("2001:db8:0:2::1")), 0u);
}

TEST_F(ThrottleTest, TheTablesAreBoundedAndForgetTheOldest) {
  LoginThrottle small{LoginThrottle::Settings{}, 3};
  for (unsigned i = 0; i < 100; ++i) {
    EXPECT_EQ(small.begin("user" + std::to_string(i), address(i), now_us), 0u);
    if (i % 2 == 0) small.failed("user" + std::to_string(i), address(i), now_us);
  }
  EXPECT_EQ(small.name_count(), 3u);
  EXPECT_EQ(small.address_count(), 3u);
  // What was forgotten while it ran ends without harm.
  small.succeeded("user1", address(1), now_us);
  small.withdrawn("user3", address(3), now_us);
  small.failed("user5", address(5), now_us);
}

TEST_F(ThrottleTest, ABlockedAddressFillsNoTableOfNames) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(fail("u" + std::to_string(i), here), 0u);
  for (int i = 0; i < 1000; ++i) EXPECT_GT(fail("n" + std::to_string(i), here), 0u);
  EXPECT_EQ(throttle.name_count(), 10u);
}

// Withdrawn attempts cost nobody anything, so there may be any number of them.
TEST_F(ThrottleTest, WhatIsWithdrawnForgetsNoBlock) {
  LoginThrottle small{LoginThrottle::Settings{}, 20};
  for (unsigned i = 0; i < 10; ++i) {
    EXPECT_EQ(small.begin("admin", address(i), now_us), 0u);
    small.failed("admin", address(i), now_us);
  }
  for (unsigned i = 100; i < 200; ++i) {
    const std::string name = "user" + std::to_string(i);
    EXPECT_EQ(small.begin(name, address(i), now_us), 0u);
    small.withdrawn(name, address(i), now_us);
    small.withdrawn("nobody" + std::to_string(i), address(i), now_us);  // was forgotten meanwhile
  }
  EXPECT_EQ(small.name_count(), 1u);
  EXPECT_EQ(small.address_count(), 10u);
  EXPECT_EQ(small.begin("admin", address(300), now_us), 600 * kSecond_us);
}

TEST_F(ThrottleTest, WhatIsWithdrawnForgetsNoFailure) {
  for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(fail("admin", address(i)), 0u);
  EXPECT_EQ(throttle.begin("admin", here, now_us), 0u);
  throttle.withdrawn("admin", here, now_us);
  EXPECT_EQ(fail("admin", here), 0u);
  EXPECT_EQ(fail("admin", address(20)), 600 * kSecond_us);
}

TEST_F(ThrottleTest, LongNamesAreCut) {
  const std::string name(64, 'a');
  for (unsigned i = 0; i < 10; ++i) EXPECT_EQ(fail(name + std::string(i * 100, 'b'), address(i)), 0u);
  EXPECT_GT(fail(name, address(50)), 0u);
}

}  // namespace
}  // namespace tmesh::server
