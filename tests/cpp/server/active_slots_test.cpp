#include "cpp/server/active_slots.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tmesh::server {
namespace {

TEST(ActiveSlots, ASlotIsGivenBackByItsDestructor) {
  ActiveSlots slots(1, 0);
  {
    auto slot = slots.claim("token", "agent");
    ASSERT_TRUE(slot);
    EXPECT_FALSE(slots.claim("token", "agent"));
  }
  EXPECT_TRUE(slots.claim("token", "agent"));
}

TEST(ActiveSlots, NothingIsKeptAboutIdleTokensAndAgents) {
  ActiveSlots slots(2, 2);
  {
    auto a = slots.claim("t1", "a1");
    auto b = slots.claim("t2", "a1");
    EXPECT_EQ(slots.tokens_count(), 2u);
    EXPECT_EQ(slots.agents_count(), 1u);
    EXPECT_FALSE(slots.claim("t3", "a1")) << "the agent's ceiling";
    EXPECT_EQ(slots.tokens_count(), 2u) << "a refused claim counts nowhere";
  }
  EXPECT_EQ(slots.tokens_count(), 0u);
  EXPECT_EQ(slots.agents_count(), 0u);
}

TEST(ActiveSlots, CeilingsAreApart) {
  ActiveSlots slots(2, 3);
  std::vector<ActiveSlots::Slot> held;
  for (const char* token : {"t1", "t1", "t2"}) held.push_back(std::move(*slots.claim(token, "a")));
  EXPECT_FALSE(slots.claim("t2", "a")) << "three on the agent";
  EXPECT_FALSE(slots.claim("t1", "b")) << "two of the token";
  EXPECT_TRUE(slots.claim("t2", "b"));
}

TEST(ActiveSlots, ZeroIsNoCeiling) {
  ActiveSlots slots(0, 0);
  std::vector<ActiveSlots::Slot> held;
  for (int i = 0; i < 5000; i++) held.push_back(std::move(*slots.claim("t", "a")));
  held.clear();
  EXPECT_EQ(slots.tokens_count(), 0u);
}

TEST(ActiveSlots, AMovedSlotIsGivenBackOnce) {
  ActiveSlots slots(2, 2);
  auto first = slots.claim("t", "a");
  auto second = slots.claim("t", "a");
  ActiveSlots::Slot moved(std::move(*first));
  first.reset();
  EXPECT_FALSE(slots.claim("t", "a"));
  moved = std::move(*second);  // gives the first back
  EXPECT_TRUE(slots.claim("t", "a"));
  auto& self = moved;
  moved = std::move(self);
  second.reset();
  EXPECT_EQ(slots.tokens_count(), 1u);
  moved = ActiveSlots::Slot();
  EXPECT_EQ(slots.tokens_count(), 0u);
  EXPECT_EQ(slots.agents_count(), 0u);
}

TEST(KeyedSlots, TheCeilingIsPerKey) {
  KeyedSlots slots(2);
  auto a = slots.claim("t1");
  auto b = slots.claim("t1");
  EXPECT_TRUE(a && b);
  EXPECT_FALSE(slots.claim("t1"));
  EXPECT_TRUE(slots.claim("t2"));
  EXPECT_EQ(slots.count("t1"), 2u);
  EXPECT_EQ(slots.count("t2"), 0u) << "given back at once";
  a.reset();
  EXPECT_TRUE(slots.claim("t1"));
  b.reset();
  EXPECT_EQ(slots.keys_count(), 0u);
}

TEST(KeyedSlots, AClaimThatIsRefusedKeepsNothing) {
  ActiveSlots slots(1, 1);
  auto held = slots.claim("t", "a");
  EXPECT_FALSE(slots.claim("t2", "a"));
  EXPECT_FALSE(slots.claim("t", "a2"));
  EXPECT_EQ(slots.streams_of_token("t"), 1u);
  EXPECT_EQ(slots.streams_of_token("t2"), 0u);
  EXPECT_EQ(slots.tokens_count(), 1u);
  EXPECT_EQ(slots.agents_count(), 1u);
}

}  // namespace
}  // namespace tmesh::server
