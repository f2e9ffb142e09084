#include "cpp/server/live_config.hpp"

#include <gtest/gtest.h>

#include "cpp/server/active_slots.hpp"

namespace tmesh::server {
namespace {

TEST(ServerLiveConfig, TakesWhatAReloadMayChange) {
  config::ServerConfig running;
  config::ServerConfig fresh;
  fresh.stream.concurrent_opens_max = 1;
  fresh.stream.pending_opens_max = 2;
  fresh.stream.opens_per_link_max = 3;
  fresh.stream.active_per_link_max = 4;
  fresh.stream.active_per_token_max = 5;
  fresh.stream.active_per_agent_max = 6;
  fresh.limits.max_window_bytes = 1'000'000;
  fresh.limits.window_violations_count = 8;
  fresh.limits.window_violations_interval_us = 9;
  fresh.tls.cert_file = "/cert";
  fresh.tls.key_file = "/key";
  fresh.tls.needs_tls13 = true;
  fresh.shutdown_timeout_us = 7;
  fresh.log.level = log::Level::debug;
  fresh.watches_files = false;
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.stream.concurrent_opens_max, 1u);
  EXPECT_EQ(running.stream.pending_opens_max, 2u);
  EXPECT_EQ(running.stream.opens_per_link_max, 3u);
  EXPECT_EQ(running.stream.active_per_link_max, 4u);
  EXPECT_EQ(running.stream.active_per_token_max, 5u);
  EXPECT_EQ(running.stream.active_per_agent_max, 6u);
  EXPECT_EQ(running.limits.max_window_bytes, 1'000'000u);
  EXPECT_EQ(running.limits.window_violations_count, 8u);
  EXPECT_EQ(running.limits.window_violations_interval_us, 9u);
  EXPECT_EQ(running.tls.cert_file, "/cert");
  EXPECT_EQ(running.tls.key_file, "/key");
  EXPECT_TRUE(running.tls.needs_tls13);
  EXPECT_EQ(running.shutdown_timeout_us, 7u);
  EXPECT_EQ(running.log.level, log::Level::debug);
  EXPECT_FALSE(running.watches_files);
}

TEST(ServerLiveConfig, LeavesTheRest) {
  config::ServerConfig running;
  config::ServerConfig fresh;
  fresh.tls.is_enabled = true;
  fresh.http_addr.port = 1;
  fresh.storage.sqlite_path = "/other";
  fresh.stream.initial_window_bytes = 1;
  fresh.authorization_cache.is_enabled = false;
  take_live(running, std::move(fresh));
  EXPECT_FALSE(running.tls.is_enabled);
  EXPECT_EQ(running.http_addr.port, 80);
  EXPECT_EQ(running.storage.sqlite_path, "tunnelmesh.db");
  EXPECT_EQ(running.stream.initial_window_bytes, 262'144u);
  EXPECT_TRUE(running.authorization_cache.is_enabled);
}

// Both of these stay until a restart.
TEST(ServerLiveConfig, AWindowFitsTheFirstOneAndTheBudget) {
  config::ServerConfig running;
  running.limits.memory_budget_bytes = 16u << 20;
  config::ServerConfig fresh;
  fresh.limits.max_window_bytes = 8u << 20;
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.limits.max_window_bytes, 4u << 20);
  running.stream.initial_window_bytes = 1u << 20;
  fresh.limits.max_window_bytes = 262'144;
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.limits.max_window_bytes, 1u << 20);
}

TEST(ActiveSlots, ALowerCeilingKeepsWhatIsAboveIt) {
  ActiveSlots slots(2, 0);
  auto first = slots.claim("t", "a");
  auto second = slots.claim("t", "a");
  slots.set_max(1, 0);
  EXPECT_FALSE(slots.claim("t", "a"));
  first.reset();
  EXPECT_FALSE(slots.claim("t", "a"));
  second.reset();
  EXPECT_TRUE(slots.claim("t", "a"));
}

}  // namespace
}  // namespace tmesh::server
