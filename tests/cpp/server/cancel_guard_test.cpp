#include "cpp/server/cancel_guard.hpp"

#include <gtest/gtest.h>

namespace tmesh::server {
namespace {

constexpr uint64_t kSecond = 1'000'000;
constexpr uint64_t kStart = 1000 * kSecond;

TEST(CancelGuard, RefusesAClientThatCancelsInACircle) {
  CancelGuard guard;
  for (uint32_t i = 0; i < CancelGuard::kCancelsMax; i++) {
    const uint64_t now_us = kStart + i * 9 * kSecond / CancelGuard::kCancelsMax;
    ASSERT_FALSE(guard.refuses(1, now_us));
    guard.note(1, now_us);
  }
  EXPECT_TRUE(guard.refuses(1, kStart + 9 * kSecond));
  EXPECT_FALSE(guard.refuses(2, kStart + 9 * kSecond)) << "another link";
}

TEST(CancelGuard, ForgetsAfterTheWindow) {
  CancelGuard guard;
  for (uint32_t i = 0; i < CancelGuard::kCancelsMax; i++) guard.note(1, kStart);
  EXPECT_TRUE(guard.refuses(1, kStart + 9 * kSecond));
  EXPECT_FALSE(guard.refuses(1, kStart + 10 * kSecond));
  guard.note(1, kStart + 1000 * kSecond);
  EXPECT_FALSE(guard.refuses(1, kStart + 1000 * kSecond)) << "a long pause clears the whole ring";
}

TEST(CancelGuard, KeepsNothingAboutClientsThatBehaveAgain) {
  CancelGuard guard;
  for (uint64_t link = 0; link < 100; link++) guard.note(link, kStart);
  EXPECT_EQ(guard.clients_count(), 100u);
  guard.note(1000, kStart + 10 * kSecond);
  EXPECT_EQ(guard.clients_count(), 1u);
}

}  // namespace
}  // namespace tmesh::server
