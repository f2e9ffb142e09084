// Streams that lose their right while they run, over muxes in memory (LESSONS P-K1).
#include <malloc.h>

#include <list>
#include <string>
#include <vector>

#include "cpp/server/client_stream_service.hpp"
#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::expect_result;
using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct RevokedPath : test::PathTest {
  RevokedPath() {
    service.emplace(timers, authorizer, registry, settings, &revocation);
    authorizer.generation = 1;
  }
  ~RevokedPath() override { service.reset(); }
  void move() { revocation.on_rights_moved(++authorizer.generation); }

  LiveRevocation revocation{timers, authorizer, 1, {}};
};

TEST_F(RevokedPath, ARunningStreamIsResetOnBothSidesAndAnotherTokensIsNot) {
  FakeClient& client = add_client("revoked");
  FakeClient& other = add_client("other");
  FakeAgent& agent = add_agent();
  agent.answer = tmesh_open_accept();
  PlainStream stream;
  PlainStream stays;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
  ASSERT_TRUE(stays.open(other.mux(), open_request("a", 1)));
  pump();
  ASSERT_EQ(service->relays_count(), 2u);
  EXPECT_EQ(revocation.grants_count(), 2u);
  PlainStream& at_agent = *agent.streams.front();
  PlainStream& stays_at_agent = *agent.streams.back();
  at_agent.write("half of");
  stays_at_agent.write("half of");
  pump();
  authorizer.denied_token = "revoked";
  move();
  pump();
  EXPECT_TRUE(stream.is_over && at_agent.is_over);
  EXPECT_EQ(stream.received, "half of");
  EXPECT_EQ(service->relays_count(), 1u);
  EXPECT_EQ(service->slots().streams_of_token("revoked"), 0u) << "its place is free again";
  stays_at_agent.write(" it");
  stays.write("up");
  pump();
  EXPECT_EQ(stays.received, "half of it");
  EXPECT_EQ(stays_at_agent.received, "up");
  EXPECT_FALSE(stays.is_over);
  EXPECT_EQ(revocation.stats().reset_count, 1u);
}

TEST_F(RevokedPath, AnOpenThatTheAgentIsDiallingIsRefused) {
  FakeClient& client = add_client("revoked");
  FakeAgent& agent = add_agent();
  PlainStream stream;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
  pump();
  ASSERT_EQ(agent.streams.size(), 1u);
  authorizer.denied_token = "revoked";
  move();
  pump();
  expect_result(stream, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false);
  EXPECT_TRUE(agent.last().is_over);
  expect_idle();
}

TEST_F(RevokedPath, ALegacyStreamIsResetToo) {
  FakeClient& client = add_client("revoked");
  FakeAgent& agent = add_agent();
  PlainStream stream;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1), false));
  pump();
  authorizer.denied_token = "revoked";
  move();
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_TRUE(agent.last().is_over);
  expect_idle();
}

// The decision began before rights moved and is used after it.
TEST_F(RevokedPath, NothingSlipsThroughBetweenDecisionAndInstallation) {
  FakeClient& client = add_client("revoked");
  FakeAgent& agent = add_agent();
  agent.answer = tmesh_open_accept();
  authorizer.is_slow = true;
  PlainStream stream;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
  pump();
  ASSERT_EQ(authorizer.waiting_count(), 1u);
  const uint64_t begun = authorizer.generation;
  move();  // nothing runs yet that could be looked at
  authorizer.generation = begun;
  ASSERT_TRUE(authorizer.settle());
  pump();
  authorizer.generation = begun + 1;
  authorizer.denied_token = "revoked";
  authorizer.is_slow = false;
  pump();
  EXPECT_TRUE(stream.is_over);
  expect_idle();
}

TEST_F(RevokedPath, ManyStreamsGoWithoutATrace) {
  FakeClient& client = add_client("revoked");
  FakeAgent& agent = add_agent();
  agent.answer = tmesh_open_accept();
  settings.active_per_agent_max = 0;
  std::list<PlainStream> streams;
  for (int i = 0; i < 700; i++) {
    ASSERT_TRUE(
        streams.emplace_back().open(client.mux(), open_request(i % 3 == 0 ? "a" : "b", i % 3 == 1 ? 1 : 2)));
    if (i % 100 == 0) pump();
  }
  pump();
  ASSERT_EQ(service->relays_count(), 700u);
  EXPECT_EQ(revocation.grants_count(), 3u);
  authorizer.denied_token = "revoked";
  move();
  pump();
  pump();
  for (const PlainStream& stream : streams) EXPECT_TRUE(stream.is_over);
  expect_idle();
  EXPECT_EQ(revocation.grants_count(), 0u);
  EXPECT_EQ(revocation.stats().reset_count, 700u);
}

struct Watched final : Revocable {
  void on_revoked() override {}
};

TEST_F(RevokedPath, AWatchedStreamCosts32BytesAndADistinctGrantSomeHundred) {
  EXPECT_EQ(sizeof(Revocable), 32u);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's heap tells mallinfo2 nothing";
#endif
  constexpr std::size_t kStreams = 10'000;
  std::vector<Watched> streams(kStreams);
  Grant grant;
  grant.token_id = "stok_0123456789012345678901";
  grant.agent_id = "agent-0123456789abcdef01234567";
  grant.target = {"tcp", "www.example.com", std::nullopt, 443};
  grant.generation = 1;
  const auto heap_bytes = [&](bool is_distinct) {
    const std::size_t before = mallinfo2().uordblks;
    for (std::size_t i = 0; i < kStreams; i++) {
      if (is_distinct) grant.target.host = "host" + std::to_string(i) + ".example.com";
      revocation.watch(streams[i], grant);
    }
    const std::size_t used = mallinfo2().uordblks - before;
    RecordProperty(is_distinct ? "distinct_grant_bytes" : "same_grant_bytes",
                   static_cast<int>(used / kStreams));
    return used;
  };
  EXPECT_LE(heap_bytes(false), 1000u) << "all of them rest on one grant";
  std::vector<Watched>(kStreams).swap(streams);
  EXPECT_EQ(revocation.grants_count(), 0u);
  EXPECT_LE(heap_bytes(true) / kStreams, 480u);
}

}  // namespace
}  // namespace tmesh::server
