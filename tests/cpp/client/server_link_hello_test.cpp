// The hello of a link, and what the acknowledgement of it switches on.
#include "tests/cpp/client/server_link_fixture.hpp"

namespace tmesh::client {
namespace {

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

}  // namespace
}  // namespace tmesh::client
