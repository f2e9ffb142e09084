#include "cpp/config/agent.hpp"

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

class AgentConfigTest : public ConfigTest {
 protected:
  // A complete file, and one more text below `agent:`.
  void agent_file(const std::string& more) {
    file("agent:\n  server_url: wss://hub.example.com\n  id: a1\n  token: t0k3n\n" + more);
  }
};

TEST_F(AgentConfigTest, CompleteFile) {
  agent_file("");
  const auto loaded = agent(Purpose::run);
  ASSERT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded), "");
  const AgentConfig& c = loaded.config;
  EXPECT_EQ(c.server.endpoint.host, "hub.example.com");
  EXPECT_EQ(c.server.endpoint.port, 443);
  EXPECT_EQ(c.server.endpoint.path, "/ws/agent") << "the path a server has for agents";
  EXPECT_EQ(c.id, "a1");
  EXPECT_EQ(c.token.reveal(), "t0k3n");
  EXPECT_EQ(c.streams.concurrent_dials_max, 32u);
  EXPECT_EQ(c.streams.pending_dials_max, 128u);
  EXPECT_EQ(c.streams.connect_timeout_us, 5000000u);
  EXPECT_EQ(c.streams.open_timeout_us, 8000000u);
  EXPECT_EQ(c.streams.resolver, AgentStreamSettings::Resolver::async);
  EXPECT_EQ(c.instance_id_path, "/var/lib/tunnelmesh-agent/agent-instance-id");
}

TEST_F(AgentConfigTest, StructDefaultsAgreeWithTheTable) {
  const AgentConfig made;
  agent_file("");
  const AgentConfig loaded = agent().config;
  EXPECT_EQ(made.connections.high_watermark_count, loaded.connections.high_watermark_count);
  EXPECT_EQ(made.connections.low_watermark_count, loaded.connections.low_watermark_count);
  EXPECT_EQ(made.connections.evaluation_interval_us, loaded.connections.evaluation_interval_us);
  EXPECT_EQ(made.connections.cooldown_us, loaded.connections.cooldown_us);
  EXPECT_EQ(made.streams.concurrent_dials_max, loaded.streams.concurrent_dials_max);
  EXPECT_EQ(made.streams.pending_dials_max, loaded.streams.pending_dials_max);
  EXPECT_EQ(made.streams.connect_timeout_us, loaded.streams.connect_timeout_us);
  EXPECT_EQ(made.streams.open_timeout_us, loaded.streams.open_timeout_us);
  EXPECT_EQ(made.streams.inbound_buffer_bytes, loaded.streams.inbound_buffer_bytes);
  EXPECT_EQ(made.streams.active_max, loaded.streams.active_max);
  EXPECT_EQ(made.shutdown_timeout_us, loaded.shutdown_timeout_us);
}

TEST_F(AgentConfigTest, PoolResolverAndTheCaOfTargetsHaveAnEffect) {
  agent_file(
      "  connections: {min: 2, max: 4, high_watermark: 20, low_watermark: 3, evaluation_interval: 5s, "
      "cooldown: 1m}\n"
      "  streams:\n    resolver: system\n    tls_ca_file: /etc/ca.pem\n");
  const auto loaded = agent();
  EXPECT_EQ(warnings(loaded), "");
  const AgentConfig& c = loaded.config;
  EXPECT_EQ(c.connections.min_count, 2u);
  EXPECT_EQ(c.connections.max_count, 4u);
  EXPECT_EQ(c.connections.high_watermark_count, 20u);
  EXPECT_EQ(c.connections.low_watermark_count, 3u);
  EXPECT_EQ(c.connections.evaluation_interval_us, 5'000'000u);
  EXPECT_EQ(c.connections.cooldown_us, 60'000'000u);
  EXPECT_EQ(c.streams.resolver, AgentStreamSettings::Resolver::system);
  EXPECT_EQ(c.streams.tls_ca_file, "/etc/ca.pem");
}

TEST_F(AgentConfigTest, WhatRunNeeds) {
  for (const Purpose purpose : {Purpose::run, Purpose::check}) {
    EXPECT_EQ(errors(agent(purpose)),
              "agent.server_url: is required (in the file, as --agent.server_url or as "
              "TUNNELMESH_AGENT_SERVER_URL)\n"
              "agent.id: is required (in the file, as --agent.id or as TUNNELMESH_AGENT_ID)\n"
              "agent.token: is required (in the file, as --agent.token_file or as TUNNELMESH_AGENT_TOKEN)\n");
  }
  EXPECT_EQ(errors(agent(Purpose::print)), "");
}

TEST_F(AgentConfigTest, RefusedValueIsNotAlsoMissing) {
  file("agent:\n  server_url: https://hub\n  id: a b\n  token: t\n");
  EXPECT_EQ(errors(agent()),
            "c.yaml:2: agent.server_url: must be an absolute ws:// or wss:// URL\n"
            "c.yaml:3: agent.id: must not contain white space or control characters\n");
}

TEST_F(AgentConfigTest, TokenFile) {
  const std::string token = write("token", "  s3cret\n\n");
  file("agent:\n  server_url: wss://hub\n  id: a\n  token_file: " + token + "\n");
  EXPECT_NE(errors(agent()), "") << "leading white space is not trimmed away";
  write("token", "s3cret\r\n");
  auto loaded = agent(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.token.reveal(), "s3cret");
  write("token", "two words");
  EXPECT_EQ(errors(agent()), "c.yaml:4: agent.token_file: the file must hold one token and nothing else\n");
  write("token", "\n");
  EXPECT_EQ(errors(agent()), "c.yaml:4: agent.token_file: the file is empty\n");
  write("token", "s3cret", 0640);
  loaded = agent();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded),
            "c.yaml:4: agent.token_file: other users have access to the file; its mode should be 0600\n");
  file("agent:\n  server_url: wss://hub\n  id: a\n  token_file: " + path("none") + "\n");
  EXPECT_EQ(errors(agent()), "c.yaml:4: agent.token_file: the file cannot be read: no such file or folder\n");
  EXPECT_EQ(errors(agent(Purpose::print)), "") << "print-config opens no secret";
}

TEST_F(AgentConfigTest, TokenOrTokenFileWhicheverComesFromHigher) {
  const std::string token = write("token", "from-file");
  agent_file("  token_file: " + token + "\n");
  EXPECT_EQ(errors(agent()), "c.yaml:5: agent.token_file: is set beside agent.token; set only one of them\n");
  env("TUNNELMESH_AGENT_TOKEN=from-env");
  EXPECT_EQ(agent().config.token.reveal(), "from-env");
  flag("agent.token_file", token);
  EXPECT_EQ(agent().config.token.reveal(), "from-file");
  EXPECT_EQ(errors(agent()), "");
}

TEST_F(AgentConfigTest, PoolBounds) {
  agent_file("  connections:\n    min: 4\n    max: 2\n    high_watermark: 2\n    low_watermark: 3\n");
  EXPECT_EQ(
      errors(agent()),
      "c.yaml:7: agent.connections.max: must not be below agent.connections.min\n"
      "c.yaml:9: agent.connections.low_watermark: must not be above agent.connections.high_watermark\n");
  agent_file("  connections: {min: 0, max: 513}\n");
  EXPECT_EQ(errors(agent()),
            "c.yaml:5: agent.connections.min: must be from 1 to 512\nc.yaml:5: agent.connections.max: must "
            "be from 1 to 512\n");
}

TEST_F(AgentConfigTest, PolicyNetworks) {
  agent_file("  policy:\n    allow: [10.0.0.0/8, '::ffff:192.168.0.0/112']\n    deny: 10.1.0.0/16\n");
  const auto loaded = agent();
  ASSERT_EQ(errors(loaded), "");
  ASSERT_EQ(loaded.config.policy.allow.size(), 2u);
  EXPECT_EQ(format_cidr(loaded.config.policy.allow[1]), "192.168.0.0/16");
  EXPECT_EQ(format_cidr(loaded.config.policy.deny[0]), "10.1.0.0/16");
}

TEST_F(AgentConfigTest, Metadata) {
  agent_file(
      "  metadata:\n  - {name: os, source: file, path: /etc/os-release}\n  - {name: zone, key: APP_ZONE}\n");
  const auto loaded = agent();
  ASSERT_EQ(errors(loaded), "");
  ASSERT_EQ(loaded.config.metadata.size(), 2u);
  EXPECT_EQ(loaded.config.metadata[0].source, MetadataItem::Kind::file);
  EXPECT_EQ(loaded.config.metadata[0].path, "/etc/os-release");
  EXPECT_EQ(loaded.config.metadata[1].key, "APP_ZONE");
  agent_file(
      "  metadata:\n  - {name: a, source: file, key: X}\n  - {name: a, key: X}\n  - {key: X}\n  - {name: "
      "my_token, key: X}\n");
  EXPECT_EQ(errors(agent()),
            "c.yaml:6: agent.metadata[0].path: is required\n"
            "c.yaml:7: agent.metadata[1].name: is used twice\n"
            "c.yaml:8: agent.metadata[2].name: is required\n"
            "c.yaml:9: agent.metadata[3].name: must not name a secret\n");
  std::string many = "  metadata:\n";
  for (int i = 0; i < 33; ++i) many += "  - {name: n" + std::to_string(i) + ", key: X}\n";
  agent_file(many);
  EXPECT_EQ(errors(agent()), "c.yaml:5: agent.metadata: must have at most 32 items\n");
}

TEST_F(AgentConfigTest, PlainWsToAnotherMachineIsAWarning) {
  file("agent: {server_url: 'ws://hub.example.com:8080/ws/agent', id: a, token: t}\n");
  EXPECT_EQ(warnings(agent()),
            "c.yaml:1: agent.server_url: sends the token unencrypted to another machine; use wss://\n");
  file("agent: {server_url: 'ws://127.0.0.1:8080/ws/agent', id: a, token: t}\n");
  EXPECT_EQ(warnings(agent()), "");
}

TEST_F(AgentConfigTest, CaFile) {
  agent_file("  tls: {ca_file: " + path("none.pem") + "}\n");
  EXPECT_EQ(errors(agent()),
            "c.yaml:5: agent.tls.ca_file: the file cannot be read: no such file or folder\n");
  agent_file("  tls: {ca_file: " + write("ca.pem", "x") + "}\n");
  EXPECT_EQ(agent().config.server.ca_file, path("ca.pem"));
}

TEST_F(AgentConfigTest, IcmpIsNotThere) {
  agent_file("  streams: {icmp_enabled: true}\n");
  EXPECT_EQ(errors(agent()), "c.yaml:5: agent.streams.icmp_enabled: is not available in this version\n");
}

}  // namespace
}  // namespace tmesh::config
