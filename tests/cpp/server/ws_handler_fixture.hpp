// The doors /ws/agent and /ws/client over a real database, and peers behind them.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "cpp/server/ws_handler.hpp"
#include "tests/cpp/server/ws_fixture.hpp"
#include "tests/cpp/session/fake_server.hpp"

namespace tmesh::test {

inline constexpr const char* kAllOffers =
    "Sec-WebSocket-Protocol: tunnelmesh.v1.open-result.flow-control.metadata, "
    "tunnelmesh.v1.open-result.flow-control, tunnelmesh.v1.open-result, tunnelmesh.v1\r\n";
inline constexpr const char* kSwitched = "HTTP/1.1 101 Switching Protocols";

struct WsHandlerFixture : WsFixture {
  ~WsHandlerFixture() override {
    release_database();
    peers.clear();
    http_server.reset();
    streams.reset();
    handler.reset();
    watch.reset();
  }
  void start(uint64_t links_per_token_max = server::WsHandler::kLinksPerTokenMax) {
    watch.emplace(loop(), *database, server::RevisionWatch::Settings{.poll_interval_us = 50'000});
    watch->start();
    streams.emplace(loop(), *database, registry, config.stream);
    handler.emplace(loop(), config, *database, *watch, registry, *streams, links_per_token_max);
    router.add("/ws/agent", {}, *handler);
    router.add("/ws/client", {}, *handler);
    serve();
  }
  std::string agent_text() { return upgrade_text("/ws/agent", rows.agent_token.secret.reveal()); }
  std::string client_text(std::string_view more = kAllOffers) {
    return upgrade_text("/ws/client", rows.client.secret.reveal(), more);
  }
  std::string chosen(net::RawClient& client) {
    EXPECT_EQ(status_of(client), kSwitched);
    const std::size_t at = client.received.find("Sec-WebSocket-Protocol: ");
    if (at == std::string::npos) return "";
    return client.received.substr(at + 24, client.received.find("\r\n", at) - at - 24);
  }
  // The far end of an upgraded connection as a link.
  Peer& link(net::RawClient client, bool is_opener) {
    EXPECT_EQ(status_of(client), kSwitched);
    peers.push_back(std::make_unique<Peer>(loop(), client.release(), nullptr));
    EXPECT_TRUE(run_until([&] { return peers.back()->ready.has_value(); }));
    peers.back()->become_link(mux_config(is_opener), true);
    return *peers.back();
  }
  std::string hello(const std::string& connection) {
    return R"({"agent_id":")" + rows.home.id + R"(","connection_id":")" + connection +
           R"(","node_id":"n","epoch":1,"revision":1,"reported_at":"2026-01-02T03:04:05Z","items":[],)"
           R"("capabilities":["stream_open_result.v1","stream_flow_control.v1","stream_fair_writer.v1"]})";
  }

  server::AgentRegistry registry{64};
  config::ServerConfig config;
  std::optional<server::RevisionWatch> watch;
  std::optional<server::ClientStreamService> streams;
  std::optional<server::WsHandler> handler;
  std::list<std::unique_ptr<Peer>> peers;
};

}  // namespace tmesh::test
