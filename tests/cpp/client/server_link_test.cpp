#include "cpp/client/server_link.hpp"

#include <gtest/gtest.h>

#include <optional>

#include "core/proto/metadata.h"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::client {
namespace {

using test::FakeServer;
using test::PeerStream;

class ServerLinkTest : public net::LoopTest {
 protected:
  ServerLinkTest() : server(loop()), dialer(loop(), server.port()) {
    identity.endpoint.url = {false, "localhost", server.port(), "/ws/client"};
    identity.endpoint.token = &token;
    identity.instance_id = "client-0123456789abcdef0123456789abcdef";
    identity.started_at_us = 1'700'000'000'000'000;
  }
  void start() {
    link.emplace(loop(), dialer, identity, "home", 3);
    link->start();
    ASSERT_TRUE(run_until([&] { return server.has_request(0); }));
  }
  // The n-th request is answered; the link takes streams then.
  void up(tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA, std::size_t n = 0) {
    ASSERT_TRUE(run_until([&] { return server.has_request(n); }));
    server.peer(n).upgrade(subprotocol);
    ASSERT_TRUE(run_until([&] { return refusal("") != TMESH_E_CLOSED; }));
  }
  void up_from_start(tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA) {
    start();
    up(subprotocol);
  }
  static OpenRequest request_for(std::string_view host, uint16_t port) {
    OpenRequest out;
    out.host = host;
    out.port = port;
    return out;
  }
  // Why an open is refused; OK when it is not (and then it is given up again).
  static tmesh_code refusal(ServerLink& of, std::string_view host, uint16_t port = 80) {
    auto opened = of.open(request_for(host, port), true);
    if (!opened) return opened.error().code;
    tmesh_stream_release(opened->stream);
    return TMESH_OK;
  }
  tmesh_code refusal(std::string_view host = "target", uint16_t port = 80) {
    return refusal(*link, host, port);
  }
  OpenedStream open(bool allow_strict = true) {
    auto opened = link->open(request_for("target", 443), allow_strict);
    EXPECT_TRUE(opened.has_value());
    tmesh_stream_attach(opened->stream, nullptr, [](void*, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) != 0) tmesh_stream_release(s);
    });
    return *opened;
  }
  std::string offer() { return server.last().header("Sec-WebSocket-Protocol"); }
  static std::string encode(const tmesh_client_metadata_ack& ack) {
    std::string out(TMESH_METADATA_MAX_BYTES, '\0');
    std::size_t len = 0;
    EXPECT_TRUE(tmesh_is_ok(tmesh_client_metadata_ack_encode(&ack, out.data(), out.size(), &len)));
    out.resize(len);
    return out;
  }

  FakeServer server;
  test::LoopbackDialer dialer;
  Secret token{"t"};
  config::ClientConfig config;
  ClientIdentity identity{config, {}, {}, 0};
  std::optional<ServerLink> link;
};

TEST_F(ServerLinkTest, TheHelloIsTheFirstFrameOnAMetadataLink) {
  start();
  server.last().on_stream = [&](PeerStream&) {
    EXPECT_EQ(server.last().controls.size(), 1u) << "before any open";
  };
  up();
  open();
  auto& peer = server.last();
  ASSERT_TRUE(run_until([&] { return !peer.streams.empty(); }));
  ASSERT_EQ(peer.controls.size(), 1u);
  EXPECT_EQ(peer.controls[0].first, TMESH_FRAME_CLIENT_HELLO);
  tmesh_client_metadata hello{};
  ASSERT_TRUE(tmesh_is_ok(
      tmesh_client_metadata_decode(&hello, peer.controls[0].second.data(), peer.controls[0].second.size())));
  EXPECT_EQ(std::string(hello.instance_id), identity.instance_id);
  EXPECT_EQ(hello.connection_slot, 3u);
  EXPECT_EQ(hello.revision, 1u);
  EXPECT_EQ(hello.process_start_at.unix_s, 1'700'000'000);
  ASSERT_EQ(hello.agent_id_count, 1u);
  EXPECT_STREQ(hello.agent_ids[0], "home");
  EXPECT_EQ(hello.capabilities, TMESH_CAP_OPEN_RESULT | TMESH_CAP_FLOW_CONTROL | TMESH_CAP_FAIR_WRITER |
                                    TMESH_CAP_EARLY_DATA | TMESH_CAP_WINDOW_GROWTH);
  tmesh_client_metadata_free(&hello);
}

TEST_F(ServerLinkTest, TheHelloCarriesTheConfiguredItems) {
  ::setenv("TMESH_TEST_ITEM", "lab 7", 1);
  config.metadata = {{"site", config::MetadataItem::Kind::env, "", "TMESH_TEST_ITEM"},
                     {"gone", config::MetadataItem::Kind::file, "/nonexistent/file", ""}};
  up_from_start();
  auto& peer = server.last();
  ASSERT_TRUE(run_until([&] { return peer.controls.size() == 1; }));
  tmesh_client_metadata hello{};
  const std::string& text = peer.controls[0].second;
  ASSERT_TRUE(tmesh_is_ok(tmesh_client_metadata_decode(&hello, text.data(), text.size())));
  ASSERT_EQ(hello.item_count, 1u);
  EXPECT_STREQ(hello.items[0].name, "site");
  EXPECT_STREQ(hello.items[0].value, "lab 7");
  ASSERT_EQ(hello.error_count, 1u);
  EXPECT_STREQ(hello.errors[0].name, "gone");
  tmesh_client_metadata_free(&hello);
}

TEST_F(ServerLinkTest, ItemsThatDoNotFitTheHelloAreLeftOut) {
  ::setenv("TMESH_TEST_ITEM", std::string(4096, 'x').c_str(), 1);
  for (int i = 0; i < 16; i++) {
    config.metadata.push_back(
        {"item" + std::to_string(i), config::MetadataItem::Kind::env, "", "TMESH_TEST_ITEM"});
  }
  up_from_start();
  ASSERT_TRUE(run_until([&] { return server.last().controls.size() == 1; }));
  tmesh_client_metadata hello{};
  const std::string& text = server.last().controls[0].second;
  ASSERT_TRUE(tmesh_is_ok(tmesh_client_metadata_decode(&hello, text.data(), text.size())));
  EXPECT_EQ(hello.item_count, 0u);
  EXPECT_EQ(hello.agent_id_count, 1u);
  tmesh_client_metadata_free(&hello);
}

TEST_F(ServerLinkTest, OtherLinksGetNoHello) {
  for (const auto subprotocol : {TMESH_SUBPROTOCOL_FLOW_CONTROL, TMESH_SUBPROTOCOL_OPEN_RESULT,
                                 TMESH_SUBPROTOCOL_V1, TMESH_SUBPROTOCOL_NONE}) {
    link.reset();
    server.peers.clear();
    up_from_start(subprotocol);
    open();
    ASSERT_TRUE(run_until([&] { return !server.last().streams.empty(); }));
    EXPECT_TRUE(server.last().controls.empty()) << tmesh_subprotocol_name(subprotocol);
  }
}

TEST_F(ServerLinkTest, AnAckOfAnyKindNeverEndsTheLink) {
  up_from_start();
  tmesh_client_metadata_ack yes{};
  yes.is_accepted = true;
  yes.client_instance_id = identity.instance_id.c_str();
  tmesh_client_metadata_ack no{};
  no.error_count = 1;
  no.errors[0] = {"client_metadata", "invalid_payload", "a text"};
  for (const std::string& payload :
       {encode(yes), encode(no), std::string("{}"), std::string("{"), std::string(), std::string("null"),
        std::string(32'768, '['), std::string("\0\xFF", 2),
        std::string("{\"accepted\":\"yes\",\"revision\":-1}")}) {
    server.last().control(TMESH_FRAME_CLIENT_METADATA_ACK, payload);
  }
  server.last().control(TMESH_FRAME_AGENT_METADATA_ACK, "{}");  // no meaning for a client
  server.last().control(TMESH_FRAME_TRACE_START, "{}");
  server.last().control(TMESH_FRAME_PING, "after");
  ASSERT_TRUE(run_until([&] { return !server.last().pongs.empty(); }));
  EXPECT_FALSE(server.last().down.has_value());
  EXPECT_EQ(refusal(), TMESH_OK);
}

// WIRE E: an extension is used between our own ends, and only once that is proven.
TEST_F(ServerLinkTest, ExtensionsBeginWithTheAcknowledgementOfOurServer) {
  config.limits.max_window_bytes = 1'000'000;
  up_from_start();
  tmesh_mux* const mux = open().stream->mux;
  ASSERT_TRUE(run_until([&] { return server.last().controls.size() == 1; }));
  EXPECT_FALSE(mux->config.has_early_data);
  EXPECT_FALSE(mux->config.has_window_growth) << "never before the acknowledgement was read";
  EXPECT_FALSE(mux->config.peer_is_ours);
  tmesh_client_metadata_ack ack{};
  ack.is_accepted = true;
  ack.capabilities = ~0u;
  server.last().control(TMESH_FRAME_CLIENT_METADATA_ACK, encode(ack));
  ASSERT_TRUE(run_until([&] { return mux->config.peer_is_ours; }));
  EXPECT_TRUE(mux->config.has_early_data);
  EXPECT_TRUE(mux->config.has_window_growth);
  EXPECT_EQ(mux->config.window_max_bytes, 1'000'000u);
  ASSERT_TRUE(run_until([&] { return mux->rounds.rtt_us != 0; })) << "the path is measured at once";
}

TEST_F(ServerLinkTest, AnAcknowledgementOfADeployedServerSwitchesNothingOn) {
  up_from_start();
  tmesh_mux* const mux = open().stream->mux;
  server.last().control(TMESH_FRAME_CLIENT_METADATA_ACK,
                        R"({"client_instance_id":"c","instance_id":"s","connection_id":"x","revision":1,)"
                        R"("accepted":true})");
  server.last().control(TMESH_FRAME_PING, "after");
  ASSERT_TRUE(run_until([&] { return !server.last().pongs.empty(); }));
  EXPECT_FALSE(mux->config.has_early_data);
  EXPECT_FALSE(mux->config.has_window_growth);
  EXPECT_FALSE(mux->config.peer_is_ours);
}

TEST_F(ServerLinkTest, ARefusedHelloSwitchesNothingOn) {
  up_from_start();
  tmesh_mux* const mux = open().stream->mux;
  tmesh_client_metadata_ack no{};
  no.capabilities = ~0u;
  no.error_count = 1;
  no.errors[0] = {"client_metadata", "invalid_payload", ""};
  server.last().control(TMESH_FRAME_CLIENT_METADATA_ACK, encode(no));
  server.last().control(TMESH_FRAME_PING, "after");
  ASSERT_TRUE(run_until([&] { return !server.last().pongs.empty(); }));
  EXPECT_FALSE(mux->config.has_window_growth);
}

TEST_F(ServerLinkTest, OnlyWhatBothNamedIsUsed) {
  struct Row {
    bool early, growth;
    uint32_t acked;
    bool has_early, has_growth;
  };
  for (const Row& row : {Row{true, true, TMESH_CAP_EARLY_DATA, true, false},
                         Row{true, true, TMESH_CAP_WINDOW_GROWTH, false, true},
                         Row{true, true, TMESH_CAP_OPEN_RESULT, false, false},
                         Row{false, true, ~0u, false, true}, Row{true, false, ~0u, true, false}}) {
    link.reset();
    server.peers.clear();
    config.capabilities.early_data = row.early;
    config.capabilities.window_growth = row.growth;
    up_from_start();
    tmesh_mux* const mux = open().stream->mux;
    tmesh_client_metadata_ack ack{};
    ack.is_accepted = true;
    ack.capabilities = row.acked;
    server.last().control(TMESH_FRAME_CLIENT_METADATA_ACK, encode(ack));
    ASSERT_TRUE(run_until([&] { return mux->config.peer_is_ours; }));
    EXPECT_EQ(mux->config.has_early_data, row.has_early) << row.acked;
    EXPECT_EQ(mux->config.has_window_growth, row.has_growth) << row.acked;
  }
}

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
