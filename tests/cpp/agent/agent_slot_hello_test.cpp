// The hello of a link, and what the acknowledgement of it switches on.
#include "tests/cpp/agent/agent_slot_fixture.hpp"
#include "tests/cpp/session/captured_log.hpp"

namespace tmesh::agent {
namespace {

using test::CapturedLog;

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

}  // namespace
}  // namespace tmesh::agent
