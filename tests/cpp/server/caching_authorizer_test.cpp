// What is kept, for how long, and under which key.
#include "cpp/server/caching_authorizer.hpp"

#include "tests/cpp/server/cache_fixture.hpp"

namespace tmesh::server {
namespace {

using test::CacheCaller;
using test::CacheTest;
using test::kSecond_us;

struct CachingAuthorizerTest : CacheTest {};

TEST_F(CachingAuthorizerTest, AnAllowIsAnsweredFromWhatIsKept) {
  const uint64_t wall_us = 1'700'000'000'000'000;
  timers.set_wall(wall_us);
  ask();
  source.allow(wall_us + 1);
  const CacheCaller& second = ask();
  ASSERT_TRUE(second.is_hit);
  ASSERT_TRUE(second.is_allowed());
  const Grant& grant = **second.answer;
  EXPECT_EQ(grant.token_id, "stok_a");
  EXPECT_EQ(grant.owner_user_id, "user-of-stok_a");
  EXPECT_EQ(grant.agent_id, "agent-a");
  EXPECT_EQ(grant.target.protocol, "tcp");
  EXPECT_EQ(grant.target.host, "a.example");
  EXPECT_EQ(grant.target.ip, std::nullopt);
  EXPECT_EQ(grant.target.port, 443);
  EXPECT_EQ(grant.expires_at_us, wall_us + 1);
  EXPECT_EQ(grant.generation, watch.generation());
  EXPECT_EQ(source.asked_count, 1u);
}

TEST_F(CachingAuthorizerTest, AllowsOnSqliteLiveFor5Seconds) {
  know();
  pass(5 * kSecond_us - 1);
  EXPECT_TRUE(ask().is_hit);
  pass(1);
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(CachingAuthorizerTest, DenialsOnSqliteLiveFor1Second) {
  ask();
  source.refuse();
  pass(kSecond_us - 1);
  const CacheCaller& kept = ask();
  EXPECT_TRUE(kept.is_hit);
  EXPECT_TRUE(kept.is_refused(TMESH_E_POLICY));
  pass(1);
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(CachingAuthorizerTest, LifeIsCountedFromTheBeginOfTheDecision) {
  const CacheCaller& slow = ask();
  pass(2 * kSecond_us);
  source.allow();
  ASSERT_TRUE(slow.is_allowed());
  pass(3 * kSecond_us - 1);
  EXPECT_TRUE(ask().is_hit);
  pass(1);
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(CachingAuthorizerTest, TimesOfLifeFollowTheDatabaseAndTheConfiguration) {
  using Driver = config::StorageSettings::Driver;
  const Cache::Settings sqlite = Cache::settings({}, Driver::sqlite);
  EXPECT_EQ(sqlite.positive_ttl_us, 5 * kSecond_us);
  EXPECT_EQ(sqlite.negative_ttl_us, 1 * kSecond_us);
  EXPECT_EQ(sqlite.stale_on_poll_error_max_us, 5 * kSecond_us);
  EXPECT_EQ(sqlite.entries_max, 100'000u);
  EXPECT_TRUE(sqlite.is_enabled);
  const Cache::Settings mysql = Cache::settings({}, Driver::mysql);
  EXPECT_EQ(mysql.positive_ttl_us, 300 * kSecond_us);
  EXPECT_EQ(mysql.negative_ttl_us, 3 * kSecond_us);
  config::AuthorizationCacheSettings own;
  own.negative_ttl_us = 400'000;
  EXPECT_EQ(Cache::settings(own, Driver::sqlite).negative_ttl_us, 400'000u);
}

struct LongLivedTest : CacheTest {
  LongLivedTest() : CacheTest(Cache::settings({}, config::StorageSettings::Driver::mysql)) {}
};

TEST_F(LongLivedTest, AllowsOnMysqlLiveFor5MinutesAndDenialsFor3Seconds) {
  know();
  pass(300 * kSecond_us - 1);
  EXPECT_TRUE(ask().is_hit);
  pass(1);
  EXPECT_FALSE(ask().is_hit);
  source.refuse();
  pass(3 * kSecond_us - 1);
  EXPECT_TRUE(ask().is_hit);
  pass(1);
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(LongLivedTest, AnAllowIsNotUsedPastTheExpiryOfItsToken) {
  timers.set_wall(1'000);
  ask();
  source.allow(2'000);
  timers.set_wall(1'999);
  EXPECT_TRUE(ask().is_hit);
  timers.set_wall(2'000);
  const CacheCaller& late = ask();
  EXPECT_FALSE(late.is_hit);
  source.refuse();
  EXPECT_TRUE(late.is_refused(TMESH_E_POLICY));
  EXPECT_TRUE(ask().is_hit) << "the denial has taken the allow's place";
}

TEST_F(LongLivedTest, AWallClockThatJumpsMovesNoTimeOfLife) {
  know();
  timers.set_wall(4'000'000'000'000'000);
  EXPECT_TRUE(ask().is_hit) << "the token does not expire";
}

TEST_F(CachingAuthorizerTest, SpellingsOfOneTargetAreOneQuestion) {
  know();
  for (const char* host : {"A.Example", "a.example.", "A.EXAMPLE."}) {
    EXPECT_TRUE(ask({"stok_a", "agent-a", "tcp", host, 443}).is_hit) << host;
  }
  EXPECT_TRUE(ask({"stok_a", "agent-a", " TCP", "a.example", 443}).is_hit);
  ask({"stok_a", "agent-a", "tcp", "0:0:0:0:0:ffff:192.0.2.1", 1});
  source.allow();
  EXPECT_TRUE(ask({"stok_a", "agent-a", "tcp", "192.0.2.1", 1}).is_hit);
  ask({"stok_a", "agent-a", "ws", "a.example", 443});
  source.allow();
  EXPECT_TRUE(ask({"stok_a", "agent-a", "websocket", "a.example", 443}).is_hit);
}

TEST_F(CachingAuthorizerTest, EveryPartOfTheKeyTellsQuestionsApart) {
  know();
  const StreamRequest others[] = {
      {"stok_b", "agent-a", "tcp", "a.example", 443}, {"stok_a", "agent-b", "tcp", "a.example", 443},
      {"stok_a", "agent-a", "udp", "a.example", 443}, {"stok_a", "agent-a", "http", "a.example", 443},
      {"stok_a", "agent-a", "ws", "a.example", 443},  {"stok_a", "agent-a", "tcp", "b.example", 443},
      {"stok_a", "agent-a", "tcp", "a.example", 444}, {"stok_a", "agent-a", "tcp", "a.example", 0x1bb0},
      {"stok_aa", "gent-a", "tcp", "a.example", 443}, {"stok_", "aagent-a", "tcp", "a.example", 443},
      {"stok_a", "agent-aa", "tcp", ".example", 443}, {"stok_a", "agent-", "tcp", "aa.example", 443},
  };
  for (const StreamRequest& other : others) {
    const CacheCaller& caller = ask(other);
    EXPECT_FALSE(caller.is_hit) << other.token_id << other.agent_id << other.protocol << other.host
                                << other.port;
    source.refuse();
    EXPECT_TRUE(caller.is_refused(TMESH_E_POLICY));
  }
  EXPECT_TRUE(ask().is_allowed());
}

TEST_F(CachingAuthorizerTest, WhatCannotBeNormalisedGoesToTheSourceAndIsNotKept) {
  const StreamRequest odd[] = {
      {"stok_a", "agent-a", "tcp", "a b", 443},
      {"stok_a", "agent-a", "tcp", "", 443},
      {"stok_a", "agent-a", "sctp", "a.example", 443},
      {"stok_a", "agent-a", "tcp", "a.example", 0},
      {"stok_a", "agent-a", "tcp", "127.1", 443},
      {"stok_a", std::string(256, 'a'), "tcp", "a.example", 443},
      {std::string(65536, 't'), "agent-a", "tcp", "a.example", 443},
  };
  for (const StreamRequest& request : odd) {
    for (int i = 0; i < 2; i++) {
      const CacheCaller& caller = ask(request);
      EXPECT_EQ(source.waiting_count(), 1u);
      source.refuse();
      EXPECT_TRUE(caller.is_refused(TMESH_E_POLICY));
    }
  }
  EXPECT_EQ(cache.stats().entries_count, 0u);
  EXPECT_EQ(cache.stats().count(Way::bypass, Outcome::deny), 2 * std::size(odd));
}

// LESSONS Z7: an error is not a no.
TEST_F(CachingAuthorizerTest, OnlyDefiniteAnswersAreKept) {
  for (const tmesh_code code : {TMESH_E_INVALID, TMESH_E_IO, TMESH_E_TIMEOUT, TMESH_E_LIMIT,
                                TMESH_E_NO_MEMORY, TMESH_E_TOO_LARGE, TMESH_E_STATE}) {
    const CacheCaller& caller = ask();
    EXPECT_FALSE(caller.is_hit) << tmesh_code_name(code);
    source.refuse(code);
    EXPECT_TRUE(caller.is_refused(code));
  }
  EXPECT_EQ(cache.stats().entries_count, 0u);
  EXPECT_EQ(cache.stats().count(Way::miss, Outcome::failed), 7u);
}

TEST_F(CachingAuthorizerTest, ASourceThatIsFullIsAnErrorOfTheCallAndNotKept) {
  source.is_full = true;
  EXPECT_TRUE(ask().is_refused(TMESH_E_LIMIT));
  source.is_full = false;
  know();
}

TEST_F(CachingAuthorizerTest, AGrantForSomethingElseThanAskedIsNotKept) {
  const CacheCaller& caller = ask();
  source.answer(Grant{"stok_a", "user", "agent-a", {"tcp", "b.example", std::nullopt, 443}, std::nullopt});
  EXPECT_TRUE(caller.is_allowed());
  EXPECT_FALSE(ask().is_hit);
}

TEST_F(CachingAuthorizerTest, StatsTellHowQuestionsWereAnswered) {
  ask();
  ask();
  ask();
  source.allow();
  ask();
  ask({"stok_a", "agent-a", "tcp", "b.example", 443});
  source.refuse();
  ask({"stok_a", "agent-a", "tcp", "b.example", 443});
  const Cache::Stats stats = cache.stats();
  EXPECT_EQ(stats.count(Way::miss, Outcome::allow), 1u);
  EXPECT_EQ(stats.count(Way::shared, Outcome::allow), 2u);
  EXPECT_EQ(stats.count(Way::hit, Outcome::allow), 1u);
  EXPECT_EQ(stats.count(Way::miss, Outcome::deny), 1u);
  EXPECT_EQ(stats.count(Way::hit, Outcome::deny), 1u);
  EXPECT_EQ(stats.entries_count, 2u);
  EXPECT_EQ(stats.evictions_count, 0u);
}

struct SmallCacheTest : CacheTest {
  SmallCacheTest() : CacheTest({.entries_max = 4}) {}
};

TEST_F(SmallCacheTest, AtMostEntriesMaxAreKept) {
  for (uint16_t port = 1; port <= 10; port++) {
    ask({"stok_a", "agent-a", "tcp", "a.example", port});
    source.allow();
  }
  EXPECT_EQ(cache.stats().entries_count, 4u);
  EXPECT_EQ(cache.stats().evictions_count, 6u);
}

struct DisabledCacheTest : CacheTest {
  DisabledCacheTest() : CacheTest({.is_enabled = false}) {}
};

TEST_F(DisabledCacheTest, EveryQuestionGoesToTheSourceAndGrantsCarryTheGeneration) {
  for (int i = 0; i < 3; i++) {
    const CacheCaller& a = ask();
    const CacheCaller& b = ask();
    EXPECT_EQ(source.waiting_count(), 2u) << "nothing is shared";
    source.allow();
    source.allow();
    ASSERT_TRUE(a.is_allowed());
    ASSERT_TRUE(b.is_allowed());
    EXPECT_EQ((*b.answer)->generation, watch.generation());
    watch.note_local_commit();
  }
  EXPECT_EQ(cache.stats().count(Way::bypass, Outcome::allow), 6u);
  EXPECT_EQ(cache.stats().entries_count, 0u);
}

}  // namespace
}  // namespace tmesh::server
