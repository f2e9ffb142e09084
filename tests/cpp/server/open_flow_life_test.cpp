// What can happen to an open on its way: cancels, deadlines, success.
#include "cpp/server/open_flow.hpp"

#include <cstring>

#include "tests/cpp/server/path_fixture.hpp"

namespace tmesh::server {
namespace {

using test::expect_result;
using test::FakeAgent;
using test::FakeClient;
using test::open_request;
using test::PlainStream;

struct OpenFlowLifeTest : test::OneClientTest {};

// --- the client goes ---------------------------------------------------------------------

TEST_F(OpenFlowLifeTest, AClientThatResetsWhileWaitingLeavesTheQueue) {
  settings.concurrent_opens_max = 1;
  authorizer.is_slow = true;
  start();
  PlainStream first;
  PlainStream second;
  open(first);
  open(second);
  ASSERT_EQ(service->executor().waiting_count(), 1u);
  second.reset();
  pump();
  EXPECT_EQ(service->executor().waiting_count(), 0u);
  EXPECT_EQ(service->flows_count(), 1u);
  EXPECT_EQ(authorizer.requests.size(), 1u);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET), 0u) << "a RESET is not answered with one";
}

TEST_F(OpenFlowLifeTest, AClientThatResetsWhileAuthorisingKeepsItsSlotUntilTheQueryEnded) {
  settings.concurrent_opens_max = 1;
  authorizer.is_slow = true;
  start();
  FakeAgent& agent = add_agent();
  PlainStream first;
  PlainStream second;
  open(first);
  open(second);
  first.reset();
  pump();
  EXPECT_EQ(service->executor().running_count(), 1u);
  EXPECT_EQ(authorizer.requests.size(), 1u) << "the second still waits";
  EXPECT_EQ(authorizer.cancelled_count, 0u);
  ASSERT_TRUE(authorizer.settle());
  pump();
  EXPECT_EQ(authorizer.requests.size(), 2u);
  EXPECT_TRUE(agent.opens.empty()) << "nobody is contacted for an orphan";
  ASSERT_TRUE(authorizer.settle());
  pump();
  EXPECT_EQ(agent.opens.size(), 1u);
}

TEST_F(OpenFlowLifeTest, AClientThatResetsWhileOpeningAtTheAgentResetsThere) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  stream.reset();
  pump();
  EXPECT_TRUE(agent.last().is_over);
  EXPECT_EQ(agent.last().over.code, TMESH_E_RESET);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET), 0u);
  expect_idle();
}

TEST_F(OpenFlowLifeTest, AClientThatResetsBeforeTheOpenWasPulledLeavesNoTraceAtTheAgent) {
  start();
  FakeAgent& agent = add_agent();
  agent.pair.is_held[0] = true;
  PlainStream stream;
  open(stream);
  stream.reset();
  pump();
  agent.pair.is_held[0] = false;
  pump();
  EXPECT_TRUE(agent.pair.opener.sent.empty());
  expect_idle();
}

TEST_F(OpenFlowLifeTest, DataWhileOpeningStrictResetsTheStreamAtBothEnds) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
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
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  expect_idle();
}

// --- deadlines ---------------------------------------------------------------------------

TEST_F(OpenFlowLifeTest, TheDeadlineHoldsWhileWaiting) {
  settings.concurrent_opens_max = 1;
  authorizer.is_slow = true;
  start();
  PlainStream running;
  open(running);
  timers.advance(1'000'000);
  PlainStream waiting;
  open(waiting);
  timers.advance(OpenFlow::kDeadline_us - 1);
  pump();
  EXPECT_FALSE(waiting.has_result);
  timers.advance(1);
  pump();
  expect_result(waiting, TMESH_STAGE_QUEUE, TMESH_OPEN_TIMEOUT, true);
  EXPECT_EQ(service->executor().waiting_count(), 0u);
}

TEST_F(OpenFlowLifeTest, TheDeadlineHoldsWhileAuthorisingAndTheSlotStaysTaken) {
  settings.concurrent_opens_max = 1;
  authorizer.is_slow = true;
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  timers.advance(OpenFlow::kDeadline_us);
  pump();
  expect_result(stream, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_TIMEOUT, true);
  EXPECT_EQ(service->executor().running_count(), 1u);
  ASSERT_TRUE(authorizer.settle());
  pump();
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(OpenFlowLifeTest, TheDeadlineHoldsWhileOpeningAtTheAgent) {
  authorizer.is_slow = true;
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  timers.advance(5'000'000);  // what the first steps took counts
  ASSERT_TRUE(authorizer.settle());
  pump();
  ASSERT_EQ(agent.opens.size(), 1u);
  timers.advance(OpenFlow::kDeadline_us - 5'000'000);
  pump();
  expect_result(stream, TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true);
  EXPECT_TRUE(agent.last().is_over);
  expect_idle();
}

TEST_F(OpenFlowLifeTest, AnOpenStreamHasNoDeadline) {
  start();
  add_agent().answer = tmesh_open_accept();
  PlainStream stream;
  open(stream);
  timers.advance(3600'000'000ull);
  pump();
  EXPECT_FALSE(stream.is_over);
  EXPECT_EQ(service->relays_count(), 1u);
}

// --- success -----------------------------------------------------------------------------

TEST_F(OpenFlowLifeTest, TheRelayIsThereBeforeTheClientIsAnswered) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  EXPECT_FALSE(stream.has_result) << "nobody fakes an answer";
  agent.last().accept();
  agent.last().write("first");  // right behind the answer
  pump();
  ASSERT_TRUE(stream.has_result && stream.result.accepted);
  EXPECT_EQ(stream.received, "first");
  EXPECT_EQ(service->relays_count(), 1u);
  EXPECT_EQ(service->executor().running_count(), 0u) << "an open stream holds no slot of the executor";
  EXPECT_EQ(service->slots().agents_count(), 1u);
  std::vector<unsigned> types;
  for (const auto& f : client.pair.acceptor.sent) types.push_back(f.header.type);
  EXPECT_EQ(types, (std::vector<unsigned>{TMESH_FRAME_OPEN_RESULT, TMESH_FRAME_DATA}));
}

// A target that answers early and closes hard: what it said is delivered (LESSONS P-B8).
TEST_F(OpenFlowLifeTest, AnAnswerWithBytesAndAResetInOneGoIsDeliveredWhole) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  tmesh_mux* server = agent.mux();
  const auto feed = [&](uint8_t type, std::string_view payload) {
    tmesh_frame_header header{};
    header.type = type;
    header.stream_id = agent.last().id;
    header.length_bytes = static_cast<uint32_t>(payload.size());
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(server, &header)));
    ASSERT_TRUE(tmesh_is_ok(
        tmesh_mux_frame_payload(server, reinterpret_cast<const uint8_t*>(payload.data()), payload.size())));
    ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(server)));
  };
  feed(TMESH_FRAME_OPEN_RESULT,
       R"({"accepted":true,"stage":"connect","code":"ok","retryable":false,"retry_after_ms":0})");
  feed(TMESH_FRAME_DATA, "go away");
  feed(TMESH_FRAME_RESET, "");
  client.pair.is_held[1] = true;  // the RESET is known before the bytes can leave
  pump();
  client.pair.is_held[1] = false;
  pump();
  EXPECT_TRUE(stream.has_result && stream.result.accepted);
  EXPECT_EQ(stream.received, "go away");
  EXPECT_TRUE(stream.is_over);
  agent.streams.clear();
  pump();
  expect_idle();
}

TEST_F(OpenFlowLifeTest, AnAnswerThatCrossesTheClientsResetLeavesNothing) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  agent.last().accept();
  stream.reset();
  pump();
  EXPECT_TRUE(agent.last().is_over);
  expect_idle();
}

TEST_F(OpenFlowLifeTest, DataOfALegacyClientWaitsForTheAgentAndKeepsItsOrder) {
  authorizer.is_slow = true;
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream, false);
  stream.write("one ");
  pump();
  stream.write("two");
  stream.finish();
  pump();
  ASSERT_TRUE(authorizer.settle());
  pump();
  ASSERT_EQ(agent.opens.size(), 1u);
  agent.last().accept();
  pump();
  EXPECT_EQ(agent.last().received, "one two");
  EXPECT_TRUE(agent.last().is_eof);
  agent.last().write("answer");
  agent.last().finish();
  pump();
  EXPECT_EQ(stream.received, "answer");
  EXPECT_TRUE(stream.is_eof);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  expect_idle();
}

TEST_F(OpenFlowLifeTest, ALegacyOpenIsPassedOnWithoutTheFlag) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream, false);
  const auto opens = agent.pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM);
  ASSERT_EQ(opens.size(), 1u);
  EXPECT_EQ(opens[0].header.flags & TMESH_FLAG_STRICT_OPEN, 0);
}

TEST_F(OpenFlowLifeTest, ALegacyOpenThatFailsGetsAResetAndNoResult) {
  start();
  PlainStream stream;
  open(stream, false);
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET, stream.id), 1u);
  expect_idle();
}

TEST_F(OpenFlowLifeTest, ALegacyClientThatSendsTooMuchTooEarlyIsReset) {
  authorizer.is_slow = true;
  start();
  FakeAgent& agent = add_agent();
  client.pair.acceptor.mux.config.has_flow_control = false;
  PlainStream stream;
  const auto request = open_request("a", 1);
  ASSERT_TRUE(stream.open(client.mux(), request, false, 0));
  for (int i = 0; i < 9; i++) {
    stream.write(std::string(32768, 'x'));
    pump();
  }
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(client.pair.acceptor.mux.stats.legacy_backpressure_count, 1u);
  ASSERT_TRUE(authorizer.settle());
  pump();
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

}  // namespace
}  // namespace tmesh::server
