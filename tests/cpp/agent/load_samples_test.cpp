#include "cpp/agent/load_samples.hpp"

#include <gtest/gtest.h>

namespace tmesh::agent {
namespace {

TEST(SampleRing, TheP95IsWhatNineteenOfTwentyDoNotExceed) {
  SampleRing ring;
  EXPECT_EQ(ring.p95(), 0u);
  ring.add(7);
  EXPECT_EQ(ring.p95(), 7u);
  ring.clear();
  for (uint64_t i = 1; i <= 20; i++) ring.add(21 - i);
  EXPECT_EQ(ring.p95(), 19u);
  ring.add(100);
  EXPECT_EQ(ring.p95(), 20u) << "19.95 of 21";
}

TEST(SampleRing, OnlyTheLast64Count) {
  SampleRing ring;
  for (int i = 0; i < 1000; i++) ring.add(1'000'000);
  for (int i = 0; i < 61; i++) ring.add(5);
  EXPECT_EQ(ring.count(), 64u);
  EXPECT_EQ(ring.p95(), 5u) << "3 of 64 are less than 5 %";
  ring.clear();
  for (int i = 0; i < 64; i++) ring.add(i < 4 ? 1'000'000 : 5);
  EXPECT_EQ(ring.p95(), 1'000'000u) << "4 of 64 are more";
}

TEST(LoadSamples, TakingThemBeginsAnew) {
  LoadSamples samples;
  samples.open_ended(true, 10);
  samples.first_byte(20);
  samples.first_sent(30);
  samples.dial_waited(40);
  samples.dial_waited(15);
  const LoadSamples::Taken taken = samples.take();
  EXPECT_EQ(taken.open_p95_us, 10u);
  EXPECT_EQ(taken.ttfb_p95_us, 20u);
  EXPECT_EQ(taken.writer_wait_p95_us, 30u);
  EXPECT_EQ(taken.dial_wait_us, 40u) << "the longest";
  EXPECT_EQ(taken.error_rate_percent, 0u);
  const LoadSamples::Taken nothing = samples.take();
  EXPECT_EQ(nothing.open_p95_us + nothing.ttfb_p95_us + nothing.writer_wait_p95_us + nothing.dial_wait_us, 0u)
      << "what is over is no load";
}

TEST(LoadSamples, FailedOpensAreARateAndNoTime) {
  LoadSamples samples;
  for (int i = 0; i < 3; i++) samples.open_ended(false, 8'000'000);
  samples.open_ended(true, 10);
  const LoadSamples::Taken taken = samples.take();
  EXPECT_EQ(taken.error_rate_percent, 75u);
  EXPECT_EQ(taken.open_p95_us, 10u);
  EXPECT_EQ(samples.take().error_rate_percent, 0u);
}

}  // namespace
}  // namespace tmesh::agent
