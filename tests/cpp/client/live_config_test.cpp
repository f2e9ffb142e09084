#include "cpp/client/live_config.hpp"

#include <gtest/gtest.h>

namespace tmesh::client {
namespace {

TEST(ClientLiveConfig, TakesWhatAReloadMayChange) {
  config::ClientConfig running;
  config::ClientConfig fresh;
  fresh.token = Secret("new");
  fresh.server.ca_file = "/ca";
  fresh.connections.max_count = 7;
  fresh.inbound_buffer_bytes = 65536;
  fresh.limits.max_window_bytes = 300'000;
  fresh.limits.window_violations_count = 5;
  fresh.limits.window_violations_interval_us = 6;
  fresh.open_timeout_us = 1;
  fresh.handshake_timeout_us = 2;
  fresh.udp_idle_timeout_us = 3;
  fresh.remote_validation.timeout_us = 4;
  fresh.metadata.resize(1);
  fresh.tunnels.resize(2);
  fresh.socks5.username = "ann";
  fresh.http_proxy.username = "bob";
  fresh.shutdown_timeout_us = 8;
  fresh.log.level = log::Level::debug;
  fresh.watches_files = false;
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.token.reveal(), "new");
  EXPECT_EQ(running.server.ca_file, "/ca");
  EXPECT_EQ(running.connections.max_count, 7u);
  EXPECT_EQ(running.inbound_buffer_bytes, 65536u);
  EXPECT_EQ(running.limits.max_window_bytes, 300'000u);
  EXPECT_EQ(running.limits.window_violations_count, 5u);
  EXPECT_EQ(running.limits.window_violations_interval_us, 6u);
  EXPECT_EQ(running.open_timeout_us, 1u);
  EXPECT_EQ(running.handshake_timeout_us, 2u);
  EXPECT_EQ(running.udp_idle_timeout_us, 3u);
  EXPECT_EQ(running.remote_validation.timeout_us, 4u);
  EXPECT_EQ(running.metadata.size(), 1u);
  EXPECT_EQ(running.tunnels.size(), 2u);
  EXPECT_EQ(running.socks5.username, "ann");
  EXPECT_EQ(running.http_proxy.username, "bob");
  EXPECT_EQ(running.shutdown_timeout_us, 8u);
  EXPECT_EQ(running.log.level, log::Level::debug);
  EXPECT_FALSE(running.watches_files);
}

TEST(ClientLiveConfig, LeavesTheRest) {
  config::ClientConfig running;
  config::ClientConfig fresh;
  fresh.server.url = "wss://other";
  fresh.server.endpoint.host = "other";
  fresh.instance_id = "other";
  fresh.capabilities.open_result = false;
  fresh.limits.memory_budget_bytes = 1ULL << 40;
  fresh.limits.max_window_bytes = 1ULL << 30;
  fresh.status_socket = "/other";
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.server.url, "");
  EXPECT_EQ(running.server.endpoint.host, "");
  EXPECT_EQ(running.instance_id, "");
  EXPECT_TRUE(running.capabilities.open_result);
  EXPECT_EQ(running.limits.memory_budget_bytes, 268'435'456u);
  EXPECT_EQ(running.limits.max_window_bytes, 67'108'864u) << "a quarter of the budget that is in use";
  EXPECT_EQ(running.status_socket, "");
}

}  // namespace
}  // namespace tmesh::client
