// SessionPools: which opens are told that their link is silent, and what becomes of the link.
#include "tests/cpp/client/pools_fixture.hpp"

namespace tmesh::client {
namespace {

constexpr uint64_t kPatience_us = 250'000;  // the round-trip times here are tiny

struct Watcher {
  void on_silence() { count++; }
  void wait(SessionPools& pools, const tmesh_stream& stream) {
    ticket = pools.await_silence("home", stream, Delegate<void()>::bind<&Watcher::on_silence>(this));
  }
  Ticket ticket;
  std::size_t count = 0;
};

class HedgeTest : public PoolsTest {
 protected:
  // On the raw link, whatever the choice would be.
  tmesh_stream* open_raw() {
    auto opened = pools->open(request_for("home"), true, good);
    EXPECT_TRUE(opened.has_value());
    EXPECT_EQ(opened->stream->mux, raw);
    return hold(opened->stream);
  }
};

TEST_F(HedgeTest, SilenceIsToldOnceWhenThePatienceIsOver) {
  up_raw_and_good();
  tmesh_stream* const stream = open();
  ASSERT_EQ(stream->mux, raw);
  Watcher watcher;
  watcher.wait(*pools, *stream);
  ASSERT_TRUE(watcher.ticket.active());
  settle();
  timers.advance(kPatience_us - 1);
  EXPECT_EQ(watcher.count, 0u);
  timers.advance(1);
  EXPECT_EQ(watcher.count, 1u);
  timers.advance(100 * kPatience_us);
  EXPECT_EQ(watcher.count, 1u);
}

TEST_F(HedgeTest, AByteOfAnyKindCallsItOff) {
  up_raw_and_good();
  std::size_t round = 0;
  for (const std::string& bytes : {pong(2), std::string("\x89\0", 2), std::string("\x82", 1)}) {
    tmesh_stream* const stream = open_raw();
    Watcher watcher;
    watcher.wait(*pools, *stream);
    ASSERT_TRUE(watcher.ticket.active()) << round++;
    settle();
    server.peer(0).reply(bytes);
    settle();
    timers.advance(20 * kPatience_us);
    EXPECT_EQ(watcher.count, 0u) << "the target is slow, not the link";
  }
}

TEST_F(HedgeTest, APingLeavesWithTheOpenAndOneIsOnItsWayAtMost) {
  up_raw_and_good();
  uint64_t before = raw->stats.frames_out_count;
  Watcher watchers[3];
  watchers[0].wait(*pools, *open_raw());
  settle();
  EXPECT_EQ(raw->stats.frames_out_count, before + 2);
  watchers[1].wait(*pools, *open_raw());
  settle();
  EXPECT_EQ(raw->stats.frames_out_count, before + 3) << "no second PING";
  server.peer(0).reply(pong(2));
  settle();
  before = raw->stats.frames_out_count;
  watchers[2].wait(*pools, *open_raw());
  settle();
  EXPECT_EQ(raw->stats.frames_out_count, before + 2);
}

TEST_F(HedgeTest, APoolOfOneNeverHedges) {
  up(1, 4);
  ASSERT_TRUE(run_until([&] { return measured_count() == 1; }));
  tmesh_stream* const stream = open();
  settle();
  const uint64_t before = stream->mux->stats.frames_out_count;
  Watcher watcher;
  watcher.wait(*pools, *stream);
  EXPECT_FALSE(watcher.ticket.active());
  settle();
  EXPECT_EQ(stream->mux->stats.frames_out_count, before) << "and asks for nothing";
}

TEST_F(HedgeTest, APeerThatNeverAnsweredAPingIsNotHedged) {
  make(2, 2);
  pools->start();
  ASSERT_TRUE(run_until([&] { return server.has_request(0) && server.has_request(1); }));
  answer_raw(0);
  tmesh_stream* const stream = open();
  answer(1);
  Watcher watcher;
  watcher.wait(*pools, *stream);
  EXPECT_FALSE(watcher.ticket.active());
}

TEST_F(HedgeTest, ALinkThatCannotAnswerIsNoOtherLink) {
  up_raw_and_good();
  good->config.has_open_result = false;
  Watcher watcher;
  watcher.wait(*pools, *open());
  settle();
  timers.advance(20 * kPatience_us);
  EXPECT_EQ(watcher.count, 0u);
}

TEST_F(HedgeTest, NobodyIsToldAfterTheTicketIsGone) {
  up_raw_and_good();
  tmesh_stream* const stream = open();
  Watcher watcher;
  watcher.wait(*pools, *stream);
  watcher.ticket.cancel();
  release(stream);
  timers.advance(20 * kPatience_us);
  EXPECT_EQ(watcher.count, 0u);
}

TEST_F(HedgeTest, ALinkThatIsOverIsNotSilent) {
  up_raw_and_good();
  tmesh_stream* const stream = open();
  unsigned seen = 0;
  tmesh_stream_attach(
      stream, &seen, [](void* to, tmesh_stream*, unsigned events) { *static_cast<unsigned*>(to) |= events; });
  Watcher watcher;
  watcher.wait(*pools, *stream);
  server.peers[0]->transport = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
  timers.advance(20 * kPatience_us);
  EXPECT_EQ(watcher.count, 0u);
  EXPECT_EQ(seen, TMESH_STREAM_EV_OVER) << "which is told in another way";
}

TEST_F(HedgeTest, WithoutAnotherLinkItGoesOnWaiting) {
  up_raw_and_good();
  tmesh_stream* const stream = open();
  Watcher watcher;
  watcher.wait(*pools, *stream);
  server.peers[1]->link = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
  timers.advance(10 * kPatience_us);
  EXPECT_EQ(watcher.count, 0u);
  answer(2);
  timers.advance(kPatience_us);
  EXPECT_EQ(watcher.count, 1u);
}

// It need not be there yet when the open leaves.
TEST_F(HedgeTest, ALinkThatComesInTimeIsAnotherLink) {
  up_raw_and_good();
  server.peers[1]->link = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
  tmesh_stream* const stream = open();
  ASSERT_EQ(stream->mux, raw);
  Watcher watcher;
  watcher.wait(*pools, *stream);
  settle();
  answer(2);
  timers.advance(kPatience_us);
  EXPECT_EQ(watcher.count, 1u);
}

// Requirement J2: health is the pool's business.
TEST_F(HedgeTest, ASilentLinkIsLeftAloneUntilAByteComes) {
  up_raw_and_good();
  tmesh_stream* const stream = open();
  ASSERT_EQ(stream->mux, raw);
  Watcher watcher;
  watcher.wait(*pools, *stream);
  timers.advance(kPatience_us);
  ASSERT_EQ(watcher.count, 1u);
  std::vector<tmesh_stream*> streams;
  for (int i = 0; i < 8; i++) streams.push_back(open());
  for (tmesh_stream* s : streams) EXPECT_EQ(s->mux, good) << "although it has more streams";
  Watcher late;
  late.wait(*pools, *streams[0]);
  settle();
  timers.advance(kPatience_us);
  EXPECT_EQ(late.count, 0u) << "a silent link is no other link";
  server.peer(0).reply(pong(2));
  settle();
  EXPECT_EQ(open()->mux, raw);
  // Better a silent link than none.
  server.peers[1]->link = {};
  ASSERT_TRUE(run_until([&] { return ready_count() == 1; }));
  EXPECT_EQ(open()->mux, raw);
}

// A link with a thousand opens under way may stall: the other one shall not drown in them.
TEST_F(HedgeTest, HedgesComeInABurstAndThenAtARate) {
  up_raw_and_good();
  std::vector<Watcher> watchers(100);
  for (Watcher& w : watchers) w.wait(*pools, *open_raw());
  settle();
  const auto told = [&] {
    std::size_t count = 0;
    for (const Watcher& w : watchers) count += w.count;
    return count;
  };
  timers.advance(kPatience_us);
  EXPECT_EQ(told(), HedgeBudget::kBurst);
  EXPECT_EQ(pools->stats().hedges_denied_count, 36u);
  timers.advance(2'000'000);
  EXPECT_EQ(told(), HedgeBudget::kBurst + 2'000'000 / HedgeBudget::kEvery_us) << "those that still wait";
}

TEST_F(HedgeTest, ClearForgetsWhoWaits) {
  up_raw_and_good();
  Watcher watcher;
  watcher.wait(*pools, *open());
  pools->clear();
  timers.advance(20 * kPatience_us);
  EXPECT_EQ(watcher.count, 0u);
}

}  // namespace
}  // namespace tmesh::client
