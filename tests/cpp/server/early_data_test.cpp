// Early data (WIRE E): what a client sends behind its OPEN_STREAM, from its link to the
// agent's. C7 without the capability is in open_flow_life_test.cpp.
#include <algorithm>
#include <functional>
#include <random>

#include "cpp/server/open_flow.hpp"
#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::expect_result;
using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct EarlyDataTest : test::PathTest {
  EarlyDataTest() : client(add_client()), agent(add_agent()) {
    name_early_data(client.pair);
    name_early_data(agent.pair);
    authorizer.is_slow = true;
  }
  static void name_early_data(test::MuxPair& pair, bool is_on = true) {
    pair.opener.mux.config.has_early_data = pair.acceptor.mux.config.has_early_data = is_on;
  }
  void open(PlainStream& stream, std::string_view early) {
    ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
    stream.write(early);
    pump();
  }
  void authorize() {
    ASSERT_TRUE(authorizer.settle());
    pump();
  }
  // The server's end of a client's stream.
  tmesh_stream* at_server(const PlainStream& stream) {
    return static_cast<tmesh_stream*>(tmesh_idmap_get(&client.pair.acceptor.mux.streams, stream.id));
  }
  uint64_t credited() const {
    uint64_t sum = 0;
    for (const auto& f : client.pair.acceptor.sent_of(TMESH_FRAME_WINDOW_UPDATE))
      sum += f.header.window_bytes;
    return sum;
  }
  FakeClient& client;
  FakeAgent& agent;
  const std::string most = std::string(TMESH_EARLY_DATA_MAX_BYTES, 'e');
};

TEST_F(EarlyDataTest, ItWaitsInTheClientsStreamUntilTheAgentsIsOpened) {
  start();
  PlainStream stream;
  open(stream, "hello");
  ASSERT_NE(at_server(stream), nullptr);
  EXPECT_EQ(at_server(stream)->in.len_bytes, 5u);
  EXPECT_TRUE(agent.opens.empty());
  authorize();
  ASSERT_EQ(agent.opens.size(), 1u);
  EXPECT_EQ(at_server(stream)->in.len_bytes, 0u);
  EXPECT_FALSE(stream.has_result);
}

TEST_F(EarlyDataTest, ItGoesOnWhileTheAgentDials) {
  start();
  PlainStream stream;
  open(stream, "first ");
  authorize();
  EXPECT_EQ(agent.last().received, "first ");
  stream.write("second");
  pump();
  EXPECT_EQ(agent.last().received, "first second");
  EXPECT_FALSE(stream.has_result) << "nothing of that is an answer";
  std::vector<unsigned> types;
  types.reserve(agent.pair.opener.sent.size());
  for (const auto& f : agent.pair.opener.sent) types.push_back(f.header.type);
  EXPECT_EQ(types, (std::vector<unsigned>{TMESH_FRAME_OPEN_STREAM, TMESH_FRAME_DATA, TMESH_FRAME_DATA}));
  agent.last().accept();
  agent.last().write("answer");
  pump();
  EXPECT_TRUE(stream.has_result && stream.result.accepted);
  EXPECT_EQ(stream.received, "answer");
  stream.write(" third");
  stream.finish();
  pump();
  EXPECT_EQ(agent.last().received, "first second third");
  EXPECT_TRUE(agent.last().is_eof);
}

TEST_F(EarlyDataTest, AsMuchAsAllowedGoesOnAndNotAByteMore) {
  start();
  PlainStream stream;
  open(stream, most);
  authorize();
  EXPECT_EQ(agent.last().received, most);
  EXPECT_EQ(tmesh_stream_write(stream.stream, "x", 1), 0u);
  agent.last().accept();
  pump();
  EXPECT_EQ(tmesh_stream_write(stream.stream, "x", 1), 1u);
  pump();
  EXPECT_EQ(agent.last().received.size(), most.size() + 1);
}

TEST_F(EarlyDataTest, WithoutTheCapabilityAtTheAgentItIsHeldUntilTheAnswer) {
  name_early_data(agent.pair, false);
  start();
  PlainStream stream;
  open(stream, most);
  authorize();
  ASSERT_EQ(agent.opens.size(), 1u);
  EXPECT_EQ(agent.pair.opener.count_of(TMESH_FRAME_DATA), 0u);
  EXPECT_EQ(at_server(stream)->in.len_bytes, most.size());
  EXPECT_EQ(at_server(stream)->recv.consumed_bytes, 0u) << "held bytes are not credited";
  agent.last().accept();
  pump();
  EXPECT_EQ(agent.last().received, most);
  EXPECT_TRUE(stream.has_result && stream.result.accepted);
  EXPECT_EQ(agent.pair.opener.mux.stats.protocol_resets_count, 0u);
}

TEST_F(EarlyDataTest, CreditReturnsOnlyForWhatWasWrittenToTheAgentsLink) {
  start();
  PlainStream stream;
  open(stream, most);
  agent.pair.is_held[0] = true;
  authorize();
  EXPECT_EQ(at_server(stream)->in.len_bytes, 0u) << "it is in the agent's queue";
  EXPECT_EQ(at_server(stream)->recv.consumed_bytes, 0u) << "and not written";
  agent.pair.is_held[0] = false;
  pump();
  EXPECT_EQ(at_server(stream)->recv.consumed_bytes, most.size());
}

// The WRITTEN of early data and the answer come in one event; neither may be lost.
TEST_F(EarlyDataTest, AnAnswerAtOnceLosesNoCredit) {
  agent.answer = tmesh_open_accept();
  start();
  PlainStream stream;
  open(stream, most);
  authorize();
  ASSERT_TRUE(stream.has_result && stream.result.accepted);
  EXPECT_EQ(at_server(stream)->recv.consumed_bytes, most.size());
  const std::string rest(TMESH_WINDOW_THRESHOLD_BYTES - most.size(), 'r');
  stream.write(rest);
  pump();
  EXPECT_EQ(agent.last().received, most + rest);
  EXPECT_EQ(credited(), uint64_t{TMESH_WINDOW_THRESHOLD_BYTES});
}

TEST_F(EarlyDataTest, ARefusalDropsIt) {
  for (const bool is_forwarded : {true, false}) {
    SCOPED_TRACE(is_forwarded);
    name_early_data(agent.pair, is_forwarded);
    if (!service) start();
    PlainStream stream;
    open(stream, most);
    authorize();
    agent.last().takes = false;
    agent.last().answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
    pump();
    expect_result(stream, TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false);
    expect_idle();
    EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET, stream.id), 0u) << "the answer is the end";
  }
}

TEST_F(EarlyDataTest, ARefusalByTheAuthorizerDropsIt) {
  authorizer.error = TMESH_E_POLICY;
  start();
  PlainStream stream;
  open(stream, most);
  authorize();
  expect_result(stream, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false);
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(EarlyDataTest, AByteTooManyResetsThatStreamOnly) {
  start();
  PlainStream stream;
  PlainStream other;
  open(other, "fine");
  open(stream, most);
  authorize();
  authorize();
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_DATA;
  header.stream_id = stream.id;
  header.length_bytes = 1;
  tmesh_mux* server = &client.pair.acceptor.mux;
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(server, &header)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_payload(server, reinterpret_cast<const uint8_t*>("x"), 1)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(server)));
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_TRUE(agent.last().is_over);
  EXPECT_FALSE(other.is_over);
  agent.streams.front()->accept();
  pump();
  EXPECT_TRUE(other.has_result && other.result.accepted);
}

// Every step at which the open may be taken back, by everybody who can.
TEST_F(EarlyDataTest, AnEndAtEveryStepLeavesNothing) {
  start();
  enum Step { waiting, authorising, dialling, held, open_already };
  const std::pair<const char*, std::function<void(PlainStream&)>> ends[] = {
      {"client resets", [](PlainStream& s) { s.reset(); }},
      {"agent resets",
       [this](PlainStream&) {
         if (!agent.streams.empty() && !agent.last().is_over) agent.last().reset();
       }},
      {"deadline", [this](PlainStream&) { timers.advance(OpenFlow::kDeadline_us); }},
  };
  for (const Step step : {waiting, authorising, dialling, held, open_already}) {
    for (const auto& [name, end] : ends) {
      SCOPED_TRACE(std::string(name) + " at step " + std::to_string(step));
      PlainStream stream;
      ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
      stream.write(most);
      if (step == waiting) {
        client.pair.step();
        client.pair.step();
      } else {
        pump();
      }
      if (step == held) agent.pair.is_held[0] = true;
      if (step >= dialling) authorize();
      if (step == open_already) {
        agent.last().accept();
        pump();
      }
      end(stream);
      pump();
      agent.pair.is_held[0] = false;
      while (authorizer.settle()) {
      }
      pump();
      if (!stream.is_over && !stream.has_result) stream.reset();
      stream.release();
      pump();
      timers.advance(OpenFlow::kDeadline_us);
      pump();
      expect_idle();
      EXPECT_EQ(pool.pool.live_count, 0u);
      agent.streams.clear();
    }
  }
}

TEST_F(EarlyDataTest, ALinkThatBreaksAtEveryStepLeavesNothing) {
  start();
  for (const bool is_agents : {true, false}) {
    for (int step = 0; step < 4; step++) {
      SCOPED_TRACE(std::string(is_agents ? "agent" : "client") + " at step " + std::to_string(step));
      FakeClient& from = add_client("t");
      FakeAgent& to = add_agent(("a" + std::to_string(agents.size())).c_str());
      name_early_data(from.pair);
      name_early_data(to.pair);
      PlainStream stream;
      ASSERT_TRUE(stream.open(from.mux(), open_request("a", 1, to.agent_id)));
      stream.write(most);
      pump();
      if (step >= 1) to.pair.is_held[0] = step == 1;
      if (step >= 1) authorize();
      if (step >= 3) to.last().accept();
      if (step >= 3) pump();
      (is_agents ? to.pair : from.pair).cut();
      pump();
      while (authorizer.settle()) {
      }
      pump();
      EXPECT_TRUE(stream.is_over || (stream.has_result && !stream.result.accepted));
      stream.release();
      to.streams.clear();
      pump();
      expect_idle();
      EXPECT_EQ(pool.pool.live_count, 0u);
    }
  }
}

TEST_F(EarlyDataTest, ALegacyOpenIsAsBefore) {
  start();
  PlainStream stream;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1), false));
  stream.write(std::string(100'000, 'l'));
  stream.finish();
  pump();
  authorize();
  EXPECT_EQ(agent.last().received.size(), 100'000u);
  EXPECT_TRUE(agent.last().is_eof);
}

// Random opens with early data: what was accepted arrives whole and in order, whatever
// happened to the others.
TEST_F(EarlyDataTest, WhatWasAcceptedArrivesWhole) {
  for (uint32_t seed = 1; seed <= 20; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](uint32_t n) { return random() % n; };
    if (!service) start();
    timers.advance(11'000'000);  // cancels of the last round are forgotten
    std::list<PlainStream> streams;
    std::vector<std::string> sent;
    const std::size_t first = agent.opens.size();
    for (uint16_t i = 0; i < 20; i++) {
      name_early_data(agent.pair, below(2) == 0);
      PlainStream& s = streams.emplace_back();
      ASSERT_TRUE(s.open(client.mux(), open_request("a", static_cast<uint16_t>(i + 1))));
      sent.emplace_back(below(TMESH_EARLY_DATA_MAX_BYTES + 1), static_cast<char>('a' + i));
      s.write(sent.back());
      if (below(2) == 0) pump();
      while (below(3) == 0 && authorizer.settle()) {
      }
    }
    pump();
    while (authorizer.settle()) {
    }
    pump();
    for (std::size_t at = first; at < agent.opens.size(); at++) {
      PlainStream& target = **std::next(agent.streams.begin(), static_cast<std::ptrdiff_t>(at));
      const auto end = below(4);
      if (end == 0) target.answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true));
      if (end == 1) target.reset();
      if (end >= 2) target.accept();
      if (below(3) == 0) pump();
    }
    pump();
    std::size_t i = 0;
    for (PlainStream& s : streams) {
      std::string& data = sent[i++];
      ASSERT_TRUE(s.has_result || s.is_over);
      if (!s.has_result || !s.result.accepted || s.is_over) continue;
      s.write("more");
      data += "more";
      s.finish();
      pump();
      bool is_found = false;
      for (std::size_t at = first; at < agent.opens.size(); at++) {
        if (agent.opens[at].target_port != i) continue;
        is_found = true;
        PlainStream& target = **std::next(agent.streams.begin(), static_cast<std::ptrdiff_t>(at));
        EXPECT_EQ(target.received, data);
        EXPECT_TRUE(target.is_eof);
        target.finish();
      }
      EXPECT_TRUE(is_found);
    }
    pump();
    streams.clear();
    pump();
    expect_idle();
  }
}

}  // namespace
}  // namespace tmesh::server
