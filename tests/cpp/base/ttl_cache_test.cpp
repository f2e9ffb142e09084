#include "cpp/base/ttl_cache.hpp"

#include <gtest/gtest.h>
#include <malloc.h>

#include <map>
#include <memory>
#include <random>
#include <string>

namespace tmesh {
namespace {

std::string key(std::size_t n) {
  return "key-" + std::to_string(n);
}
template <class Value>
bool has(TtlCache<Value>& cache, const std::string& name, uint64_t now_us = 0) {
  return cache.find(name, now_us) != nullptr;
}

TEST(TtlCache, AValueIsGoodBeforeItsTime) {
  TtlCache<int> cache(8);
  EXPECT_FALSE(has(cache, "a"));
  cache.put("a", 7, 100);
  ASSERT_TRUE(has(cache, "a", 99));
  EXPECT_EQ(*cache.find("a", 99), 7);
  EXPECT_FALSE(has(cache, "a", 100));
  EXPECT_EQ(cache.size(), 0u) << "what ran out gives its place back when it is found";
}

TEST(TtlCache, PutReplaces) {
  TtlCache<int> cache(8);
  cache.put("a", 1, 100);
  cache.put("a", 2, 200);
  EXPECT_EQ(cache.size(), 1u);
  ASSERT_TRUE(has(cache, "a", 150));
  EXPECT_EQ(*cache.find("a", 150), 2);
}

TEST(TtlCache, KeysAreBytes) {
  TtlCache<int> cache(8);
  const std::string plain = "a", longer("a\0", 2), empty;
  cache.put(plain, 1, 9);
  cache.put(longer, 2, 9);
  cache.put(empty, 3, 9);
  EXPECT_EQ(*cache.find(plain, 0), 1);
  EXPECT_EQ(*cache.find(longer, 0), 2);
  EXPECT_EQ(*cache.find(empty, 0), 3);
}

TEST(TtlCache, ThereAreNeverMoreThanEntriesMax) {
  TtlCache<int> cache(3);
  for (std::size_t n = 0; n < 5000; n++) {
    cache.put(key(n), static_cast<int>(n), 9);
    ASSERT_EQ(cache.size(), std::min<std::size_t>(n + 1, 3));
    ASSERT_TRUE(has(cache, key(n)));
  }
  EXPECT_EQ(cache.evictions_count(), 4997u);
}

TEST(TtlCache, WhatIsUsedStaysAndWhatIsNotMakesRoom) {
  TtlCache<int> cache(16);
  for (std::size_t n = 0; n < 16; n++) cache.put(key(n), 0, 9);
  for (std::size_t n = 100; n < 1100; n++) {
    for (std::size_t used = 0; used < 8; used++) ASSERT_TRUE(has(cache, key(used))) << used;
    cache.put(key(n), 0, 9);
  }
}

TEST(TtlCache, WhereEverythingIsUsedRoomIsMadeAllTheSame) {
  constexpr std::size_t kMany = 4 * TtlCache<int>::kLooksMax;
  TtlCache<int> cache(kMany);
  for (std::size_t n = 0; n < kMany; n++) cache.put(key(n), 0, 9);
  for (std::size_t n = 0; n < kMany; n++) ASSERT_TRUE(has(cache, key(n)));
  cache.put("new", 0, 9);
  EXPECT_TRUE(has(cache, "new"));
  std::size_t unused_count = 0;  // the hand cleared no more marks than it may
  for (std::size_t n = 0; n < kMany; n++) unused_count += has(cache, key(n)) ? 0 : 1;
  EXPECT_EQ(unused_count, 1u);
  EXPECT_FALSE(has(cache, key(TtlCache<int>::kLooksMax - 1))) << "the last one it looked at";
}

TEST(TtlCache, DroppedEntriesAreGoneAtOnceAndReleasedInSlices) {
  TtlCache<std::shared_ptr<int>> cache(4096);
  const auto token = std::make_shared<int>(0);
  for (std::size_t n = 0; n < 3000; n++) cache.put(key(n), token, 9);
  cache.drop();
  EXPECT_EQ(cache.size(), 0u);
  EXPECT_EQ(token.use_count(), 3001) << "their memory is still there";
  cache.put("new", token, 9);
  EXPECT_TRUE(has(cache, "new"));
  EXPECT_FALSE(has(cache, key(2999)));
  EXPECT_TRUE(cache.release(1000));
  EXPECT_EQ(token.use_count(), 2002) << "slots are released, whoever was found meanwhile included";
  EXPECT_TRUE(cache.release(1000));
  EXPECT_FALSE(cache.release(1000));
  EXPECT_EQ(token.use_count(), 2);
  EXPECT_TRUE(has(cache, "new"));
  EXPECT_EQ(cache.evictions_count(), 0u);
}

TEST(TtlCache, DroppedEntriesMakeRoomFirstAndAreNoEvictions) {
  TtlCache<int> cache(8);
  for (std::size_t n = 0; n < 8; n++) cache.put(key(n), 0, 9);
  for (std::size_t n = 0; n < 8; n++) ASSERT_TRUE(has(cache, key(n)));
  cache.drop();
  for (std::size_t n = 100; n < 108; n++) cache.put(key(n), 0, 9);
  EXPECT_EQ(cache.evictions_count(), 0u);
  EXPECT_EQ(cache.size(), 8u);
  for (std::size_t n = 100; n < 108; n++) EXPECT_TRUE(has(cache, key(n)));
}

TEST(TtlCache, PutRevivesADroppedKey) {
  TtlCache<int> cache(8);
  cache.put("a", 1, 9);
  cache.drop();
  cache.put("a", 2, 9);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_FALSE(cache.release(8));
  EXPECT_EQ(*cache.find("a", 0), 2);
}

TEST(TtlCache, AnEntryIsAsSmallAsTheHeaderSays) {
  struct Slot {  // as the header counts
    char fixed[40];
    std::string value;
  };
  static_assert(sizeof(Slot) == 40 + sizeof(std::string));
  constexpr std::size_t kEntries = 100 * 1024;
  const auto in_use = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  const std::size_t before = in_use();
  TtlCache<std::string> cache(kEntries);
  const std::string long_key(80, 'k');
  for (std::size_t n = 0; n < kEntries; n++) cache.put(long_key + std::to_string(n), {}, 9);
  const std::size_t after = in_use();
  if (after == before) GTEST_SKIP() << "this build's allocator does not count";
  const double each = static_cast<double>(after - before) / kEntries;
  RecordProperty("bytes_per_entry", std::to_string(each));
  EXPECT_LT(each, 40 + sizeof(std::string) + 8 + 112) << "slot, table, allocation of 86 bytes";
}

// Against a plain map, which knows no bound: what is found is what was put last.
TEST(TtlCache, RandomOperationsAgreeWithAMap) {
  std::mt19937_64 random(20);
  TtlCache<uint64_t> cache(64);
  std::map<std::string, std::pair<uint64_t, uint64_t>> model;
  uint64_t now_us = 0;
  for (int step = 0; step < 200'000; step++) {
    const std::string name = key(random() % 100);
    now_us += random() % 3;
    switch (random() % 8) {
      case 0:
      case 1: {
        const uint64_t until_us = now_us + random() % 200;
        model[name] = {random(), until_us};
        cache.put(name, model[name].first, until_us);
        break;
      }
      case 2:
        if (random() % 50 == 0) {
          cache.drop();
          model.clear();
        }
        break;
      case 3:
        cache.release(random() % 16);
        break;
      default: {
        const uint64_t* found = cache.find(name, now_us);
        if (found == nullptr) break;
        ASSERT_TRUE(model.contains(name)) << step;
        ASSERT_EQ(*found, model[name].first) << step;
        ASSERT_LT(now_us, model[name].second) << step;
      }
    }
    ASSERT_LE(cache.size(), 64u);
  }
}

}  // namespace
}  // namespace tmesh
