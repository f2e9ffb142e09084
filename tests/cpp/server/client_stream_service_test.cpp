#include "cpp/server/client_stream_service.hpp"

#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct ServiceTest : test::PathTest {
  ServiceTest() : client(add_client()), agent(add_agent()) { agent.answer = tmesh_open_accept(); }
  void open(PlainStream& stream, bool is_strict = true) {
    ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1), is_strict));
    pump();
    ASSERT_TRUE(!is_strict || (stream.has_result && stream.result.accepted));
  }
  FakeClient& client;
  FakeAgent& agent;
};

TEST_F(ServiceTest, BytesFlowBothWays) {
  start();
  PlainStream stream;
  open(stream);
  std::string up;
  std::string down;
  for (int i = 0; i < 100; i++) {
    const std::string part(20'000, static_cast<char>('a' + i % 26));
    up += part;
    down += part + "!";
    stream.write(part);
    agent.last().write(part + "!");
    pump();
  }
  EXPECT_EQ(agent.last().received, up);
  EXPECT_EQ(stream.received, down);
}

TEST_F(ServiceTest, HalfClosePassesEachWayAndTheOtherGoesOn) {
  start();
  PlainStream stream;
  open(stream);
  stream.write("request");
  stream.finish();
  pump();
  EXPECT_EQ(agent.last().received, "request");
  EXPECT_TRUE(agent.last().is_eof);
  EXPECT_FALSE(stream.is_eof);
  timers.advance(600'000'000);
  pump();
  agent.last().write("late response");
  pump();
  EXPECT_EQ(stream.received, "late response");
  agent.last().finish();
  pump();
  EXPECT_TRUE(stream.is_eof);
  EXPECT_FALSE(stream.is_over);
  expect_idle();
}

TEST_F(ServiceTest, HalfCloseOfTheTargetFirst) {
  start();
  PlainStream stream;
  open(stream);
  agent.last().write("greeting");
  agent.last().finish();
  pump();
  EXPECT_TRUE(stream.is_eof);
  stream.write("still there");
  stream.finish();
  pump();
  EXPECT_EQ(agent.last().received, "still there");
  expect_idle();
}

TEST_F(ServiceTest, AResetPassesEachWay) {
  start();
  PlainStream a;
  PlainStream b;
  open(a);
  PlainStream& at_a = agent.last();
  open(b);
  PlainStream& at_b = agent.last();
  a.reset();
  at_b.reset();
  pump();
  EXPECT_TRUE(at_a.is_over);
  EXPECT_TRUE(b.is_over);
  expect_idle();
}

TEST_F(ServiceTest, CreditReturnsOnlyForWhatWentOn) {
  start();
  PlainStream stream;
  open(stream);
  agent.last().takes = false;
  const std::string block(32768, 'x');
  std::size_t sent = 0;
  for (int i = 0; i < 200; i++) {
    sent += tmesh_stream_write(stream.stream, block.data(), block.size());
    pump();
  }
  // What the agent may be sent went on and was credited; then one window more waits here.
  uint64_t credited = 0;
  for (const auto& f : client.pair.acceptor.sent_of(TMESH_FRAME_WINDOW_UPDATE))
    credited += f.header.window_bytes;
  EXPECT_LE(credited, uint64_t{TMESH_WINDOW_INITIAL_BYTES});
  EXPECT_LE(agent.pair.opener.mux.stats.data_bytes_out, uint64_t{TMESH_WINDOW_INITIAL_BYTES});
  PlainStream other;
  open(other);
  other.write("alive");
  pump();
  EXPECT_EQ(agent.last().received, "alive") << "a stream that does not read stops nobody";
  agent.streams.front()->takes = true;
  agent.streams.front()->take();
  pump();
  stream.finish();
  pump();
  EXPECT_EQ(agent.streams.front()->received.size(), sent);
  EXPECT_TRUE(agent.streams.front()->is_eof);
}

TEST_F(ServiceTest, AClientLinkWithAThousandStreamsGoesDownWithoutATrace) {
  settings.concurrent_opens_max = settings.opens_per_link_max = 2000;
  settings.pending_opens_max = 4000;
  start();
  agent.answer = std::nullopt;
  std::list<PlainStream> streams;
  for (int i = 0; i < 1000; i++) {
    ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1), i % 4 != 3));
  }
  pump();
  ASSERT_EQ(agent.opens.size(), 1000u);
  // Half of them open and with bytes under way, half still opening.
  std::size_t i = 0;
  for (auto& target : agent.streams) {
    if (i++ % 2 == 0) target->accept();
  }
  pump();
  for (PlainStream& s : streams) {
    if (s.stream->state == TMESH_STREAM_OPEN) tmesh_stream_write(s.stream, "data", 4);
  }
  client.pair.step();
  EXPECT_EQ(service->relays_count() + service->flows_count(), 1000u);
  client.pair.cut();
  pump();
  expect_idle();
  for (auto& target : agent.streams) EXPECT_TRUE(target->is_over);
  EXPECT_EQ(agent.mux()->live_count, 0u);
  EXPECT_EQ(service->stats().rapid_reset_refused_count, 0u);
  FakeClient& next = add_client("token");
  PlainStream stream;
  ASSERT_TRUE(stream.open(next.mux(), open_request("a", 1)));
  pump();
  agent.last().accept();
  pump();
  EXPECT_TRUE(stream.has_result && stream.result.accepted);
}

TEST_F(ServiceTest, AnAgentLinkWithAThousandStreamsGoesDownWithoutATrace) {
  settings.concurrent_opens_max = settings.opens_per_link_max = 2000;
  settings.pending_opens_max = 4000;
  start();
  std::list<PlainStream> streams;
  for (int i = 0; i < 1000; i++) ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1)));
  pump();
  ASSERT_EQ(service->relays_count(), 1000u);
  agent.pair.cut();
  pump();
  expect_idle();
  for (PlainStream& s : streams) EXPECT_TRUE(s.is_over);
}

TEST_F(ServiceTest, OrphansDoNotOutliveTheirQueries) {
  authorizer.is_slow = true;
  start();
  std::list<PlainStream> streams;
  for (int i = 0; i < 100; i++) ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1)));
  pump();
  client.pair.cut();
  pump();
  EXPECT_EQ(service->flows_count(), 100u);
  EXPECT_EQ(service->executor().running_count(), 100u);
  while (authorizer.settle()) {
  }
  pump();
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(ServiceTest, MayGoWithEverythingInFlight) {
  settings.concurrent_opens_max = 4;
  start();
  std::list<PlainStream> streams;
  const auto open_some = [&](int n) {
    for (int i = 0; i < n; i++) ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1)));
    pump();
  };
  open_some(3);  // relays
  agent.answer = std::nullopt;
  open_some(2);  // opening at the agent
  authorizer.is_slow = true;
  open_some(5);  // authorising and waiting
  EXPECT_EQ(service->relays_count(), 3u);
  EXPECT_EQ(service->executor().running_count(), 4u);
  EXPECT_EQ(service->executor().waiting_count(), 3u);
  service.reset();
  EXPECT_EQ(authorizer.waiting_count(), 0u);
  EXPECT_EQ(timers.count(), 0u);
  pump();
  for (PlainStream& s : streams) EXPECT_TRUE(s.is_over);
  for (auto& target : agent.streams) EXPECT_TRUE(target->is_over);
}

TEST_F(ServiceTest, LoadSpreadsOverTheLinksOfAnAgent) {
  start();
  FakeAgent& second = add_agent();
  second.answer = tmesh_open_accept();
  std::list<PlainStream> streams;
  for (int i = 0; i < 10; i++) open(streams.emplace_back());
  EXPECT_EQ(agent.opens.size(), 5u);
  EXPECT_EQ(second.opens.size(), 5u)
      << "established ones stay, new ones go to the least loaded (LESSONS Z16)";
}

}  // namespace
}  // namespace tmesh::server
