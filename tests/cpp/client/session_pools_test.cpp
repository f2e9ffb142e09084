#include "cpp/client/session_pools.hpp"

#include "tests/cpp/client/pools_fixture.hpp"

namespace tmesh::client {
namespace {

// Requirement J1.
TEST_F(PoolsTest, TwoAgentsAreTwoLinksByDefault) {
  make(1, 1, {"home", "work"});
  pools->start();
  ASSERT_TRUE(run_until([&] { return server.has_request(0) && server.has_request(1); }));
  answer(0);
  answer(1);
  settle();
  EXPECT_EQ(server.count(), 2u);
  open("home");
  open("work");
  ASSERT_TRUE(
      run_until([&] { return server.peer(0).streams.size() == 1 && server.peer(1).streams.size() == 1; }));
  std::set<std::string> agents;
  for (int i : {0, 1}) agents.insert(server.peer(i).streams.front().open.agent_id);
  EXPECT_EQ(agents, (std::set<std::string>{"home", "work"}));
}

TEST_F(PoolsTest, EachLinkTellsItsPlaceInThePool) {
  up(3, 3);
  std::set<uint32_t> places;
  for (std::size_t n = 0; n < 3; n++) {
    ASSERT_TRUE(run_until([&] { return server.peer(n).controls.size() == 1; }));
    tmesh_client_metadata hello{};
    const std::string& text = server.peer(n).controls[0].second;
    ASSERT_TRUE(tmesh_is_ok(tmesh_client_metadata_decode(&hello, text.data(), text.size())));
    places.insert(hello.connection_slot);
    tmesh_client_metadata_free(&hello);
  }
  EXPECT_EQ(places, (std::set<uint32_t>{1, 2, 3}));
}

// Requirement J12: links come last.
TEST_F(PoolsTest, NothingIsDialledBeforeStart) {
  make(2, 2);
  settle();
  EXPECT_EQ(dialer.count(), 0u);
  EXPECT_EQ(refusal(), TMESH_E_CLOSED);
  EXPECT_EQ(pools->stats().unavailable_count, 1u);
}

// Requirement J3, LESSONS Z16.
TEST_F(PoolsTest, StreamsGoToTheLinkWithTheFewest) {
  up(3, 3);
  std::map<tmesh_mux*, int> counts;
  std::vector<tmesh_stream*> streams;
  for (int i = 0; i < 9; i++) streams.push_back(open());
  for (tmesh_stream* s : streams) counts[s->mux]++;
  EXPECT_EQ(counts.size(), 3u);
  for (const auto& [mux, count] : counts) EXPECT_EQ(count, 3);
  // The count is the mux's own: what is over counts no more (requirement J2).
  tmesh_mux* const emptied = streams[0]->mux;
  for (tmesh_stream* s : streams) {
    if (s->mux == emptied) release(s);
  }
  for (int i = 0; i < 3; i++) EXPECT_EQ(open()->mux, emptied);
}

TEST_F(PoolsTest, AStreamStaysWhereItWasOpened) {
  up(2, 2);
  tmesh_stream* const first = open();
  tmesh_stream* const second = open();
  EXPECT_NE(first->mux, second->mux);
  tmesh_mux* const mux = first->mux;
  release(second);
  for (int i = 0; i < 5; i++) open();
  EXPECT_EQ(first->mux, mux);
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() + server.peer(1).streams.size() == 6; }));
}

TEST_F(PoolsTest, ALinkThatIsDownGetsNoStreams) {
  up(2, 2);
  server.peers[0]->link = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
  for (int i = 0; i < 4; i++) open();
  ASSERT_TRUE(run_until([&] { return server.peer(1).streams.size() == 4; }));
  answer(2);  // reconnected in its place
  for (int i = 0; i < 4; i++) open();
  ASSERT_TRUE(run_until([&] { return server.peer(2).streams.size() == 4; }));
}

TEST_F(PoolsTest, WhatOneLinkCannotTakeAnotherOneDoes) {
  up(2, 2);
  tmesh_stream* const first = open();
  tmesh_stream* const second = open();
  first->mux->config.streams_max = 1;
  tmesh_mux* const full = first->mux;
  release(second);
  for (int i = 0; i < 3; i++) EXPECT_NE(open()->mux, full);
  open();
  second->mux->config.streams_max = 1;
  EXPECT_EQ(refusal(), TMESH_E_LIMIT) << "why, not that there is no link";
}

TEST_F(PoolsTest, AnAgentThatNoEntryNamesIsUnavailable) {
  up();
  EXPECT_EQ(refusal("other"), TMESH_E_CLOSED);
  Ticket ticket = pools->await_link("other", Delegate<void()>{});
  EXPECT_FALSE(ticket.active());
  pools->open_timed_out("other", *open());
}

TEST_F(PoolsTest, NotOnAMuxMeansAnotherLinkThatCanAnswer) {
  up(2, 2);
  tmesh_stream* const first = open();
  auto other = pools->open(request_for("home"), true, first->mux);
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(hold(other->stream)->mux, first->mux);
  EXPECT_EQ(pools->stats().hedges_count, 1u);
  other->stream->mux->config.has_open_result = false;
  EXPECT_EQ(refusal("home", first->mux), TMESH_E_CLOSED);
  pools.reset();
  up(1, 4);
  EXPECT_EQ(refusal("home", open()->mux), TMESH_E_CLOSED) << "a pool of one";
}

struct Waiter {
  void on_wake() {
    wakes++;
    if (next != nullptr) next->ticket.cancel();
  }
  void wait(SessionPools& pools, std::string_view agent_id = "home") {
    ticket = pools.await_link(agent_id, Delegate<void()>::bind<&Waiter::on_wake>(this));
  }
  Ticket ticket;
  Waiter* next = nullptr;  // ended by this one
  std::size_t wakes = 0;
};

TEST_F(PoolsTest, WhoWaitsForALinkIsToldOnceWhenItIsThere) {
  make(1, 1, {"home", "work"});
  Waiter too_early;
  too_early.wait(*pools);
  EXPECT_FALSE(too_early.ticket.active()) << "nothing is on its way";
  pools->start();
  Waiter waiters[4];
  for (Waiter& w : waiters) w.wait(*pools);
  waiters[1].ticket.cancel();
  waiters[2].next = &waiters[3];
  Waiter other;
  other.wait(*pools, "work");
  ASSERT_TRUE(run_until([&] { return server.has_request(0) && server.has_request(1); }));
  answer(0);
  const bool is_home = other.wakes == 0;
  if (!is_home) answer(1);
  EXPECT_EQ(waiters[0].wakes, 1u);
  EXPECT_EQ(waiters[1].wakes, 0u);
  EXPECT_EQ(waiters[2].wakes, 1u);
  EXPECT_EQ(waiters[3].wakes, 0u) << "cancelled by its neighbour";
  if (is_home) answer(1);
  EXPECT_EQ(other.wakes, 1u);
  EXPECT_EQ(waiters[0].wakes, 1u);
  Waiter late;
  late.wait(*pools);
  EXPECT_FALSE(late.ticket.active()) << "there is one";
}

TEST_F(PoolsTest, WhoWaitsIsToldWhenTheLastAttemptFailed) {
  make(2, 2);
  pools->start();
  Waiter waiter;
  waiter.wait(*pools);
  ASSERT_TRUE(run_until([&] { return server.has_request(0) && server.has_request(1); }));
  server.peer(0).reply("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
  settle();
  EXPECT_EQ(waiter.wakes, 0u) << "the other one may still come";
  server.peer(1).reply("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return waiter.wakes == 1; }));
  Waiter late;
  late.wait(*pools);
  EXPECT_FALSE(late.ticket.active());
}

// A V8 server refuses every offer; the attempt goes on without one.
TEST_F(PoolsTest, WhoWaitsForALinkWaitsThroughARefusedOffer) {
  make();
  pools->start();
  Waiter waiter;
  waiter.wait(*pools);
  ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
  server.peer(0).reply("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n");
  ASSERT_TRUE(run_until([&] { return server.has_request(1); }));
  EXPECT_EQ(waiter.wakes, 0u);
  answer(1, TMESH_SUBPROTOCOL_NONE);
  EXPECT_EQ(waiter.wakes, 1u);
}

// LESSONS P-E11.
TEST_F(PoolsTest, AfterAGoawayALinkIsOnItsWay) {
  up();
  server.last().control(TMESH_FRAME_GOAWAY);
  ASSERT_TRUE(run_until([&] { return refusal() == TMESH_E_CLOSED; }));
  Waiter waiter;
  waiter.wait(*pools);
  EXPECT_TRUE(waiter.ticket.active());
  answer(1);
  EXPECT_EQ(waiter.wakes, 1u);
  pools->drain();
  Waiter late;
  late.wait(*pools);
  EXPECT_FALSE(late.ticket.active()) << "never while draining";
}

TEST_F(PoolsTest, AnAgentThatIsNewGetsItsLinksAtOnce) {
  up();
  pools->use_agents({"home", "work"});
  answer(1);
  open("work");
  open("home");
  ASSERT_TRUE(
      run_until([&] { return server.peer(0).streams.size() == 1 && server.peer(1).streams.size() == 1; }));
  EXPECT_STREQ(server.peer(1).streams.front().open.agent_id, "work");
}

TEST_F(PoolsTest, AnAgentThatIsNotNamedAnyMoreGoesWithItsLastStream) {
  up(1, 1, {"home", "work"});
  tmesh_stream* const stream = open("work");
  open("home");
  pools->use_agents({"home"});
  EXPECT_EQ(refusal("work"), TMESH_E_CLOSED);
  EXPECT_EQ(refusal("home"), TMESH_OK);
  timers.advance(5 * SessionPools::kSweepEvery_us);
  settle();
  EXPECT_EQ(links().size(), 2u);
  EXPECT_EQ(stream->state, TMESH_STREAM_OPENING);
  release(stream);
  settle();
  timers.advance(SessionPools::kSweepEvery_us);
  EXPECT_EQ(links().size(), 1u);
  ASSERT_TRUE(run_until([&] { return server.peer(0).down.has_value() || server.peer(1).down.has_value(); }));
  timers.advance(10 * SessionPools::kSweepEvery_us);
  EXPECT_EQ(refusal("home"), TMESH_OK);
}

TEST_F(PoolsTest, WhoWaitsForAnAgentThatGoesIsTold) {
  make(1, 1, {"home", "work"});
  pools->start();
  Waiter waiter, other;
  waiter.wait(*pools, "work");
  other.wait(*pools, "home");
  pools->use_agents({"home"});
  EXPECT_EQ(waiter.wakes, 1u);
  EXPECT_EQ(other.wakes, 0u);
  // Back again: a pool of its own.
  pools->use_agents({"home", "work"});
  waiter.wait(*pools, "work");
  EXPECT_TRUE(waiter.ticket.active());
}

// The end of a local connection may be the end of an entry.
TEST_F(PoolsTest, WhoIsToldThatAnAgentGoesMayNameOtherAgents) {
  make(1, 1, {"a", "b", "c"});
  pools->start();
  struct Leaver {
    void on_wake() { pools.use_agents({"d"}); }
    SessionPools& pools;
  } leaver{*pools};
  Ticket a = pools->await_link("a", Delegate<void()>::bind<&Leaver::on_wake>(&leaver));
  Waiter c;
  c.wait(*pools, "c");
  pools->use_agents({"b", "c"});
  EXPECT_EQ(c.wakes, 1u);
  a.release();
  timers.advance(SessionPools::kSweepEvery_us);
  ASSERT_EQ(links().size(), 1u);
  EXPECT_EQ(links()[0].agent, "d");
}

TEST_F(PoolsTest, TheStatusHasTheLinksAndWhatHappenedToOpens) {
  up(1, 1, {"home", "work"});
  open("home");
  (void)refusal("nobody");
  session::StatusReport report;
  pools->report(report);
  ASSERT_EQ(report.links.size(), 2u);
  EXPECT_EQ(report.links[0].agent, "home");
  EXPECT_TRUE(report.links[0].is_strict);
  EXPECT_EQ(report.links[0].slot.streams_count, 1u);
  EXPECT_EQ(report.links[1].agent, "work");
  std::map<std::string, uint64_t> counters;
  for (const auto& [name, value] : report.counters) counters[name] = value;
  EXPECT_EQ(counters.size(), 8u);
  EXPECT_EQ(counters["opens"], 1u);
  EXPECT_EQ(counters["opens_without_link"], 1u);
  EXPECT_EQ(counters["hedges"], 0u);
}

TEST_F(PoolsTest, AfterDrainStreamsGoOnAndNoneIsOpened) {
  up(2, 2);
  tmesh_stream* const stream = open();
  pools->drain();
  EXPECT_EQ(refusal(), TMESH_E_CLOSED);
  timers.advance(10 * kEvaluation_us);
  ASSERT_TRUE(run_until([&] { return server.peer(0).streams.size() + server.peer(1).streams.size() == 1; }));
  auto& peer = server.peer(0).streams.empty() ? server.peer(1) : server.peer(0);
  peer.streams.front().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return stream->state == TMESH_STREAM_OPEN; }));
}

TEST_F(PoolsTest, ClearEndsEveryStream) {
  up(2, 2);
  open();
  open();
  pools->clear();
  EXPECT_EQ(links().size(), 0u);
  ASSERT_TRUE(run_until([&] { return server.peer(0).down.has_value() && server.peer(1).down.has_value(); }));
}

}  // namespace
}  // namespace tmesh::client
