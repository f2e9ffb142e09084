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

struct OpenFlowTest : test::OneClientTest {};

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

TEST_F(OpenFlowTest, WhatIsKnownIsNotAskedFor) {
  start();
  FakeAgent& agent = add_agent();
  authorizer.is_known = true;
  PlainStream stream;
  open(stream);
  EXPECT_EQ(agent.opens.size(), 1u);
  authorizer.error = TMESH_E_POLICY;
  PlainStream denied;
  open(denied);
  expect_result(denied, TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false);
  EXPECT_EQ(agent.opens.size(), 1u);
  EXPECT_TRUE(authorizer.requests.empty());
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

// Requirement E6: what the health of a link is made of.
TEST_F(OpenFlowTest, OnlyWhatTheLinkIsToBlameForSpeaksAgainstIt) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream accepted, refused, full, broken, slow, silent;
  agent.answer = tmesh_open_accept();
  open(accepted);
  EXPECT_EQ(agent.notes, "+");
  agent.answer = tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true);
  open(refused);
  EXPECT_EQ(agent.notes, "++") << "a dead target is none of its business";
  agent.answer = tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true);
  open(full);
  EXPECT_EQ(agent.notes, "++-");
  agent.answer.reset();
  open(broken);
  agent.last().reset();
  pump();
  EXPECT_EQ(agent.notes, "++--");
  open(slow);
  agent.heard_us = timers.now_us() + 1;
  timers.advance(OpenFlow::kDeadline_us);
  pump();
  EXPECT_EQ(agent.notes, "++--") << "the link was heard of meanwhile";
  agent.heard_us = timers.now_us();
  open(silent);
  timers.advance(OpenFlow::kDeadline_us);
  pump();
  EXPECT_EQ(agent.notes, "++---");
}

TEST_F(OpenFlowTest, ALinkThatIsGoneIsNotBlamed) {
  start();
  FakeAgent& agent = add_agent();
  PlainStream stream;
  open(stream);
  agent.pair.cut();
  pump();
  expect_result(stream, TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
  EXPECT_EQ(agent.notes, "");
}

}  // namespace
}  // namespace tmesh::server
