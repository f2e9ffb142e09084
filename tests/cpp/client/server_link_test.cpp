#include "tests/cpp/client/server_link_fixture.hpp"

namespace tmesh::client {
namespace {

// Requirement E5, limits.window_violations.
TEST_F(ServerLinkTest, ConfiguredWindowViolationsEndTheLink) {
  config.limits.window_violations_count = 2;
  config.limits.window_violations_interval_us = 60'000'000;
  start();
  auto& peer = server.last();
  peer.reply(peer.switching(tmesh_subprotocol_name(TMESH_SUBPROTOCOL_FLOW_CONTROL)));
  ASSERT_TRUE(run_until([&] { return refusal("") != TMESH_E_CLOSED; }));
  tmesh_mux* const mux = open().stream->mux;
  open();
  peer.reply(test::raw_window_update_of_zero(1));
  ASSERT_TRUE(run_until([&] { return mux->stats.window_violations_count == 1; }));
  EXPECT_EQ(refusal(), TMESH_OK) << "one broken stream is no broken peer";
  peer.reply(test::raw_window_update_of_zero(2));
  ASSERT_TRUE(run_until([&] { return peer.is_eof || peer.down.has_value(); }));
}

// LESSONS R13, client.stream.inbound_buffer_bytes: what a stream without windows may have waiting.
TEST_F(ServerLinkTest, TheConfiguredInboundBufferBoundsALegacyStream) {
  config.inbound_buffer_bytes = 65'536;
  start();
  auto& peer = server.last();
  peer.reply(peer.switching(""));
  ASSERT_TRUE(run_until([&] { return refusal("") != TMESH_E_CLOSED; }));
  unsigned seen = 0;
  tmesh_stream* const stream = link->open(request_for("target", 443), false)->stream;
  tmesh_stream_attach(
      stream, &seen, [](void* to, tmesh_stream*, unsigned events) { *static_cast<unsigned*>(to) |= events; });
  const std::string block(32'768, 'x');
  peer.reply(test::raw_frame(TMESH_FRAME_DATA, block, 1) + test::raw_frame(TMESH_FRAME_DATA, block, 1));
  ASSERT_TRUE(run_until([&] { return stream->in.len_bytes == 65'536; }));
  EXPECT_EQ(seen & TMESH_STREAM_EV_OVER, 0u);
  peer.reply(test::raw_frame(TMESH_FRAME_DATA, "x", 1));
  ASSERT_TRUE(run_until([&] { return (seen & TMESH_STREAM_EV_OVER) != 0; }));
  EXPECT_EQ(refusal(), TMESH_OK) << "that stream only";
  tmesh_stream_release(stream);
}

// LESSONS P-E1: the peer's kernel takes everything, and nobody answers.
TEST_F(ServerLinkTest, AnOpenNobodyAnswersOnASilentLinkIsAskedAbout) {
  identity.life = {0, 0, 0, 20'000, 0, 100'000};
  start();
  auto& peer = server.last();
  peer.reply(peer.switching(tmesh_subprotocol_name(TMESH_SUBPROTOCOL_FLOW_CONTROL)));
  ASSERT_TRUE(run_until([&] { return refusal("") != TMESH_E_CLOSED; }));
  ASSERT_FALSE(run_until([&] { return refusal("") == TMESH_E_CLOSED; }, 200'000)) << "silence alone is none";
  open();
  ASSERT_TRUE(run_until([&] { return refusal("") == TMESH_E_CLOSED; }));
  ASSERT_TRUE(run_until([&] { return server.has_request(1); })) << "a fresh link is on its way";
  up(TMESH_SUBPROTOCOL_METADATA, 1);
  EXPECT_TRUE(open().is_strict);
}

TEST_F(ServerLinkTest, ATimedOutOpenIsAskedAbout) {
  up_from_start();
  const OpenedStream opened = open();
  link->open_timed_out(*opened.stream);
  ASSERT_TRUE(run_until([&] { return !server.last().streams.empty(); }));
  EXPECT_EQ(refusal(), TMESH_OK) << "the link answers the probe";
}

TEST_F(ServerLinkTest, WhatAnOpenSays) {
  up_from_start();
  EXPECT_TRUE(open().is_strict);
  EXPECT_FALSE(open(false).is_strict);
  auto& peer = server.last();
  ASSERT_TRUE(run_until([&] { return peer.streams.size() == 2; }));
  const PeerStream& strict = peer.streams.front();
  EXPECT_STREQ(strict.open.agent_id, "home");
  EXPECT_STREQ(strict.open.target_host, "target");
  EXPECT_EQ(strict.open.target_port, 443);
  EXPECT_EQ(strict.open.protocol, TMESH_OPEN_TCP);
  EXPECT_TRUE(strict.stream->is_strict);
  EXPECT_EQ(strict.stream->send.credit_bytes, TMESH_WINDOW_INITIAL_BYTES);
  EXPECT_FALSE(peer.streams.back().stream->is_strict);
}

// Requirement B4: what the sub-protocol allows is what an open asks for.
TEST_F(ServerLinkTest, ModesFollowTheSubprotocol) {
  struct Row {
    tmesh_subprotocol subprotocol;
    bool is_strict, has_window;
  };
  for (const Row& row :
       {Row{TMESH_SUBPROTOCOL_FLOW_CONTROL, true, true}, Row{TMESH_SUBPROTOCOL_OPEN_RESULT, true, false},
        Row{TMESH_SUBPROTOCOL_V1, false, false}, Row{TMESH_SUBPROTOCOL_NONE, false, false}}) {
    link.reset();
    server.peers.clear();
    up_from_start(row.subprotocol);
    const OpenedStream opened = open();
    EXPECT_EQ(opened.is_strict, row.is_strict);
    EXPECT_EQ(opened.stream->is_strict, row.is_strict);
    EXPECT_EQ(opened.stream->recv.is_limited, row.has_window);
  }
}

TEST_F(ServerLinkTest, ConfiguredCapabilitiesLimitTheOffer) {
  config.capabilities.flow_control = false;
  start();
  EXPECT_EQ(offer(), "tunnelmesh.v1.open-result, tunnelmesh.v1");
  config.capabilities.open_result = false;
  link.reset();
  server.peers.clear();
  start();
  EXPECT_EQ(offer(), "tunnelmesh.v1");
}

TEST_F(ServerLinkTest, WithoutASessionItIsClosed) {
  link.emplace(loop(), dialer, identity, "home", 1);
  EXPECT_EQ(refusal(), TMESH_E_CLOSED);
  up_from_start();
  server.last().link = {};
  ASSERT_TRUE(run_until([&] { return refusal() == TMESH_E_CLOSED; }));
}

TEST_F(ServerLinkTest, AfterDrainItIsClosed) {
  up_from_start();
  const OpenedStream opened = open();
  link->drain();
  EXPECT_EQ(refusal(), TMESH_E_CLOSED);
  ASSERT_TRUE(run_until([&] { return !server.last().streams.empty(); }));
  server.last().streams.back().answer(tmesh_open_accept());
  ASSERT_TRUE(run_until([&] { return opened.stream->state == TMESH_STREAM_OPEN; }));
}

TEST_F(ServerLinkTest, NamesThatDoNotFitAreInvalid) {
  up_from_start();
  EXPECT_EQ(refusal(std::string(256, 'a')), TMESH_E_INVALID);
  EXPECT_EQ(refusal(""), TMESH_E_INVALID);
  EXPECT_EQ(refusal("target", 0), TMESH_E_INVALID);
  EXPECT_EQ(refusal(std::string(255, 'a')), TMESH_OK);
  link.emplace(loop(), dialer, identity, std::string(256, 'x'), 1);
  link->start();
  up(TMESH_SUBPROTOCOL_V1, 1);
  EXPECT_EQ(refusal(), TMESH_E_INVALID);
}

TEST_F(ServerLinkTest, RotatesBefore60000IdsWhileTheOldLinkGoesOn) {
  up_from_start();
  const OpenedStream first = open();
  first.stream->mux->next_id = 49'999;
  open();
  EXPECT_FALSE(run_until([&] { return dialer.count > 1; }, 10'000));
  EXPECT_EQ(open().stream->id, 50'000u);
  const OpenedStream beyond = open();
  EXPECT_EQ(beyond.stream->mux, first.stream->mux) << "until the successor is there";
  ASSERT_TRUE(run_until([&] { return server.has_request(1); }));
  server.peer(1).upgrade(TMESH_SUBPROTOCOL_METADATA);
  ASSERT_TRUE(run_until([&] { return !server.peer(1).controls.empty(); }));
  const OpenedStream fresh = open();
  EXPECT_NE(fresh.stream->mux, first.stream->mux);
  EXPECT_EQ(fresh.stream->id, 1u);
  tmesh_client_metadata hello{};
  const std::string& text = server.peer(1).controls[0].second;
  ASSERT_TRUE(tmesh_is_ok(tmesh_client_metadata_decode(&hello, text.data(), text.size())));
  EXPECT_EQ(hello.revision, 2u) << "strictly increasing";
  tmesh_client_metadata_free(&hello);
  EXPECT_FALSE(server.peer(0).down.has_value());
}

TEST_F(ServerLinkTest, IdsBeyondWhatAServerTakesAreNotUsed) {
  // A deployed server would end the link, and every stream on it.
  up_from_start();
  tmesh_mux* const mux = open().stream->mux;
  mux->next_id = TMESH_OPENS_PER_LINK_MAX;
  EXPECT_EQ(open().stream->id, TMESH_OPENS_PER_LINK_MAX);
  EXPECT_EQ(refusal(), TMESH_E_LIMIT);
}

TEST_F(ServerLinkTest, DestroyingItEndsItsStreams) {
  up_from_start();
  open();
  ASSERT_TRUE(run_until([&] { return !server.last().streams.empty(); }));
  link.reset();
  ASSERT_TRUE(run_until([&] { return server.last().down.has_value(); }));
}

}  // namespace
}  // namespace tmesh::client
