#include "cpp/server/client_link.hpp"

#include <cstring>

#include "tests/cpp/server/link_fixture.hpp"

namespace tmesh::server {
namespace {

using test::Peer;

constexpr const char* kHello =
    R"({"instance_id":"client-0001","connection_slot":1,"process_start_at":"0001-01-01T00:00:00Z",)"
    R"("reported_at":"2026-01-02T03:04:05Z","revision":7,)"
    R"("capabilities":["stream_flow_control.v1","stream_fair_writer.v1","stream_early_data.v1"]})";

struct ClientLinkTest : test::ServerLinkTest, ClientLinkOwner {
  void on_client_open(ClientLink& from, tmesh_stream* made, const tmesh_open_stream& open) override {
    EXPECT_EQ(&from, link.get());
    opened.push_back(open.target_host);
    is_strict = made->is_strict;
    opened_stream = made;
    tmesh_stream_attach(made, nullptr, [](void*, tmesh_stream* s, unsigned events) {
      if ((events & TMESH_STREAM_EV_OVER) != 0) tmesh_stream_release(s);
    });
  }
  void on_client_link_down(ClientLink& down, tmesh_status why) override {
    down_code = why.code;
    EXPECT_EQ(&down, link.get());
    downs++;
    link.reset();
  }
  void start(tmesh_subprotocol subprotocol = TMESH_SUBPROTOCOL_METADATA) {
    net::Transport transport = connect(peer);
    Identity identity;
    identity.token_id = "stok_1";
    link = std::make_unique<ClientLink>(loop(), config, std::move(identity), 42, subprotocol, *this);
    ASSERT_TRUE(link->start(std::move(transport), {}));
    peer->become_link(test::mux_config(true), true);
  }
  std::string ask(uint8_t type, const std::string& payload) {
    const std::size_t before = peer->controls.size();
    peer->control(type, payload);
    settle(*peer);
    if (peer->controls.size() == before) return "(nothing)";
    EXPECT_EQ(peer->controls.back().first, TMESH_FRAME_CLIENT_METADATA_ACK);
    return peer->controls.back().second;
  }
  void open(bool is_strict_open) {
    tmesh_open_stream request{};
    std::strcpy(request.target_host, "a");
    request.target_port = 1;
    tmesh_open_params params{&request, is_strict_open, 262144};
    tmesh_status why{};
    stream = tmesh_mux_open(peer->link.mux(), &params, &why);
    ASSERT_NE(stream, nullptr);
    tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream*, unsigned) {});
    settle(*peer);
  }

  config::ServerConfig config;
  Peer* peer = nullptr;
  std::unique_ptr<ClientLink> link;
  std::vector<std::string> opened;
  bool is_strict = false;
  int downs = 0;
  unsigned down_code = TMESH_OK;  // of the last
  const tmesh_mux_config& mux() const { return link->mux()->config; }
  tmesh_stream* stream = nullptr;
  tmesh_stream* opened_stream = nullptr;  // the link's end of it
};

TEST_F(ClientLinkTest, TheHelloIsAcknowledged) {
  start();
  std::string ack = ask(TMESH_FRAME_CLIENT_HELLO, kHello);
  const std::size_t at = ack.find("client_", ack.find("connection_id"));
  ASSERT_NE(at, std::string::npos) << ack;
  EXPECT_EQ(ack.substr(at + 7, 32).find_first_not_of("0123456789abcdef"), std::string::npos);
  ack.replace(at + 7, 32, "X");
  EXPECT_EQ(
      ack,
      R"({"client_instance_id":"client-0001","instance_id":"client-0001","connection_id":"client_X",)"
      R"("revision":7,"accepted":true,"capabilities":["stream_flow_control.v1","stream_fair_writer.v1","stream_early_data.v1"]})");
}

TEST_F(ClientLinkTest, WhatIsSwitchedOffHereIsNotAcknowledged) {
  config.capabilities.flow_control = false;
  start();
  const std::string ack = ask(TMESH_FRAME_CLIENT_HELLO, kHello);
  EXPECT_NE(ack.find(R"("capabilities":["stream_fair_writer.v1","stream_early_data.v1"])"), std::string::npos)
      << ack;
}

// --- extensions (WIRE E) ---------------------------------------------------------------

constexpr const char* kOurHello =
    R"({"instance_id":"client-0001","connection_slot":1,"process_start_at":"0001-01-01T00:00:00Z",)"
    R"("reported_at":"2026-01-02T03:04:05Z","revision":7,"capabilities":["stream_open_result.v1",)"
    R"("stream_flow_control.v1","stream_fair_writer.v1","stream_early_data.v1","stream_window_growth.v1"]})";
// What a deployed V11 client says: no list at all.
constexpr const char* kV11Hello =
    R"({"instance_id":"client-0002","connection_slot":1,"process_start_at":"0001-01-01T00:00:00Z",)"
    R"("reported_at":"2026-01-02T03:04:05Z","revision":7})";

TEST_F(ClientLinkTest, ExtensionsThatBothNamedAreUsedOnceTheAckLeft) {
  config.limits.max_window_bytes = 1u << 22;
  start();
  settle(*peer);
  EXPECT_FALSE(mux().has_early_data || mux().has_window_growth || mux().peer_is_ours) << "before the hello";
  ask(TMESH_FRAME_CLIENT_HELLO, kOurHello);
  EXPECT_TRUE(mux().has_early_data);
  EXPECT_TRUE(mux().has_window_growth);
  EXPECT_TRUE(mux().peer_is_ours);
  EXPECT_EQ(mux().window_max_bytes, 1u << 22);
}

TEST_F(ClientLinkTest, ADeployedClientGetsNothingNew) {
  start();
  const std::string ack = ask(TMESH_FRAME_CLIENT_HELLO, kV11Hello);
  EXPECT_NE(ack.find(R"("accepted":true)"), std::string::npos);
  EXPECT_EQ(ack.find("capabilities"), std::string::npos) << ack;
  EXPECT_FALSE(mux().has_early_data || mux().has_window_growth || mux().peer_is_ours);
  // A list without the names that only ours know is no sign of ours.
  std::string known = kV11Hello;
  known.replace(known.size() - 1, 1, R"(,"capabilities":["stream_open_result.v1"]})");
  start();
  ask(TMESH_FRAME_CLIENT_HELLO, known);
  EXPECT_FALSE(mux().has_early_data || mux().has_window_growth || mux().peer_is_ours);
}

TEST_F(ClientLinkTest, AnExtensionThatIsSwitchedOffHereIsNotUsed) {
  config.capabilities.early_data = false;
  config.capabilities.window_growth = false;
  start();
  const std::string ack = ask(TMESH_FRAME_CLIENT_HELLO, kOurHello);
  EXPECT_EQ(ack.find("early_data"), std::string::npos) << ack;
  EXPECT_EQ(ack.find("window_growth"), std::string::npos) << ack;
  EXPECT_FALSE(mux().has_early_data || mux().has_window_growth);
  EXPECT_TRUE(mux().peer_is_ours);
}

TEST_F(ClientLinkTest, OnlyTheHelloNegotiates) {
  start();
  ask(TMESH_FRAME_CLIENT_METADATA_UPDATE, kOurHello);
  const std::string update = ask(TMESH_FRAME_CLIENT_METADATA_UPDATE, kOurHello);
  EXPECT_NE(update.find(R"("accepted":true)"), std::string::npos);
  EXPECT_EQ(update.find("capabilities"), std::string::npos) << update;
  EXPECT_FALSE(mux().has_early_data || mux().has_window_growth || mux().peer_is_ours);
  ask(TMESH_FRAME_CLIENT_HELLO, kOurHello);
  EXPECT_TRUE(mux().has_early_data && mux().has_window_growth);
  const std::string later = ask(TMESH_FRAME_CLIENT_METADATA_UPDATE, kV11Hello);
  EXPECT_NE(later.find("stream_early_data.v1"), std::string::npos)
      << "an update does not take the negotiated set away: " << later;
  EXPECT_TRUE(mux().has_early_data && mux().has_window_growth);
}

// Windows grow by rate and round-trip time; a deployed client never gets a PING.
TEST_F(ClientLinkTest, TheRoundTripIsMeasuredTowardsOursOnly) {
  start();
  ask(TMESH_FRAME_CLIENT_HELLO, kOurHello);
  ASSERT_TRUE(run_until([&] { return link->mux()->rounds.rtt_us > 0; }));
  start();
  ask(TMESH_FRAME_CLIENT_HELLO, kV11Hello);
  settle(*peer);
  settle(*peer);
  EXPECT_EQ(link->mux()->rounds.rtt_us, 0u);
}

// --- credit (LESSONS Z5) ---------------------------------------------------------------

TEST_F(ClientLinkTest, AClientThatIsNotOursGetsItsCreditPromptly) {
  start(TMESH_SUBPROTOCOL_FLOW_CONTROL);
  EXPECT_EQ(mux().window_threshold_bytes, 32768u) << "an eighth of the window";
  start();
  EXPECT_EQ(mux().window_threshold_bytes, 32768u);
  ask(TMESH_FRAME_CLIENT_HELLO, kV11Hello);
  EXPECT_EQ(mux().window_threshold_bytes, 32768u);
  start();
  ask(TMESH_FRAME_CLIENT_HELLO, kOurHello);
  EXPECT_EQ(mux().window_threshold_bytes, 131072u) << "ours wait for half a window, in fewer frames";
}

TEST_F(ClientLinkTest, ASmallerConfiguredThresholdStays) {
  config.stream.window_update_threshold_bytes = 16384;
  start();
  EXPECT_EQ(mux().window_threshold_bytes, 16384u);
  ask(TMESH_FRAME_CLIENT_HELLO, kOurHello);
  EXPECT_EQ(mux().window_threshold_bytes, 16384u);
}

// A V9 client's upload: after each 32 KiB that went on, their credit comes back.
TEST_F(ClientLinkTest, AV9UploadIsCreditedBeforeHalfAWindowIsOut) {
  start(TMESH_SUBPROTOCOL_FLOW_CONTROL);
  open(true);
  const auto accept = tmesh_open_accept();
  tmesh_stream_answer(opened_stream, &accept);
  settle(*peer);
  const std::string block(32768, 'x');
  ASSERT_EQ(tmesh_stream_write(stream, block.data(), block.size()), block.size());
  settle(*peer);
  ASSERT_EQ(opened_stream->in.len_bytes, 32768u);
  EXPECT_EQ(stream->send.credit_bytes, 262144u - 32768u);
  tmesh_chunkq_clear(&opened_stream->in);
  tmesh_stream_consumed(opened_stream, 32768);
  settle(*peer);
  EXPECT_EQ(stream->send.credit_bytes, 262144u);
  tmesh_stream_release(stream);
  settle(*peer);
}

TEST_F(ClientLinkTest, AnotherFirstFrameIsAnsweredAndTheLinkStays) {
  start();
  const std::string ack = ask(TMESH_FRAME_CLIENT_METADATA_UPDATE, kHello);
  EXPECT_NE(ack.find(R"("accepted":false)"), std::string::npos);
  EXPECT_NE(ack.find(R"("name":"client_hello","code":"invalid_frame")"), std::string::npos) << ack;
  EXPECT_NE(ask(TMESH_FRAME_CLIENT_METADATA_UPDATE, kHello).find(R"("accepted":true)"), std::string::npos);
  EXPECT_EQ(downs, 0);
}

// WIRE 1.6.6: its observability is that of a legacy client; its streams work.
TEST_F(ClientLinkTest, AnOpenAsFirstFrameIsAnsweredOnceAndTheLinkStays) {
  start();
  open(true);
  EXPECT_EQ(opened, std::vector<std::string>{"a"});
  ASSERT_EQ(peer->controls.size(), 1u);
  EXPECT_EQ(peer->controls[0].first, TMESH_FRAME_CLIENT_METADATA_ACK);
  EXPECT_NE(peer->controls[0].second.find(R"("accepted":false)"), std::string::npos);
  EXPECT_NE(peer->controls[0].second.find(R"("name":"client_hello","code":"invalid_frame")"),
            std::string::npos);
  tmesh_stream_release(stream);
  open(true);
  EXPECT_EQ(peer->controls.size(), 1u) << "once";
  tmesh_stream_release(stream);
  settle(*peer);
  EXPECT_EQ(downs, 0);
}

TEST_F(ClientLinkTest, AnOpenAsFirstFrameIsFineWithoutTheMetadataSubProtocol) {
  start(TMESH_SUBPROTOCOL_FLOW_CONTROL);
  open(true);
  EXPECT_TRUE(peer->controls.empty());
  tmesh_stream_release(stream);
  settle(*peer);
}

TEST_F(ClientLinkTest, AnInvalidPayloadIsAnsweredAndTheLinkStays) {
  start();
  EXPECT_NE(ask(TMESH_FRAME_CLIENT_HELLO, "[]").find(R"("name":"client_metadata","code":"invalid_payload")"),
            std::string::npos);
  EXPECT_NE(ask(TMESH_FRAME_CLIENT_HELLO, R"({"revision":1,"reported_at":"2026-01-02T03:04:05Z"})")
                .find(R"("code":"invalid_payload")"),
            std::string::npos);
  EXPECT_EQ(downs, 0);
}

TEST_F(ClientLinkTest, WithoutTheMetadataSubProtocolSuchFramesGetNoAnswer) {
  for (const auto subprotocol :
       {TMESH_SUBPROTOCOL_FLOW_CONTROL, TMESH_SUBPROTOCOL_V1, TMESH_SUBPROTOCOL_NONE}) {
    start(subprotocol);
    EXPECT_EQ(ask(TMESH_FRAME_CLIENT_HELLO, kHello), "(nothing)");
    EXPECT_EQ(ask(TMESH_FRAME_CLIENT_METADATA_UPDATE, kHello), "(nothing)");
    EXPECT_EQ(downs, 0);
  }
}

TEST_F(ClientLinkTest, ControlFramesOfOthersAreIgnored) {
  start();
  ask(TMESH_FRAME_CLIENT_HELLO, kHello);
  for (const uint8_t type : {TMESH_FRAME_AGENT_HELLO, TMESH_FRAME_AGENT_METADATA_ACK, TMESH_FRAME_TRACE_START,
                             TMESH_FRAME_CLIENT_METADATA_ACK}) {
    EXPECT_EQ(ask(type, "{}"), "(nothing)");
  }
  EXPECT_EQ(downs, 0);
}

TEST_F(ClientLinkTest, TheSubProtocolDecidesWhetherAnOpenIsStrict) {
  for (const auto subprotocol :
       {TMESH_SUBPROTOCOL_METADATA, TMESH_SUBPROTOCOL_OPEN_RESULT, TMESH_SUBPROTOCOL_V1}) {
    start(subprotocol);
    open(true);
    ASSERT_FALSE(opened.empty());
    EXPECT_EQ(is_strict, tmesh_subprotocol_is_strict(subprotocol)) << "the flag alone means nothing (B4)";
    tmesh_stream_release(stream);
    settle(*peer);
  }
}

TEST_F(ClientLinkTest, AStrictOpenNeedsNoHello) {
  start();
  open(true);
  EXPECT_EQ(opened, std::vector<std::string>{"a"});
  tmesh_stream_release(stream);
  settle(*peer);
  EXPECT_NE(ask(TMESH_FRAME_CLIENT_HELLO, kHello).find(R"("accepted":true)"), std::string::npos);
}

TEST_F(ClientLinkTest, ADrainSendsGoawayAndKeepsStreams) {
  start();
  open(true);
  link->begin_drain();
  ASSERT_TRUE(run_until([&] { return peer->goaways_count == 1; }));
  EXPECT_EQ(link->streams_count(), 1u);
  EXPECT_EQ(downs, 0);
  tmesh_stream_release(stream);
  settle(*peer);
  EXPECT_EQ(link->streams_count(), 0u);
}

TEST_F(ClientLinkTest, ADeadPeerEndsTheLink) {
  start();
  open(true);
  tmesh_stream_release(stream);
  peer->link.close();
  ASSERT_TRUE(run_until([&] { return downs == 1; }));
  EXPECT_EQ(link, nullptr);
}

}  // namespace
}  // namespace tmesh::server
