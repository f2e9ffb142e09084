#include "cpp/agent/live_config.hpp"

#include <gtest/gtest.h>

#include "cpp/agent/agent_shared.hpp"

namespace tmesh::agent {
namespace {

TEST(AgentLiveConfig, TakesWhatAReloadMayChange) {
  config::AgentConfig running;
  config::AgentConfig fresh;
  fresh.token = Secret("new");
  fresh.server.ca_file = "/ca";
  fresh.streams.concurrent_dials_max = 1;
  fresh.streams.pending_dials_max = 2;
  fresh.streams.connect_timeout_us = 3;
  fresh.streams.open_timeout_us = 4;
  fresh.streams.inbound_buffer_bytes = 65536;
  fresh.streams.active_max = 5;
  fresh.streams.tls_ca_file = "/targets";
  fresh.connections.max_count = 9;
  fresh.policy.allow.push_back(*parse_cidr("10.0.0.0/8"));
  fresh.policy.deny.push_back(*parse_cidr("10.1.0.0/16"));
  fresh.metadata.resize(1);
  fresh.limits.max_window_bytes = 300'000;
  fresh.limits.window_violations_count = 6;
  fresh.limits.window_violations_interval_us = 7;
  fresh.shutdown_timeout_us = 8;
  fresh.log.level = log::Level::debug;
  fresh.watches_files = false;
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.token.reveal(), "new");
  EXPECT_EQ(running.server.ca_file, "/ca");
  EXPECT_EQ(running.streams.concurrent_dials_max, 1u);
  EXPECT_EQ(running.streams.pending_dials_max, 2u);
  EXPECT_EQ(running.streams.connect_timeout_us, 3u);
  EXPECT_EQ(running.streams.open_timeout_us, 4u);
  EXPECT_EQ(running.streams.inbound_buffer_bytes, 65536u);
  EXPECT_EQ(running.streams.active_max, 5u);
  EXPECT_EQ(running.streams.tls_ca_file, "/targets");
  EXPECT_EQ(running.connections.max_count, 9u);
  EXPECT_EQ(running.policy.allow.size(), 1u);
  EXPECT_EQ(running.policy.deny.size(), 1u);
  EXPECT_EQ(running.metadata.size(), 1u);
  EXPECT_EQ(running.limits.max_window_bytes, 300'000u);
  EXPECT_EQ(running.limits.window_violations_count, 6u);
  EXPECT_EQ(running.limits.window_violations_interval_us, 7u);
  EXPECT_EQ(running.shutdown_timeout_us, 8u);
  EXPECT_EQ(running.log.level, log::Level::debug);
  EXPECT_FALSE(running.watches_files);
}

TEST(AgentLiveConfig, LeavesTheRest) {
  config::AgentConfig running;
  config::AgentConfig fresh;
  fresh.id = "other";
  fresh.instance_id = "other";
  fresh.server.url = "wss://other";
  fresh.streams.resolver = config::AgentStreamSettings::Resolver::system;
  fresh.capabilities.flow_control = false;
  fresh.limits.memory_budget_bytes = 1ULL << 40;
  take_live(running, std::move(fresh));
  EXPECT_EQ(running.id, "");
  EXPECT_EQ(running.instance_id, "");
  EXPECT_EQ(running.server.url, "");
  EXPECT_EQ(running.streams.resolver, config::AgentStreamSettings::Resolver::async);
  EXPECT_TRUE(running.capabilities.flow_control);
  EXPECT_EQ(running.limits.memory_budget_bytes, 268'435'456u);
}

TEST(StreamCeiling, ALowerOneKeepsWhatIsAboveIt) {
  StreamCeiling ceiling(2);
  auto first = ceiling.claim();
  auto second = ceiling.claim();
  ceiling.set_max(1);
  EXPECT_EQ(ceiling.count(), 2u);
  EXPECT_FALSE(ceiling.claim());
  first->cancel();
  EXPECT_FALSE(ceiling.claim());
  second->cancel();
  EXPECT_TRUE(ceiling.claim());
}

}  // namespace
}  // namespace tmesh::agent
