#include "cpp/net/link.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "cpp/net/listener.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::net {
namespace {

// One end: a transport until it is ready, then a link.
struct End : TransportHandler, LinkHandler {
  void on_ready(tmesh_status st) override { is_ready = tmesh_is_ok(st); }
  void on_data(std::span<uint8_t>) override {}
  void on_eof() override {}
  void on_written() override {}
  void on_error(tmesh_status) override {}

  void on_down(tmesh_status why) override {
    down = why;
    if (stream != nullptr) tmesh_stream_release(std::exchange(stream, nullptr));
    if (destroys_on_down) link = {};
  }
  void on_open(tmesh_stream* opened, const tmesh_open_stream& open) override {
    opened_host = open.target_host;
    stream = opened;
    tmesh_stream_attach(opened, this, [](void*, tmesh_stream*, unsigned) {});
  }
  tmesh_status on_control(const tmesh_frame_header& header, std::span<const uint8_t> payload) override {
    control_type = header.type;
    control.assign(payload.begin(), payload.end());
    if (destroys_on_control) link = {};
    return control_answer;
  }
  void on_pong(std::span<const uint8_t> payload) override { pong.assign(payload.begin(), payload.end()); }
  void on_goaway() override { has_goaway = true; }

  Transport transport;
  Link link;
  tmesh_stream* stream = nullptr;
  bool is_ready = false;
  bool has_goaway = false;
  bool destroys_on_down = false;
  bool destroys_on_control = false;
  std::optional<tmesh_status> down;
  tmesh_status control_answer = tmesh_ok();
  int control_type = -1;
  std::string control;
  std::string pong;
  std::string opened_host;
};

class LinkTest : public LoopTest {
 protected:
  LinkTest() {
    listener = std::move(*Listener::open(loop(), "127.0.0.1", 0,
                                         {Delegate<void(int, const Peer&)>::bind<&LinkTest::on_accept>(this),
                                          Delegate<void(tmesh_status)>::bind<&LinkTest::on_broken>(this)}));
    RawClient raw(listener.port());
    client.transport = std::move(*Transport::connect(loop(), raw.release(), nullptr, nullptr, client));
    EXPECT_TRUE(run_until([&] { return client.is_ready && server.is_ready; }));
    listener.close();
  }
  void on_accept(int fd, const Peer&) {
    server.transport = std::move(*Transport::accept(loop(), fd, nullptr, server));
  }
  void on_broken(tmesh_status) {}

  static tmesh_mux_config config(bool is_opener) {
    tmesh_mux_config c{};
    c.is_opener = is_opener;
    c.has_open_result = c.has_flow_control = true;
    c.resets_unknown_data = !is_opener;
    c.initial_window_bytes = 262144;
    c.window_threshold_bytes = 131072;
    c.inbound_max_bytes = 262144;
    c.outbound_max_bytes = 524288;
    c.streams_max = 16;
    return c;
  }
  void open_links(std::span<const uint8_t> early = {}) {
    server.link =
        std::move(*Link::open(loop(), std::move(server.transport), false, config(false), server, early));
    client.link = std::move(*Link::open(loop(), std::move(client.transport), true, config(true), client, {}));
  }
  void open_stream() {
    tmesh_open_stream open{};
    std::strcpy(open.agent_id, "agent");
    open.protocol = TMESH_OPEN_TCP;
    std::strcpy(open.target_host, "192.0.2.7");
    open.target_port = 80;
    tmesh_open_params params{&open, true, 262144};
    tmesh_status why{};
    client.stream = tmesh_mux_open(client.link.mux(), &params, &why);
    ASSERT_NE(client.stream, nullptr);
    tmesh_stream_attach(client.stream, &client, [](void*, tmesh_stream*, unsigned) {});
  }

  End server;
  End client;
  Listener listener;
};

TEST_F(LinkTest, CarriesControlFramesPingsAndGoaway) {
  open_links();
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_control(client.link.mux(), TMESH_FRAME_CLIENT_HELLO, "{}", 2)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_control(client.link.mux(), TMESH_FRAME_PING, "ab", 2)));
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_control(client.link.mux(), TMESH_FRAME_GOAWAY, nullptr, 0)));
  ASSERT_TRUE(run_until([&] { return server.has_goaway && client.pong == "ab"; }));
  EXPECT_EQ(server.control_type, TMESH_FRAME_CLIENT_HELLO);
  EXPECT_EQ(server.control, "{}");
  EXPECT_GT(client.link.bytes_out(), 0u);
  EXPECT_GT(client.link.last_read_us(), 0u);
}

TEST_F(LinkTest, DeliversOpensToTheHandler) {
  open_links();
  open_stream();
  ASSERT_TRUE(run_until([&] { return server.stream != nullptr; }));
  EXPECT_EQ(server.opened_host, "192.0.2.7");
  client.link.close();
  ASSERT_TRUE(run_until([&] { return server.down.has_value(); }));
  EXPECT_EQ(server.down->code, TMESH_E_CLOSED);
  EXPECT_FALSE(client.down.has_value()) << "a destroyed owner hears nothing";
  tmesh_stream_release(client.stream);
}

TEST_F(LinkTest, EarlyBytesAreReadBeforeWhatFollows) {
  // Masked with zeros: a PING frame with payload "early".
  uint8_t frame[6 + TMESH_FRAME_HEADER_BYTES + 5] = {0x82, 0x80 | (TMESH_FRAME_HEADER_BYTES + 5), 0, 0, 0, 0};
  tmesh_frame_header header{};
  header.type = TMESH_FRAME_PING;
  header.length_bytes = 5;
  ASSERT_TRUE(tmesh_is_ok(tmesh_frame_header_encode(frame + 6, &header)));
  std::memcpy(frame + 6 + TMESH_FRAME_HEADER_BYTES, "early", 5);
  open_links(frame);
  std::memset(frame, 0, sizeof frame);  // the link has its own copy
  ASSERT_TRUE(run_until([&] { return client.pong == "early"; }));
}

TEST_F(LinkTest, AFailedLinkReportsWhyOnceAndMayBeDestroyedThere) {
  open_links();
  server.destroys_on_down = true;
  server.link.fail(tmesh_err_session(TMESH_E_TIMEOUT));
  EXPECT_FALSE(server.down.has_value()) << "never from inside the call";
  ASSERT_TRUE(run_until([&] { return server.down.has_value() && client.down.has_value(); }));
  EXPECT_EQ(server.down->code, TMESH_E_TIMEOUT);
  EXPECT_FALSE(static_cast<bool>(server.link));
}

TEST_F(LinkTest, AnErrorOfTheHandlerEndsTheLink) {
  open_links();
  server.control_answer = tmesh_err_session(TMESH_E_POLICY);
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_control(client.link.mux(), TMESH_FRAME_CLIENT_HELLO, "{}", 2)));
  ASSERT_TRUE(run_until([&] { return server.down.has_value(); }));
  EXPECT_EQ(server.down->code, TMESH_E_POLICY);
}

TEST_F(LinkTest, MayBeDestroyedInsideAnyCallback) {
  open_links();
  server.destroys_on_control = true;
  ASSERT_TRUE(tmesh_is_ok(tmesh_mux_control(client.link.mux(), TMESH_FRAME_CLIENT_HELLO, "{}", 2)));
  ASSERT_TRUE(run_until([&] { return client.down.has_value(); }));
  EXPECT_FALSE(server.down.has_value());
}

TEST_F(LinkTest, ADownLinkKeepsItsMemoryUntilItsOwnerGoes) {
  open_links();
  client.link.fail(tmesh_err_session(TMESH_E_TIMEOUT));
  ASSERT_TRUE(run_until([&] { return client.down.has_value() && server.down.has_value(); }));
  ASSERT_FALSE(run_until([] { return false; }, 50'000));  // closed by now
  client.link.kick();
  client.link.close();
  client.link.close();
}

}  // namespace
}  // namespace tmesh::net
