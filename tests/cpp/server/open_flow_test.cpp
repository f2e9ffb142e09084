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

struct OpenFlowTest : test::PathTest {
  OpenFlowTest() : client(add_client()) {}
  // Opens one stream and lets everything happen.
  void open(PlainStream& stream, bool is_strict = true, const tmesh_open_stream* request = nullptr) {
    const tmesh_open_stream usual = open_request("db.example.com", 5432);
    ASSERT_TRUE(stream.open(client.mux(), request != nullptr ? *request : usual, is_strict));
    pump();
  }
  FakeClient& client;
};

// --- failures ------------------------------------------------------------------------

TEST_F(OpenFlowTest, EveryFailureOfTheAuthorizerHasItsStageAndCode) {
  start();
  FakeAgent& agent = add_agent();
  struct Row {
    tmesh_code code;
    unsigned stage, open_code;
    bool retryable;
  };
  for (const Row& row : {Row{TMESH_E_POLICY, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false},
                         Row{TMESH_E_INVALID, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_INTERNAL_ERROR, false},
                         Row{TMESH_E_LIMIT, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true},
                         Row{TMESH_E_IO, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_INTERNAL_ERROR, true},
                         Row{TMESH_E_TIMEOUT, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_INTERNAL_ERROR, true}}) {
    SCOPED_TRACE(tmesh_code_name(row.code));
    for (const bool is_sync : {false, true}) {
      (is_sync ? authorizer.sync_error : authorizer.error) = row.code;
      PlainStream stream;
      open(stream);
      expect_result(stream, row.stage, row.open_code, row.retryable);
      authorizer.sync_error = authorizer.error = std::nullopt;
    }
  }
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(OpenFlowTest, TheAuthorizerIsAskedForWhatTheClientSent) {
  start();
  PlainStream stream;
  open(stream);
  ASSERT_EQ(authorizer.requests.size(), 1u);
  EXPECT_EQ(authorizer.requests[0].token_id, "token");
  EXPECT_EQ(authorizer.requests[0].agent_id, "home");
  EXPECT_EQ(authorizer.requests[0].protocol, "tcp");
  EXPECT_EQ(authorizer.requests[0].host, "db.example.com");
  EXPECT_EQ(authorizer.requests[0].port, 5432);
}

TEST_F(OpenFlowTest, WithoutALinkTheAgentIsOffline) {
  start();
  PlainStream stream;
  open(stream);
  expect_result(stream, TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
  expect_idle();
}

TEST_F(OpenFlowTest, ADrainingOrFailedLinkIsOffline) {
  start();
  FakeAgent& agent = add_agent();
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_control(agent.mux(), TMESH_FRAME_GOAWAY, nullptr, 0)));
  PlainStream stream;
  open(stream);
  expect_result(stream, TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(OpenFlowTest, AFullAgentLinkIsQueueFull) {
  start();
  add_agent("home", 1);
  PlainStream first;
  PlainStream second;
  open(first);
  open(second);
  expect_result(second, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  EXPECT_EQ(service->slots().agents_count(), 1u) << "the refused one holds no slot";
}

TEST_F(OpenFlowTest, AProtocolThatHasNoNameOnTheWireIsUnsupported) {
  start();
  FakeAgent& agent = add_agent();
  // What a client's JSON may say and this program cannot: sent as raw bytes.
  const std::string json = R"({"agent_id":"home","protocol":"icmp-echo","target_host":"a","target_port":1})";
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_OPEN_STREAM;
  header.flags = TMESH_FLAG_STRICT_OPEN;
  header.stream_id = 1;
  header.length_bytes = static_cast<uint32_t>(json.size());
  tmesh_mux* server = &client.pair.acceptor.mux;
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_header(server, &header)));
  ASSERT_TRUE(tmesh_is_ok(
      tmesh_mux_frame_payload(server, reinterpret_cast<const uint8_t*>(json.data()), json.size())));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_frame_end(server)));
  pump();
  const auto results = client.pair.acceptor.sent_of(TMESH_FRAME_OPEN_RESULT);
  ASSERT_EQ(results.size(), 1u);
  EXPECT_EQ(
      results[0].payload,
      R"({"accepted":false,"stage":"protocol","code":"unsupported_capability","retryable":false,"retry_after_ms":0})");
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(OpenFlowTest, AnAgentsRefusalTravelsUnchanged) {
  start();
  FakeAgent& agent = add_agent();
  tmesh_open_result refusal = tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, true);
  refusal.retry_after_ms = 1234;
  agent.answer = refusal;
  PlainStream stream;
  open(stream);
  expect_result(stream, TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, true);
  EXPECT_EQ(stream.result.retry_after_ms, 1234u);
  expect_idle();
}

// The result lies in a stream that is freed when the mux has enough for reuse.
TEST_F(OpenFlowTest, AnAgentsRefusalSurvivesItsStream) {
  settings.concurrent_opens_max = settings.opens_per_link_max = 1024;
  start();
  FakeAgent& agent = add_agent();
  std::list<PlainStream> streams;
  for (int i = 0; i < 400; i++) ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1)));
  pump();
  ASSERT_EQ(agent.opens.size(), 400u);
  for (auto& target : agent.streams) {
    target->answer(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  }
  pump();
  for (PlainStream& s : streams) expect_result(s, TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false);
  expect_idle();
}

TEST_F(OpenFlowTest, AnAgentLinkThatDiesWhileOpeningIsOffline) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  ASSERT_EQ(agent.opens.size(), 1u);
  agent.pair.cut();
  pump();
  expect_result(stream, TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
  expect_idle();
}

TEST_F(OpenFlowTest, AnAgentThatResetsInsteadOfAnsweringIsAnInternalErrorOfTheRelay) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  agent.last().reset();
  pump();
  expect_result(stream, TMESH_STAGE_RELAY, TMESH_OPEN_INTERNAL_ERROR, true);
  expect_idle();
}

TEST_F(OpenFlowTest, AnAcceptThatIsResetInTheSameTurnIsNoSuccess) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  agent.last().accept();
  agent.last().reset();
  pump();
  ASSERT_TRUE(stream.has_result || stream.is_over);
  EXPECT_FALSE(stream.has_result && stream.result.accepted && !stream.is_over);
  expect_idle();
}

// --- capability ------------------------------------------------------------------------

TEST_F(OpenFlowTest, ACapabilityGapContactsNoAgentAndIsCounted) {
  start();
  FakeAgent& agent = add_agent();
  agent.caps = 0;
  agent.mux()->config.has_open_result = false;
  PlainStream strict;
  open(strict);
  expect_result(strict, TMESH_STAGE_RELAY, TMESH_OPEN_UNSUPPORTED_CAPABILITY, true);
  EXPECT_TRUE(agent.opens.empty());
  EXPECT_EQ(service->stats().capability_gap_count, 1u);
  expect_idle();
  PlainStream legacy;
  open(legacy, false);
  EXPECT_EQ(agent.opens.size(), 1u) << "the client's second attempt without STRICT_OPEN";
  EXPECT_FALSE(legacy.is_over);
  EXPECT_EQ(service->stats().capability_gap_count, 1u);
}

TEST_F(OpenFlowTest, AStrictOpenTakesALinkThatCanAnswer) {
  start();
  FakeAgent& old = add_agent();
  old.caps = 0;
  old.mux()->config.has_open_result = false;
  FakeAgent& strict = add_agent();
  strict.answer = tmesh_open_accept();
  PlainStream streams[3];
  for (PlainStream& s : streams) open(s);
  EXPECT_EQ(strict.opens.size(), 3u);
  EXPECT_TRUE(old.opens.empty());
  EXPECT_EQ(service->stats().capability_gap_count, 0u);
}

// --- what reaches the agent -------------------------------------------------------------

TEST_F(OpenFlowTest, TheAgentDialsTheNormalisedTarget) {
  start();
  FakeAgent& agent = add_agent();
  authorizer.host = "db.example.com";
  const auto request = open_request("DB.Example.COM.", 5432);
  PlainStream stream;
  open(stream, true, &request);
  ASSERT_EQ(agent.opens.size(), 1u);
  EXPECT_STREQ(agent.opens[0].target_host, "db.example.com");
  EXPECT_EQ(agent.opens[0].target_port, 5432);
  EXPECT_STREQ(agent.opens[0].agent_id, "home");
}

TEST_F(OpenFlowTest, WhatServersTellEachOtherIsNotPassedOnFromAClient) {
  start();
  FakeAgent& agent = add_agent();
  auto request = open_request("a", 1);
  request.has_relay = true;
  std::strcpy(request.relay.token_id, "stok_of_somebody_else");
  std::strcpy(request.relay.ingress_node_id, "node");
  PlainStream stream;
  open(stream, true, &request);
  ASSERT_EQ(agent.opens.size(), 1u);
  EXPECT_FALSE(agent.opens[0].has_relay);
  for (const auto& frame : agent.pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM)) {
    EXPECT_EQ(frame.payload.find("stok_"), std::string::npos);
  }
}

TEST_F(OpenFlowTest, AHostThatDoesNotFitIsRefused) {
  start();
  FakeAgent& agent = add_agent();
  authorizer.host = std::string(TMESH_HOST_MAX_BYTES + 1, 'a');
  PlainStream stream;
  open(stream);
  expect_result(stream, TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR, false);
  EXPECT_TRUE(agent.opens.empty());
  expect_idle();
}

TEST_F(OpenFlowTest, TheWindowTowardsTheAgentIsOursOrNone) {
  start();
  FakeAgent& with = add_agent("with");
  with.mux()->config.initial_window_bytes = 1u << 20;
  FakeAgent& without = add_agent("without");
  without.mux()->config.has_flow_control = false;
  PlainStream a;
  PlainStream b;
  const auto to_with = open_request("a", 1, "with");
  const auto to_without = open_request("a", 1, "without");
  open(a, true, &to_with);
  open(b, true, &to_without);
  EXPECT_EQ(with.pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM).at(0).header.window_bytes, 1u << 20);
  EXPECT_EQ(without.pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM).at(0).header.window_bytes, 0u);
}

// --- the client goes ---------------------------------------------------------------------

TEST_F(OpenFlowTest, AClientThatResetsWhileWaitingLeavesTheQueue) {
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

TEST_F(OpenFlowTest, AClientThatResetsWhileAuthorisingKeepsItsSlotUntilTheQueryEnded) {
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

TEST_F(OpenFlowTest, AClientThatResetsWhileOpeningAtTheAgentResetsThere) {
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

TEST_F(OpenFlowTest, AClientThatResetsBeforeTheOpenWasPulledLeavesNoTraceAtTheAgent) {
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

TEST_F(OpenFlowTest, DataWhileOpeningStrictResetsTheStreamAtBothEnds) {
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

TEST_F(OpenFlowTest, TheDeadlineHoldsWhileWaiting) {
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

TEST_F(OpenFlowTest, TheDeadlineHoldsWhileAuthorisingAndTheSlotStaysTaken) {
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

TEST_F(OpenFlowTest, TheDeadlineHoldsWhileOpeningAtTheAgent) {
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

TEST_F(OpenFlowTest, AnOpenStreamHasNoDeadline) {
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

TEST_F(OpenFlowTest, TheRelayIsThereBeforeTheClientIsAnswered) {
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

TEST_F(OpenFlowTest, AnAnswerThatCrossesTheClientsResetLeavesNothing) {
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

TEST_F(OpenFlowTest, DataOfALegacyClientWaitsForTheAgentAndKeepsItsOrder) {
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

TEST_F(OpenFlowTest, ALegacyOpenIsPassedOnWithoutTheFlag) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream, false);
  const auto opens = agent.pair.opener.sent_of(TMESH_FRAME_OPEN_STREAM);
  ASSERT_EQ(opens.size(), 1u);
  EXPECT_EQ(opens[0].header.flags & TMESH_FLAG_STRICT_OPEN, 0);
}

TEST_F(OpenFlowTest, ALegacyOpenThatFailsGetsAResetAndNoResult) {
  start();
  PlainStream stream;
  open(stream, false);
  EXPECT_TRUE(stream.is_over);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_OPEN_RESULT), 0u);
  EXPECT_EQ(client.pair.acceptor.count_of(TMESH_FRAME_RESET, stream.id), 1u);
  expect_idle();
}

TEST_F(OpenFlowTest, ALegacyClientThatSendsTooMuchTooEarlyIsReset) {
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

// --- bounds ------------------------------------------------------------------------------

TEST_F(OpenFlowTest, AFullQueueAnswersQueueFullAtOnce) {
  settings.concurrent_opens_max = 1;
  settings.pending_opens_max = 4;
  authorizer.is_slow = true;
  start();
  std::list<PlainStream> streams;
  for (int i = 0; i < 10; i++) open(streams.emplace_back());
  std::size_t refused = 0;
  for (PlainStream& s : streams) {
    if (!s.has_result) continue;
    expect_result(s, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
    refused++;
  }
  EXPECT_EQ(refused, 7u) << "one runs, half of four wait";
}

TEST_F(OpenFlowTest, CeilingsOfTokenAndAgentAnswerQueueFullAndRecover) {
  settings.active_per_token_max = 2;
  start();
  FakeAgent& agent = add_agent();
  agent.answer = tmesh_open_accept();
  PlainStream a;
  PlainStream b;
  PlainStream c;
  for (PlainStream* s : {&a, &b, &c}) open(*s);
  expect_result(c, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  EXPECT_EQ(agent.opens.size(), 2u) << "a refused open makes no dial (LESSONS R21)";
  a.reset();
  pump();
  PlainStream d;
  open(d);
  EXPECT_TRUE(d.has_result && d.result.accepted);
}

TEST_F(OpenFlowTest, RapidResetStaysWithinTheLimitsAndLeavesOthersAlone) {
  start();
  FakeAgent& agent = add_agent();
  FakeClient& other = add_client("other");
  for (const bool is_strict : {true, false}) {
    SCOPED_TRACE(is_strict);
    const std::size_t opens_before = agent.opens.size();
    for (int i = 0; i < 2000; i++) {
      PlainStream stream;
      open(stream, is_strict);  // reaches the agent
      if (!stream.is_over) stream.reset();
      pump();
      ASSERT_LE(service->executor().running_count(), settings.opens_per_link_max);
    }
    EXPECT_LE(agent.opens.size() - opens_before, 2u * CancelGuard::kCancelsMax);
    PlainStream unrelated;
    ASSERT_TRUE(unrelated.open(other.mux(), open_request("b", 2)));
    pump();
    agent.last().accept();
    pump();
    EXPECT_TRUE(unrelated.has_result && unrelated.result.accepted);
    unrelated.reset();
    pump();
    agent.streams.clear();
    timers.advance(11'000'000);
  }
  PlainStream again;
  open(again);
  agent.last().accept();
  pump();
  EXPECT_TRUE(again.has_result && again.result.accepted) << "the link may open again after the window";
}

TEST_F(OpenFlowTest, RapidResetInOneBatchRunsNothingForWhatIsGone) {
  start();
  FakeAgent& agent = add_agent();
  client.pair.is_held[0] = false;
  std::list<PlainStream> streams;
  for (int i = 0; i < 2000; i++) {
    ASSERT_TRUE(streams.emplace_back().open(client.mux(), open_request("a", 1)));
    client.pair.step();
    streams.back().reset();
    client.pair.step();
    ASSERT_LE(service->flows_count(), settings.pending_opens_max + settings.concurrent_opens_max);
  }
  pump();
  EXPECT_EQ(agent.opens.size(), 0u);
  expect_idle();
}

}  // namespace
}  // namespace tmesh::server
