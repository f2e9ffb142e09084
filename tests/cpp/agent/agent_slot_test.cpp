#include "cpp/agent/agent_slot.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/cpp/agent/agent_fixture.hpp"
#include "tests/cpp/session/captured_log.hpp"

namespace tmesh::agent {
namespace {

using test::CapturedLog;

constexpr const char* kAck =
    R"({"agent_id":"home","epoch":1,"revision":1,"accepted":true,"capabilities":["stream_open_result.v1"]})";

struct AgentSlotTest : AgentTest {
  ~AgentSlotTest() override { slot.reset(); }
  void make() {
    prepare();
    slot.emplace(loop(), timers, dialer, *identity, *shared, policy, 1);
  }
  void start() {
    make();
    slot->start();
    up(0);
  }
  // A server that writes its frames by hand; streams 1 to count are being dialled.
  void start_with_streams(uint32_t count, uint32_t window_bytes) {
    make();
    slot->start();
    timers.advance(0);
    ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
    Peer& peer = server.peer(0);
    peer.reply(peer.switching(""));
    for (uint32_t id = 1; id <= count; id++) {
      peer.reply(test::raw_frame(TMESH_FRAME_OPEN_STREAM,
                                 R"({"protocol":"tcp","target_host":"a","target_port":80})", id,
                                 window_bytes));
    }
    ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == count; }));
  }
  // The slot has noticed that its link is over and waits for the next attempt.
  void settle_down() {
    ASSERT_TRUE(run_until([&] { return timers.count() > 0; }));
  }

  std::optional<AgentSlot> slot;
};

TEST_F(AgentSlotTest, TheHelloSaysWhoItIsAndWhatItCan) {
  ::setenv("TMESH_TEST_SITE", "lab", 1);
  config.metadata = {{"site", config::MetadataItem::Kind::env, "", "TMESH_TEST_SITE"},
                     {"gone", config::MetadataItem::Kind::file, "/nonexistent/file", ""}};
  start();
  std::string hello = server.peer(0).controls[0].second;
  const std::string id = text_of(hello, "connection_id");
  EXPECT_EQ(id.size(), 32u);
  hello.replace(hello.find(id), id.size(), "X");
  EXPECT_EQ(
      hello,
      R"({"agent_id":"home","instance_id":"agent-1","connection_id":"X","node_id":"home","epoch":1,"revision":1,)"
      R"("reported_at":"1970-01-01T00:00:00Z","items":[{"name":"site","source":"env","value":"lab"}],)"
      R"("errors":[{"name":"gone","code":"collection_error","message":"cannot be read"}],)"
      R"("capabilities":["stream_open_result.v1","stream_flow_control.v1","stream_fair_writer.v1",)"
      R"("stream_early_data.v1","stream_window_growth.v1","tcp","udp","http"]})");
  EXPECT_EQ(server.peer(0).header("Authorization"), "Bearer secret-token-of-the-agent");
  EXPECT_EQ(server.peer(0).header("Sec-WebSocket-Protocol"), "") << "agents offer none (WIRE 2)";
}

TEST_F(AgentSlotTest, WhatIsSwitchedOffIsNotAnnounced) {
  // The two extensions are on, but mean nothing without what they extend.
  config.capabilities = {false, false, false, true, true};
  start();
  EXPECT_NE(server.peer(0).controls[0].second.find(R"("capabilities":["tcp","udp","http"])"),
            std::string::npos);
}

TEST_F(AgentSlotTest, EveryLinkHasAFreshConnectionIdAndEpochOne) {
  start();
  const std::string first = server.peer(0).controls[0].second;
  server.peer(0).link.close();
  settle_down();
  const std::string second = up(1).controls[0].second;
  EXPECT_NE(text_of(first, "connection_id"), text_of(second, "connection_id"));
  EXPECT_NE(second.find(R"("epoch":1,"revision":2)"), std::string::npos);
}

TEST_F(AgentSlotTest, ARejectedAckKeepsTheLink) {
  start();
  Peer& peer = server.peer(0);
  peer.control(TMESH_FRAME_AGENT_METADATA_ACK,
               R"({"agent_id":"home","epoch":1,"revision":1,"accepted":false,)"
               R"("errors":[{"name":"epoch","code":"stale_epoch","message":""}]})");
  peer.control(TMESH_FRAME_AGENT_METADATA_ACK, "nonsense");
  peer.control(TMESH_FRAME_CLIENT_METADATA_ACK, "{}");
  settle(peer);
  EXPECT_FALSE(peer.down);
  auto stream = open(peer, "db");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
}

std::string ack_with(const std::string& capabilities, const std::string& more = "") {
  return R"({"agent_id":"home","epoch":1,"revision":1,"accepted":true,)" + more + R"("capabilities":[)" +
         capabilities + "]}";
}

// Decision 0011: deployed servers echo what they were told.
TEST_F(AgentSlotTest, AnEchoOfItsOwnListIsNoProofOfOurServer) {
  config.limits.max_window_bytes = 1'000'000;
  start();
  Peer& peer = server.peer(0);
  auto before = open(peer, "a");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  const std::string hello = peer.controls[0].second;
  const std::size_t at = hello.find("\"capabilities\":[") + 16;
  peer.control(TMESH_FRAME_AGENT_METADATA_ACK, ack_with(hello.substr(at, hello.find(']', at) - at)));
  settle(peer);
  const tmesh_mux_config& mux = slot->current_mux()->config;
  EXPECT_FALSE(mux.has_early_data);
  EXPECT_FALSE(mux.has_window_growth) << "a server that queues 262,144 bytes would reset the stream";
  EXPECT_FALSE(mux.peer_is_ours);
  EXPECT_TRUE(mux.has_open_result);
}

TEST_F(AgentSlotTest, ExtensionsBeginWithTheAcknowledgementOfOurServer) {
  config.limits.max_window_bytes = 1'000'000;
  start();
  Peer& peer = server.peer(0);
  settle(peer);
  const tmesh_mux_config& mux = slot->current_mux()->config;
  EXPECT_FALSE(mux.has_early_data);
  EXPECT_FALSE(mux.has_window_growth) << "never before the acknowledgement was read";
  EXPECT_FALSE(mux.peer_is_ours);
  EXPECT_EQ(mux.coalesce_us, TMESH_COALESCE_US) << "a deployed server holds 16 frames (LESSONS Z3)";
  peer.control(TMESH_FRAME_AGENT_METADATA_ACK,
               ack_with(R"("stream_open_result.v1","stream_flow_control.v1","stream_fair_writer.v1",)"
                        R"("stream_early_data.v1","stream_window_growth.v1")"));
  settle(peer);
  EXPECT_EQ(mux.coalesce_us, 0u) << "ours does not";
  EXPECT_TRUE(mux.has_early_data);
  EXPECT_TRUE(mux.has_window_growth);
  EXPECT_TRUE(mux.peer_is_ours);
  EXPECT_EQ(mux.window_max_bytes, 1'000'000u);
  ASSERT_TRUE(run_until([&] { return slot->current_mux()->rounds.rtt_us != 0; })) << "measured at once";
  EXPECT_NE(slot->load().rtt_us, 0u) << "the pool is judged by it, too";
}

TEST_F(AgentSlotTest, AListWithoutOurExtensionsIsNoProofEither) {
  // A deployed server with a list of its own.
  start();
  server.peer(0).control(
      TMESH_FRAME_AGENT_METADATA_ACK,
      ack_with(R"("stream_open_result.v1","stream_flow_control.v1","stream_fair_writer.v1")"));
  settle(server.peer(0));
  EXPECT_FALSE(slot->current_mux()->config.peer_is_ours);
  EXPECT_EQ(slot->current_mux()->config.coalesce_us, TMESH_COALESCE_US);
}

TEST_F(AgentSlotTest, AnExtensionThatIsSwitchedOffIsNotUsedWhateverTheServerSays) {
  config.capabilities.early_data = false;
  config.capabilities.flow_control = false;  // and with it the growth
  start();
  EXPECT_EQ(server.peer(0).controls[0].second.find("stream_window_growth"), std::string::npos);
  server.peer(0).control(TMESH_FRAME_AGENT_METADATA_ACK,
                         ack_with(R"("stream_early_data.v1","stream_window_growth.v1")"));
  settle(server.peer(0));
  EXPECT_FALSE(slot->current_mux()->config.has_early_data);
  EXPECT_FALSE(slot->current_mux()->config.has_window_growth);
}

TEST_F(AgentSlotTest, ARefusedHelloSwitchesNothingOn) {
  start();
  server.peer(0).control(TMESH_FRAME_AGENT_METADATA_ACK,
                         R"({"agent_id":"home","epoch":1,"revision":1,"accepted":false,)"
                         R"("capabilities":["stream_early_data.v1","stream_window_growth.v1"]})");
  settle(server.peer(0));
  EXPECT_FALSE(slot->current_mux()->config.has_window_growth);
}

// LESSONS R25.
TEST_F(AgentSlotTest, ALowerCeilingOfTheServerIsWarnedOfOncePerValue) {
  config.connections.max_count = 8;
  CapturedLog log;
  start();
  for (const char* ceiling : {"64", "8", "4", "4", "2", "4", "0"}) {
    server.peer(0).control(TMESH_FRAME_AGENT_METADATA_ACK,
                           ack_with("", std::string(R"("max_connections_per_agent":)") + ceiling + ","));
    settle(server.peer(0));
  }
  EXPECT_EQ(log.count("connections_limited"), 2u);
  EXPECT_EQ(log.count("connections_limited server_max=4 wanted=8"), 1u);
  EXPECT_EQ(log.count("connections_limited server_max=2 wanted=8"), 1u);
}

TEST_F(AgentSlotTest, AStrictOpenThatCrossesTheAckIsAnswered) {
  start();
  auto stream = open(server.peer(0), "db");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  dialer.targets.end("db", FakeDialer::failed(TMESH_E_REFUSED));
  ASSERT_TRUE(run_until([&] { return stream->stream->state == TMESH_STREAM_RESET; }));
  EXPECT_EQ(stream->stream->result.code, TMESH_OPEN_CONNECTION_REFUSED);
  server.peer(0).control(TMESH_FRAME_AGENT_METADATA_ACK, kAck);
  settle(server.peer(0));
}

TEST_F(AgentSlotTest, TheWindowOfAnOpenDecidesWhateverWasAnnounced) {
  config.capabilities.flow_control = false;
  start();
  Peer& peer = server.peer(0);
  auto stream = open(peer, "db");
  stream->credits = false;
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  Target target;
  dialer.targets.end("db", target.dialled());
  std::size_t sent = 0;
  const std::string block(16384, 'x');
  ASSERT_TRUE(run_until([&] {
    if (sent < 400'000) sent += target.far->send(block);
    return stream->received.size() == TMESH_WINDOW_INITIAL_BYTES;
  }));
  settle(peer);
  EXPECT_EQ(stream->received.size(), TMESH_WINDOW_INITIAL_BYTES);
  EXPECT_FALSE(stream->over) << "the agent respects a window it did not ask for (requirement E3)";
}

TEST_F(AgentSlotTest, StreamsOfADeadSessionAreGone) {
  start();
  Peer& peer = server.peer(0);
  auto a = open(peer, "a");
  auto b = open(peer, "b");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 2; }));
  EXPECT_EQ(slot->streams_count(), 2u);
  a->release();
  b->release();
  peer.link.close();
  ASSERT_TRUE(run_until([&] { return slot->streams_count() == 0; }));
  EXPECT_EQ(dialer.targets.cancelled_count(), 2u);
  Peer& next = up(1);
  auto c = open(next, "c");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  EXPECT_EQ(slot->streams_count(), 1u);
}

TEST_F(AgentSlotTest, LiveStreamsAreLimited) {
  config.streams.active_max = 2;
  start();
  Peer& peer = server.peer(0);
  auto a = open(peer, "a");
  auto b = open(peer, "b");
  auto c = open(peer, "c");
  ASSERT_TRUE(run_until([&] { return c->stream->state == TMESH_STREAM_RESET; }));
  EXPECT_EQ(c->stream->result.stage, TMESH_STAGE_QUEUE);
  EXPECT_EQ(c->stream->result.code, TMESH_OPEN_QUEUE_FULL);
  EXPECT_EQ(dialer.targets.started().size(), 2u) << "a refused open makes no dial (LESSONS R21)";
}

// LESSONS R21: of the agent, whatever link they come over.
TEST_F(AgentSlotTest, LiveStreamsAreLimitedOverAllLinks) {
  config.streams.active_max = 2;
  start();
  AgentSlot other(loop(), timers, dialer, *identity, *shared, policy, 2);
  other.start();
  Peer& first = server.peer(0);
  Peer& second = up(1);
  auto a = open(first, "a");
  auto b = open(second, "b");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 2; }));
  auto c = open(first, "c");
  auto d = open(second, "d");
  for (auto* refused : {&c, &d}) {
    ASSERT_TRUE(run_until([&] { return (*refused)->stream->state == TMESH_STREAM_RESET; }));
    EXPECT_EQ((*refused)->stream->result.stage, TMESH_STAGE_QUEUE);
    EXPECT_EQ((*refused)->stream->result.code, TMESH_OPEN_QUEUE_FULL);
  }
  EXPECT_EQ(dialer.targets.started().size(), 2u);
  EXPECT_EQ(shared->ceiling.count(), 2u);
}

// LESSONS R27: one place per stream, whichever way it ends.
TEST_F(AgentSlotTest, EveryEndOfAStreamGivesItsPlaceBackOnce) {
  config.streams.active_max = 3;
  start();
  Peer& peer = server.peer(0);
  for (int round = 0; round < 20; round++) {
    auto reset = open(peer, "reset");
    auto refused = open(peer, "refused");
    auto flows = open(peer, "flows");
    ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 3; }));
    EXPECT_EQ(shared->ceiling.count(), 3u);
    auto full = open(peer, "full");
    ASSERT_TRUE(run_until([&] { return full->stream->state == TMESH_STREAM_RESET; }));
    EXPECT_EQ(shared->ceiling.count(), 3u) << "what had no place gives none back";
    reset->release();
    dialer.targets.end("refused", FakeDialer::failed(TMESH_E_REFUSED));
    Target target;
    dialer.targets.end("flows", target.dialled());
    ASSERT_TRUE(run_until([&] { return shared->ceiling.count() == 1; }));
    target.far->finish();
    flows->finish();
    ASSERT_TRUE(run_until([&] { return shared->ceiling.count() == 0; })) << round;
  }
  auto last = open(peer, "last");
  ASSERT_TRUE(run_until([&] { return shared->ceiling.count() == 1; }));
  last->release();
  peer.link.close();
  ASSERT_TRUE(run_until([&] { return shared->ceiling.count() == 0; })) << "the end of the link is one too";
}

TEST_F(AgentSlotTest, WithoutAConfiguredLimitThereIsNone) {
  config.streams.active_max = 0;
  start();
  std::vector<std::unique_ptr<PeerStream>> streams;
  for (int i = 0; i < 150; i++) streams.push_back(open(server.peer(0), "x"));
  ASSERT_TRUE(run_until([&] { return shared->ceiling.count() == 150; }));
}

TEST_F(AgentSlotTest, ConfiguredWindowViolationsEndTheLink) {
  config.limits.window_violations_count = 2;
  start_with_streams(3, TMESH_WINDOW_INITIAL_BYTES);
  Peer& peer = server.peer(0);
  peer.reply(test::raw_window_update_of_zero(1));
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 2; }));
  EXPECT_NE(slot->current_mux(), nullptr);
  peer.reply(test::raw_window_update_of_zero(2));
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().empty() && slot->current_mux() == nullptr; }));
}

// LESSONS R13, agent.streams.inbound_buffer_bytes: what a stream without windows may have waiting.
TEST_F(AgentSlotTest, TheConfiguredInboundBufferBoundsALegacyStream) {
  config.streams.inbound_buffer_bytes = 65'536;
  start_with_streams(2, 0);
  Peer& peer = server.peer(0);
  const std::string block(32'768, 'x');
  const std::string full =
      test::raw_frame(TMESH_FRAME_DATA, block, 1) + test::raw_frame(TMESH_FRAME_DATA, block, 1);
  peer.reply(full + test::raw_frame(TMESH_FRAME_DATA, block, 2));
  const tmesh_mux& mux = *slot->current_mux();
  ASSERT_TRUE(run_until([&] { return mux.stats.data_bytes_in == 3 * block.size(); }));
  EXPECT_EQ(dialer.targets.running().size(), 2u);
  peer.reply(test::raw_frame(TMESH_FRAME_DATA, "x", 1));
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; })) << "that stream only";
}

TEST_F(AgentSlotTest, ALostLinkDoesNotCutWhatItsServerHadFinished) {
  start();
  Peer& peer = server.peer(0);
  auto stream = open(peer, "slow");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  Target target;
  dialer.targets.end("slow", target.dialled());
  ASSERT_TRUE(run_until([&] { return stream->stream->state == TMESH_STREAM_OPEN; }));
  // The target answers and ends its side, but does not read what the server sends.
  target.far->send("bye");
  target.far->finish();
  const std::string upload(200'000, 'u');
  stream->send(upload);
  stream->finish();
  ASSERT_TRUE(run_until([&] { return tmesh_stream_is_done(stream->stream) && stream->received == "bye"; }));
  settle(peer);
  stream->release();
  peer.link.close();
  settle_down();
  up(1);
  EXPECT_EQ(slot->streams_count(), 1u);
  ASSERT_TRUE(run_until([&] { return target.far->pump().is_eof || target.far->is_reset; }));
  EXPECT_FALSE(target.far->is_reset);
  EXPECT_EQ(target.far->received.size(), upload.size());
  ASSERT_TRUE(run_until([&] { return slot->streams_count() == 0; }));
}

TEST_F(AgentSlotTest, MayGoWithStreamsInEveryState) {
  config.streams.concurrent_dials_max = 2;
  start();
  Peer& peer = server.peer(0);
  auto a = open(peer, "a");
  auto b = open(peer, "b");
  auto c = open(peer, "c");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 2; }));
  Target target;
  dialer.targets.end("a", target.dialled());
  ASSERT_TRUE(run_until([&] { return a->stream->state == TMESH_STREAM_OPEN; }));
  slot.reset();
  EXPECT_EQ(dialer.targets.running().size(), 0u);
  ASSERT_TRUE(run_until([&] { return a->over && b->over && c->over; }));
}

TEST_F(AgentSlotTest, ADrainKeepsStreamsAndDoesNotReconnect) {
  start();
  Peer& peer = server.peer(0);
  auto a = open(peer, "a");
  ASSERT_TRUE(run_until([&] { return dialer.targets.running().size() == 1; }));
  slot->drain();
  settle(peer);
  EXPECT_EQ(slot->streams_count(), 1u);
  a->release();
  peer.link.close();
  ASSERT_TRUE(run_until([&] { return slot->streams_count() == 0; }));
  timers.advance(60'000'000);
  EXPECT_EQ(dialer.server.count, 1u);
}

}  // namespace
}  // namespace tmesh::agent
