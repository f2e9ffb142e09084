// A session on loopback, and a peer that the test plays.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "core/wire/ws.h"
#include "cpp/session/session.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::session {

using test::FakeServer;
using test::raw_frame;

class SessionTest : public net::LoopTest {
 protected:
  struct Handler : SessionHandler {
    void on_open(Session&, tmesh_stream* stream, const tmesh_open_stream& open) override {
      opened_host = open.target_host;
      tmesh_stream_attach(stream, nullptr, [](void*, tmesh_stream* s, unsigned events) {
        if ((events & TMESH_STREAM_EV_OVER) != 0) tmesh_stream_release(s);
      });
    }
    tmesh_status on_control(Session&, const tmesh_frame_header& header,
                            std::span<const uint8_t> payload) override {
      control_type = header.type;
      control.assign(payload.begin(), payload.end());
      return control_answer;
    }
    void on_goaway(Session& s) override {
      goaways_count++;
      took_opens_at_goaway = s.takes_opens();
    }
    void on_down(Session& s, tmesh_status why) override {
      downs_count++;
      down = why;
      EXPECT_FALSE(s.takes_opens());
      if (owner != nullptr) owner->reset();
    }
    void on_suspect(Session& s) override {
      suspects_count++;
      EXPECT_FALSE(s.takes_opens());
    }
    std::unique_ptr<Session>* owner = nullptr;  // to be destroyed in on_down
    std::string opened_host;
    int control_type = -1;
    std::string control;
    tmesh_status control_answer = tmesh_ok();
    std::size_t goaways_count = 0;
    bool took_opens_at_goaway = false;
    std::size_t downs_count = 0;
    std::size_t suspects_count = 0;
    std::optional<tmesh_status> down;
  };
  // Only until the transport is ready.
  struct Ready : net::TransportHandler {
    void on_ready(tmesh_status status) override { is_ready = tmesh_is_ok(status); }
    void on_data(std::span<uint8_t>) override {}
    void on_eof() override {}
    void on_written() override {}
    void on_error(tmesh_status) override {}
    bool is_ready = false;
  };

  SessionTest() : server(loop()) {}

  // The Session, and a peer that is still a raw transport.
  void connect(const SessionLife& life, std::span<const uint8_t> early = {}, bool is_opener = true) {
    Ready ready;
    net::RawClient raw(server.port());
    auto transport = std::move(*net::Transport::connect(loop(), raw.release(), nullptr, nullptr, ready));
    ASSERT_TRUE(run_until([&] { return ready.is_ready && server.count() == 1 && peer().ready.has_value(); }));
    session = std::move(*Session::open(loop(), std::move(transport), true, test::mux_config(is_opener), life,
                                       handler, early));
  }
  void connect_links(const SessionLife& life, bool is_opener = true) {
    connect(life, {}, is_opener);
    peer().become_link(test::mux_config(!is_opener));
  }
  test::Peer& peer() { return server.last(); }
  bool is_down() const { return handler.downs_count > 0; }
  // Runs for that long at least.
  void run_for(uint64_t us) {
    ASSERT_FALSE(run_until([] { return false; }, us));
  }
  tmesh_stream* open_stream() {
    tmesh_open_stream open{};
    open.protocol = TMESH_OPEN_TCP;
    open.target_host[0] = 'h';
    open.target_port = 80;
    tmesh_open_params params{&open, true, TMESH_WINDOW_INITIAL_BYTES};
    tmesh_status why{};
    return tmesh_mux_open(session->mux(), &params, &why);
  }
  // WebSocket frames of this kind among the raw bytes the peer got.
  std::size_t ws_frames(tmesh_ws_opcode opcode) {
    tmesh_ws_decoder decoder;
    tmesh_ws_decoder_init(&decoder, TMESH_WS_SERVER, TMESH_WS_MESSAGE_MAX_BYTES);
    std::string copy = peer().bytes;
    auto* at = reinterpret_cast<uint8_t*>(copy.data());
    std::size_t left = copy.size();
    std::size_t count = 0;
    for (;;) {
      tmesh_ws_event event{};
      std::size_t used = 0;
      EXPECT_TRUE(tmesh_is_ok(tmesh_ws_decode(&decoder, at, left, &used, &event)));
      at += used;
      left -= used;
      if (event.kind == TMESH_WS_NONE) return count;
      count += (opcode == TMESH_WS_OP_PING && event.kind == TMESH_WS_PING) ||
               (opcode == TMESH_WS_OP_BINARY && event.kind == TMESH_WS_MESSAGE_END);
    }
  }

  FakeServer server;
  Handler handler;
  std::unique_ptr<Session> session;
};

}  // namespace tmesh::session
