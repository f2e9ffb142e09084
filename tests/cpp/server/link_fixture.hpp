// A server-side link of a test's own loop and the peer at its other end.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "cpp/server/credential_service.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::test {

class ServerLinkTest : public net::LoopTest {
 protected:
  // A ready transport for the link; `peer` is the other end of the connection, not yet
  // a link.
  net::Transport connect(Peer*& peer) {
    const std::size_t before = listener.count();
    net::RawClient raw(listener.port());
    ready_.is_ready = false;
    net::Transport transport =
        std::move(*net::Transport::connect(loop(), raw.release(), nullptr, nullptr, ready_));
    EXPECT_TRUE(run_until([&] { return ready_.is_ready && listener.count() > before; }));
    EXPECT_TRUE(run_until([&] { return listener.last().ready.has_value(); }));
    peer = &listener.last();
    return transport;
  }
  // Everything that is under way arrives.
  void settle(Peer& peer) {
    const std::size_t pongs = peer.pongs.size();
    peer.control(TMESH_FRAME_PING, "settle");
    EXPECT_TRUE(run_until([&] { return peer.pongs.size() > pongs || peer.down; }));
  }

  FakeServer listener{loop()};
  FakeTimers timers;

 private:
  struct Ready final : net::TransportHandler {
    void on_ready(tmesh_status status) override { is_ready = tmesh_is_ok(status); }
    void on_data(std::span<uint8_t>) override {}
    void on_eof() override {}
    void on_written() override {}
    void on_error(tmesh_status) override {}
    bool is_ready = false;
  };
  Ready ready_;
};

}  // namespace tmesh::test
