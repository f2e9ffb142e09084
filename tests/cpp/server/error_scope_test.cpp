// Requirement C6, the rows of stream scope: whatever becomes of one stream, both of its
// links stay, and so do the streams beside it. The rows of session scope are in
// link_scope_test.cpp.
#include "cpp/server/open_flow.hpp"
#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::expect_result;
using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct StreamScope : test::PathTest {
  StreamScope() : client(add_client()), agent(add_agent()) {}
  ~StreamScope() override {
    beside.release();
    stream.release();
  }
  // A stream that must not notice anything.
  void SetUp() override {
    start();
    ASSERT_TRUE(beside.open(client.mux(), open_request("beside", 1)));
    pump();
    target_beside = &agent.last();
    target_beside->accept();
    pump();
    ASSERT_TRUE(beside.has_result && beside.result.accepted);
  }
  void TearDown() override {
    for (const tmesh_mux* mux : {&client.pair.opener.mux, &client.pair.acceptor.mux, &agent.pair.opener.mux,
                                 &agent.pair.acceptor.mux}) {
      EXPECT_TRUE(tmesh_is_ok(mux->failed)) << "a link ended for a stream's fault";
      EXPECT_FALSE(mux->is_draining);
    }
    beside.write("question");
    target_beside->write("answer");
    pump();
    EXPECT_EQ(target_beside->received, "question");
    EXPECT_EQ(beside.received, "answer");
    PlainStream next;
    ASSERT_TRUE(next.open(client.mux(), open_request("next", 1)));
    pump();
    agent.last().accept();
    pump();
    EXPECT_TRUE(next.has_result && next.result.accepted);
    EXPECT_EQ(service->relays_count(), 2u) << "the one beside and the next";
  }
  void open(bool is_accepted) {
    ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
    pump();
    ASSERT_NE(&agent.last(), target_beside);
    target = &agent.last();
    if (!is_accepted) return;
    target->accept();
    pump();
    ASSERT_TRUE(stream.has_result && stream.result.accepted);
  }
  void expect_refusal(unsigned stage, unsigned code, bool retryable) {
    open(false);
    target->answer(tmesh_open_refuse(static_cast<tmesh_open_stage>(stage), static_cast<tmesh_open_code>(code),
                                     retryable));
    pump();
    expect_result(stream, stage, code, retryable);
  }
  // One frame as it would come from the peer of this mux.
  void feed(tmesh_mux& mux, uint8_t type, uint32_t id, std::string_view payload, uint32_t window_bytes = 0,
            uint16_t flags = 0) {
    tmesh_frame_header header{};
    header.flags = flags;
    header.type = type;
    header.stream_id = id;
    header.window_bytes = window_bytes;
    header.length_bytes = static_cast<uint32_t>(payload.size());
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(&mux, &header)));
    ASSERT_TRUE(tmesh_is_ok(
        tmesh_mux_frame_payload(&mux, reinterpret_cast<const uint8_t*>(payload.data()), payload.size())));
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(&mux)));
  }
  FakeClient& client;
  FakeAgent& agent;
  PlainStream beside;
  PlainStream stream;
  PlainStream* target_beside = nullptr;
  PlainStream* target = nullptr;
};

TEST_F(StreamScope, Dns) {
  expect_refusal(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false);
}

TEST_F(StreamScope, Dial) {
  expect_refusal(TMESH_STAGE_CONNECT, TMESH_OPEN_NETWORK_UNREACHABLE, true);
}

TEST_F(StreamScope, Refusal) {
  expect_refusal(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false);
}

TEST_F(StreamScope, TargetTimeoutAtTheAgent) {
  expect_refusal(TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true);
}

TEST_F(StreamScope, TargetTimeoutAtTheServer) {
  open(false);
  timers.advance(OpenFlow::kDeadline_us);
  pump();
  expect_result(stream, TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true);
  EXPECT_TRUE(target->is_over) << "the agent is told to stop dialling";
}

TEST_F(StreamScope, PolicyAtTheAgent) {
  expect_refusal(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false);
}

TEST_F(StreamScope, PolicyAtTheServer) {
  authorizer.error = TMESH_E_POLICY;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
  pump();
  authorizer.error = std::nullopt;
  expect_result(stream, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false);
  EXPECT_EQ(agent.opens.size(), 1u) << "no agent is contacted";
}

TEST_F(StreamScope, QueueFullAtTheAgent) {
  expect_refusal(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  EXPECT_EQ(service->stats().capacity_refused_count, 1u);
}

TEST_F(StreamScope, QueueFullOfTheAgentsLink) {
  agent.mux()->config.streams_max = 1;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
  pump();
  agent.mux()->config.streams_max = 4096;
  expect_result(stream, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  EXPECT_EQ(service->stats().capacity_refused_count, 1u);
}

TEST_F(StreamScope, QueueFullOfTheClientsLink) {
  client.pair.acceptor.mux.config.streams_max = 1;
  ASSERT_TRUE(stream.open(client.mux(), open_request("a", 1)));
  pump();
  client.pair.acceptor.mux.config.streams_max = 4096;
  expect_result(stream, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  EXPECT_EQ(client.pair.acceptor.mux.stats.queue_full_count, 1u);
  EXPECT_EQ(authorizer.requests.size(), 1u) << "refused before anybody is asked";
}

// LESSONS R21 and the memory budget: from 90 % on an open costs nothing any more.
TEST_F(StreamScope, QueueFullUnderMemoryPressure) {
  std::vector<tmesh_block*> held;
  while (tmesh_pool_pressure(&pool.pool) < TMESH_PRESSURE_OPENS) held.push_back(tmesh_pool_get(&pool.pool));
  const std::size_t asked = authorizer.requests.size();
  // The other end of the pair has the same pool, unlike a real client: so as bytes.
  const std::string json = R"({"agent_id":"home","protocol":"tcp","target_host":"a","target_port":1})";
  feed(client.pair.acceptor.mux, TMESH_FRAME_OPEN_STREAM, 2, json, TMESH_WINDOW_INITIAL_BYTES,
       TMESH_FLAG_STRICT_OPEN);
  client.pair.opener.mux.next_id = 3;
  pump();
  const auto results = client.pair.acceptor.sent_of(TMESH_FRAME_OPEN_RESULT);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].payload,
            R"({"accepted":false,"stage":"queue","code":"queue_full","retryable":true,"retry_after_ms":0})");
  EXPECT_EQ(authorizer.requests.size(), asked) << "no database query";
  EXPECT_EQ(service->flows_count(), 0u);
  EXPECT_EQ(client.pair.acceptor.mux.stats.queue_full_count, 1u);
  for (tmesh_block* block : held) tmesh_pool_put(&pool.pool, block);
}

TEST_F(StreamScope, WindowViolationOfTheClient) {
  open(true);
  target->takes = false;
  for (int i = 0; i < 20; i++)
    feed(client.pair.acceptor.mux, TMESH_FRAME_DATA, stream.id, std::string(32768, 'x'));
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_TRUE(target->is_over);
  EXPECT_EQ(client.pair.acceptor.mux.stats.window_violations_count, 1u);
}

TEST_F(StreamScope, WindowViolationOfTheAgent) {
  open(true);
  stream.takes = false;
  for (int i = 0; i < 20; i++)
    feed(agent.pair.opener.mux, TMESH_FRAME_DATA, target->id, std::string(32768, 'x'));
  pump();
  EXPECT_TRUE(target->is_over);
  stream.takes = true;
  stream.take();
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(agent.pair.opener.mux.stats.window_violations_count, 1u);
}

TEST_F(StreamScope, AWindowUpdateOfZero) {
  open(true);
  feed(client.pair.acceptor.mux, TMESH_FRAME_WINDOW_UPDATE, stream.id, "", 0);
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_TRUE(target->is_over);
}

TEST_F(StreamScope, DuplicateIdOfALiveStream) {
  open(true);
  const std::string json = R"({"agent_id":"home","protocol":"tcp","target_host":"b","target_port":1})";
  feed(client.pair.acceptor.mux, TMESH_FRAME_OPEN_STREAM, stream.id, json);
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_TRUE(target->is_over);
  EXPECT_EQ(agent.opens.size(), 2u) << "the second open goes nowhere";
}

TEST_F(StreamScope, DuplicateIdOfAStreamThatIsOver) {
  open(true);
  stream.reset();
  pump();
  const std::string json = R"({"agent_id":"home","protocol":"tcp","target_host":"b","target_port":1})";
  feed(client.pair.acceptor.mux, TMESH_FRAME_OPEN_STREAM, stream.id, json);
  pump();
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET, stream.id), 1u);
  EXPECT_EQ(agent.opens.size(), 2u);
}

TEST_F(StreamScope, TargetReadFailure) {
  open(true);
  target->write("half an answer");
  pump();
  target->reset();
  pump();
  EXPECT_EQ(stream.received, "half an answer");
  EXPECT_TRUE(stream.is_over);
}

TEST_F(StreamScope, TargetWriteFailure) {
  open(true);
  stream.write(std::string(100'000, 'u'));
  client.pair.step();
  target->reset();
  pump();
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET, stream.id), 1u);
}

TEST_F(StreamScope, TargetHalfCloseFailure) {
  open(true);
  stream.write("request");
  stream.finish();
  pump();
  ASSERT_TRUE(target->is_eof);
  target->reset();
  pump();
  EXPECT_TRUE(stream.is_over);
}

TEST_F(StreamScope, AnInvalidOpen) {
  feed(client.pair.acceptor.mux, TMESH_FRAME_OPEN_STREAM, 77, R"({"protocol":"tcp"})");
  client.pair.opener.mux.next_id = 78;
  pump();
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET, 77), 1u) << "legacy: it did not say STRICT_OPEN";
}

}  // namespace
}  // namespace tmesh::server
