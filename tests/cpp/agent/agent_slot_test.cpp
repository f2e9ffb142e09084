#include "tests/cpp/agent/agent_slot_fixture.hpp"

namespace tmesh::agent {
namespace {

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
