// Opening: one open from its request to its stream.
#include "tests/cpp/client/opening_fixture.hpp"

namespace tmesh::client {
namespace {

TEST_F(OpeningTest, AnAcceptedOpenBringsAStream) {
  up();
  User user(*this);
  user.start();
  arrive(1);
  EXPECT_STREQ(far().open.agent_id, "home");
  EXPECT_STREQ(far().open.target_host, "target");
  EXPECT_EQ(far().open.target_port, 443);
  settle();
  EXPECT_FALSE(user.result.has_value());
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  EXPECT_TRUE(user.result->accepted);
  tmesh_stream_write(user.stream, "hello", 5);
  ASSERT_TRUE(run_until([&] { return far().received == "hello"; }));
}

// "take() the stream, now or later".
TEST_F(OpeningTest, WhatComesBeforeTakeIsNotLost) {
  up();
  User user(*this);
  user.takes = false;
  user.start();
  arrive(1);
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  far().send("data");
  settle();
  far().release();
  settle();
  user.take();
  ASSERT_TRUE(run_until([&] { return (user.events & TMESH_STREAM_EV_OVER) != 0; }));
  EXPECT_TRUE(user.result->accepted);
}

TEST_F(OpeningTest, AStreamThatNobodyTakesIsReset) {
  up();
  {
    User user(*this);
    user.takes = false;
    user.start();
    arrive(1);
    far().answer(tmesh_open_accept());
    ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  }
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
}

TEST_F(OpeningTest, EveryRefusalKeepsItsStageAndCode) {
  up();
  for (unsigned code = 1; code < TMESH_OPEN_CODE_COUNT; code++) {
    if (code == TMESH_OPEN_UNSUPPORTED_CAPABILITY) continue;
    User user(*this);
    user.goes = true;  // the owner may end it from inside
    user.start();
    ASSERT_TRUE(run_until([&] { return !server.peer(0).streams.empty() && !far().over; }));
    far().answer(tmesh_open_refuse(TMESH_STAGE_DNS, static_cast<tmesh_open_code>(code), true));
    ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
    EXPECT_TRUE(user.is(TMESH_STAGE_DNS, static_cast<tmesh_open_code>(code)));
    EXPECT_TRUE(user.result->retryable);
    server.peer(0).streams.clear();
  }
}

TEST_F(OpeningTest, WithoutALinkTheAgentIsUnavailable) {
  make();
  User user(*this);
  user.start();
  EXPECT_TRUE(user.is(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE));
}

TEST_F(OpeningTest, ALinkThatIsOnItsWayIsWaitedFor) {
  make();
  pools->start();
  User user(*this);
  user.start("early");
  EXPECT_FALSE(user.result.has_value());
  answer(0);
  arrive(1);
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "early"; }));
}

TEST_F(OpeningTest, AnOpenThatWaitedForItsLinkHasAllOfItsTime) {
  make();
  pools->start();
  User user(*this);
  user.start();
  timers.advance(settings.link_wait_us - 1);
  answer(0);
  arrive(1);
  timers.advance(settings.open_timeout_us - 1);
  settle();
  EXPECT_FALSE(user.result.has_value());
  EXPECT_EQ(server.peer(0).streams.size(), 1u);
  timers.advance(1);
  EXPECT_TRUE(user.is(TMESH_STAGE_RELAY, TMESH_OPEN_TIMEOUT));
}

TEST_F(OpeningTest, AWaitThatIsGivenUpIsForgotten) {
  make();
  pools->start();
  {
    User user(*this);
    user.start();
  }
  answer(0);
  settle();
  EXPECT_TRUE(server.peer(0).streams.empty());
}

TEST_F(OpeningTest, AnOpenHasItsTimeAndTheLinkIsAsked) {
  up();
  User user(*this);
  user.start();
  arrive(1);
  timers.advance(settings.open_timeout_us - 1);
  EXPECT_FALSE(user.result.has_value());
  timers.advance(1);
  EXPECT_TRUE(user.is(TMESH_STAGE_RELAY, TMESH_OPEN_TIMEOUT));
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
}

TEST_F(OpeningTest, OneThatIsDestroyedResetsItsStream) {
  up();
  {
    User user(*this);
    user.start();
    arrive(1);
  }
  ASSERT_TRUE(run_until([&] { return far().over.has_value(); }));
  timers.advance(100'000'000);
}

// --- the link goes before the answer ---

// Requirement J3: "agent unavailable" is for when there is no link.
TEST_F(OpeningTest, AnOpenWhoseLinkGoesBeforeAnyAnswerIsRepeatedOnAnotherOne) {
  up(2, 2);
  User user(*this);
  user.start();
  const std::size_t first = first_peer();
  const std::size_t second = 1 - first;
  timers.advance(settings.open_timeout_us - 1);
  server.peers[first]->link = {};
  arrive(1, second);
  EXPECT_STREQ(far(second).open.target_host, "target");
  EXPECT_FALSE(user.result.has_value());
  EXPECT_EQ(pools->stats().hedges_count, 0u);
  far(second).answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  tmesh_stream_write(user.stream, "hello", 5);
  ASSERT_TRUE(run_until([&] { return far(second).received == "hello"; }));
}

TEST_F(OpeningTest, ARepeatedOpenHasWhatIsLeftOfItsTime) {
  up(2, 2);
  User user(*this);
  user.start();
  const std::size_t first = first_peer();
  timers.advance(settings.open_timeout_us - 1);
  server.peers[first]->link = {};
  arrive(1, 1 - first);
  timers.advance(1);
  EXPECT_TRUE(user.is(TMESH_STAGE_RELAY, TMESH_OPEN_TIMEOUT));
  ASSERT_TRUE(run_until([&] { return far(1 - first).over.has_value(); }));
}

TEST_F(OpeningTest, AnOpenIsRepeatedOnce) {
  up(3, 3);
  User user(*this);
  user.goes = true;
  user.start();
  std::set<std::size_t> left{0, 1, 2};
  for (int links = 2; links > 0; links--) {
    std::size_t at = 3;
    ASSERT_TRUE(run_until([&] {
      for (const std::size_t n : left) {
        if (!server.peer(n).streams.empty()) at = n;
      }
      return at != 3;
    }));
    left.erase(at);
    server.peers[at]->link = {};
  }
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.is(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE));
  EXPECT_TRUE(server.peer(*left.begin()).streams.empty());
}

TEST_F(OpeningTest, WithoutAnotherLinkTheEndOfItsLinkIsAgentUnavailable) {
  up();
  User user(*this);
  user.start();
  arrive(1);
  server.peers[0]->link = {};
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.is(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE));
  EXPECT_TRUE(user.result->retryable);
}

// The target must not see them twice; those that were only kept nobody saw.
TEST_F(OpeningTest, AnOpenWhoseEarlyBytesLeftIsNotRepeated) {
  for (const bool goes_early : {false, true}) {
    server.peers.clear();
    up(2, 2);
    if (goes_early) {
      acknowledge(0);
      acknowledge(1);
    }
    User user(*this);
    user.start("early");
    const std::size_t first = first_peer();
    server.peers[first]->link = {};
    if (goes_early) {
      ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
      EXPECT_TRUE(user.is(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE));
      settle();
      EXPECT_TRUE(server.peer(1 - first).streams.empty());
    } else {
      arrive(1, 1 - first);
      far(1 - first).answer(tmesh_open_accept());
      ASSERT_TRUE(run_until([&] { return far(1 - first).received == "early"; }));
    }
  }
}

// Its answer is a refusal of this open, whatever the links are.
TEST_F(OpeningTest, AnOpenThatTheServerResetsIsNotRepeated) {
  up(2, 2);
  User user(*this);
  user.start();
  const std::size_t first = first_peer();
  far(first).release();
  ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
  EXPECT_TRUE(user.is(TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR));
  settle();
  EXPECT_TRUE(server.peer(1 - first).streams.empty());
}

// --- remote validation ---

TEST_F(OpeningTest, NothingIsOpenedBeforeTheServiceAllowsIt) {
  up();
  settings.auth_url = "http://127.0.0.1/allow";
  User user(*this);
  user.start();
  settle();
  EXPECT_TRUE(server.peer(0).streams.empty());
  EXPECT_EQ(validator.url, settings.auth_url);
  EXPECT_EQ(validator.target, "target:443");
  EXPECT_EQ(validator.login, "user/secret");
  validator.answer(true);
  arrive(1);
}

TEST_F(OpeningTest, ADenialIsForbidden) {
  up();
  settings.auth_url = "http://127.0.0.1/allow";
  User user(*this);
  user.goes = true;
  user.start();
  validator.answer(false);
  EXPECT_TRUE(user.is(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN));
  settle();
  EXPECT_TRUE(server.peer(0).streams.empty());
}

TEST_F(OpeningTest, AKnownYesOpensAtOnceAndALeaverIsNotAnswered) {
  up();
  settings.auth_url = "http://127.0.0.1/allow";
  {
    User leaver(*this);
    leaver.start();
    EXPECT_TRUE(static_cast<bool>(validator.done));
  }
  EXPECT_FALSE(static_cast<bool>(validator.done));
  validator.is_known = true;
  User user(*this);
  user.start();
  arrive(1);
}

// --- early data ---

TEST_F(OpeningTest, EarlyBytesLeaveBeforeTheAnswerWhereBothEndsKnowHow) {
  up();
  acknowledge(0);
  User user(*this);
  user.start("early ");
  arrive(1);
  EXPECT_EQ(user.send("bytes"), 5u);
  far().is_reading = false;
  ASSERT_TRUE(run_until([&] { return server.peer(0).link.mux()->stats.data_bytes_in == 11; }));
  far().is_reading = true;
  EXPECT_FALSE(user.result.has_value());
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return user.stream != nullptr; }));
  tmesh_stream_write(user.stream, " later", 6);
  ASSERT_TRUE(run_until([&] { return far().received == "early bytes later"; }));
}

TEST_F(OpeningTest, EarlyBytesWaitForTheAnswerElsewhere) {
  up();
  User user(*this);
  user.start("early ");
  arrive(1);
  EXPECT_EQ(user.send("bytes"), 5u);
  settle();
  EXPECT_EQ(server.peer(0).link.mux()->stats.data_bytes_in, 0u);
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received == "early bytes"; }));
}

TEST_F(OpeningTest, OnlySoManyEarlyBytesAreTaken) {
  up();
  User user(*this);
  user.start();
  arrive(1);
  EXPECT_EQ(user.opening->early_room(), TMESH_EARLY_DATA_MAX_BYTES);
  EXPECT_EQ(user.send(std::string(20'000, 'x')), TMESH_EARLY_DATA_MAX_BYTES);
  EXPECT_EQ(user.opening->early_room(), 0u);
  EXPECT_EQ(user.send("more"), 0u);
  far().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return far().received.size() == TMESH_EARLY_DATA_MAX_BYTES; }));
  EXPECT_EQ(user.opening->early_room(), 0u);
}

// Requirement B4, WIRE E.
TEST_F(OpeningTest, EarlyBytesAreKeptOverTheLegacyRetry) {
  up();
  for (const bool goes_early : {false, true}) {
    if (goes_early) acknowledge(0);
    server.peer(0).streams.clear();
    User user(*this);
    user.start("first");
    arrive(1);
    user.send("second");
    if (goes_early) {
      ASSERT_TRUE(run_until([&] { return server.peer(0).link.mux()->stats.data_bytes_in == 22; }));
    }
    far().answer(tmesh_open_refuse(TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true));
    arrive(2);
    EXPECT_FALSE(far().stream->is_strict);
    ASSERT_TRUE(run_until([&] { return user.result.has_value(); }));
    EXPECT_TRUE(user.result->accepted) << "a legacy open is not answered";
    far().answer(tmesh_open_accept());
    ASSERT_TRUE(run_until([&] { return far().received == "firstsecond"; }));
  }
}

}  // namespace
}  // namespace tmesh::client
