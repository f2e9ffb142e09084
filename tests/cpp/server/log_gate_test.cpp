#include "cpp/server/log_gate.hpp"

#include <gtest/gtest.h>

namespace tmesh::server {
namespace {

constexpr uint64_t kStart = 1'000'000'000;

TEST(LogGate, AdmitsSoManyLinesInAWindowAndCountsTheRest) {
  LogGate gate;
  for (uint32_t i = 0; i < LogGate::kLinesMax; i++) EXPECT_TRUE(gate.admits(kStart + i));
  for (int i = 0; i < 1000; i++) EXPECT_FALSE(gate.admits(kStart + LogGate::kWindow_us - 1));
  EXPECT_TRUE(gate.admits(kStart + LogGate::kWindow_us));
  EXPECT_EQ(gate.take_dropped(), 1000u);
  EXPECT_EQ(gate.take_dropped(), 0u);
}

TEST(LogGate, ALineNowAndThenIsAlwaysAdmitted) {
  LogGate gate;
  uint64_t now_us = 0;
  for (int i = 0; i < 1000; i++) EXPECT_TRUE(gate.admits(now_us += LogGate::kWindow_us / LogGate::kLinesMax));
  EXPECT_EQ(gate.take_dropped(), 0u);
}

}  // namespace
}  // namespace tmesh::server
