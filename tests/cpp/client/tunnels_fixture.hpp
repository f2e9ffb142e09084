// Tunnels as a configuration has them, and what their entries are made with.
#pragma once

#include <string>
#include <string_view>

#include "cpp/client/entry_set.hpp"
#include "tests/cpp/net/loop_fixture.hpp"

namespace tmesh::client {

inline config::Tunnel tunnel(const std::string& name, uint16_t port, const std::string& agent = "home") {
  config::Tunnel out;
  out.name = name;
  out.listen = {"127.0.0.1", port};
  out.agent_id = agent;
  return out;
}

class NoOpener final : public StreamOpener {
 public:
  Result<OpenedStream> open(const OpenRequest&, bool, const tmesh_mux*) override {
    return fail(TMESH_E_CLOSED, "none");
  }
  Ticket await_link(std::string_view, Delegate<void()>) override { return {}; }
  void open_timed_out(std::string_view, const tmesh_stream&) override {}
  Ticket await_silence(std::string_view, const tmesh_stream&, Delegate<void()>) override { return {}; }
  void hedge_ended(std::string_view, bool) override {}
};

class TunnelsTest : public net::LoopTest {
 protected:
  EntryDeps deps() {
    EntryDeps out{loop(), opener};
    out.handshake_timeout_us = handshake_timeout_us;
    out.udp_idle_timeout_us = udp_idle_timeout_us;
    out.link_wait_us = link_wait_us;
    out.socks5 = socks5;
    out.http_proxy = http_proxy;
    return out;
  }

  NoOpener opener;
  uint64_t handshake_timeout_us = 10'000'000;
  uint64_t udp_idle_timeout_us = 60'000'000;
  uint64_t link_wait_us = 2'000'000;
  config::Credentials socks5;
  config::Credentials http_proxy;
};

}  // namespace tmesh::client
