#include "cpp/config/server.hpp"

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

using ServerConfigTest = ConfigTest;

TEST_F(ServerConfigTest, DefaultsAloneAreComplete) {
  const auto loaded = server(Purpose::run);
  ASSERT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded), "");
  const ServerConfig& c = loaded.config;
  EXPECT_FALSE(c.is_cluster);
  EXPECT_EQ(c.http_addr, (HostPort{"", 80}));
  EXPECT_EQ(c.storage.sqlite_path, "tunnelmesh.db");
  EXPECT_TRUE(c.storage.is_auto_init);
  EXPECT_EQ(c.stream.initial_window_bytes, 262144u);
  EXPECT_EQ(c.stream.window_update_threshold_bytes, 131072u);
  EXPECT_EQ(c.http.idle_timeout_us, 120000000u);
  EXPECT_EQ(c.authorization_cache.revision_poll_interval_us, 2000000u);
  EXPECT_EQ(c.connections_per_agent_max, 64u);
  EXPECT_TRUE(c.capabilities.open_result && c.capabilities.flow_control && c.capabilities.fair_writer);
  EXPECT_EQ(c.limits.window_violations_count, 256u);
  EXPECT_EQ(c.limits.window_violations_interval_us, 10000000u);
  EXPECT_EQ(c.shutdown_timeout_us, 10000000u);
  EXPECT_EQ(c.log.level, log::Level::info);
}

// The structs carry the same defaults as the table, for code that makes them in tests.
TEST_F(ServerConfigTest, StructDefaultsAgreeWithTheTable) {
  const ServerConfig made;
  const ServerConfig loaded = server().config;
  EXPECT_EQ(made.http_addr, loaded.http_addr);
  EXPECT_EQ(made.storage.sqlite_path, loaded.storage.sqlite_path);
  EXPECT_EQ(made.stream.concurrent_opens_max, loaded.stream.concurrent_opens_max);
  EXPECT_EQ(made.stream.pending_opens_max, loaded.stream.pending_opens_max);
  EXPECT_EQ(made.stream.opens_per_link_max, loaded.stream.opens_per_link_max);
  EXPECT_EQ(made.stream.active_per_link_max, loaded.stream.active_per_link_max);
  EXPECT_EQ(made.stream.active_per_token_max, loaded.stream.active_per_token_max);
  EXPECT_EQ(made.stream.active_per_agent_max, loaded.stream.active_per_agent_max);
  EXPECT_EQ(made.stream.initial_window_bytes, loaded.stream.initial_window_bytes);
  EXPECT_EQ(made.stream.window_update_threshold_bytes, loaded.stream.window_update_threshold_bytes);
  EXPECT_EQ(made.authorization_cache.local_positive_ttl_us, loaded.authorization_cache.local_positive_ttl_us);
  EXPECT_EQ(made.authorization_cache.cluster_positive_ttl_us,
            loaded.authorization_cache.cluster_positive_ttl_us);
  EXPECT_EQ(made.authorization_cache.negative_ttl_us, loaded.authorization_cache.negative_ttl_us);
  EXPECT_EQ(made.authorization_cache.stale_on_poll_error_max_us,
            loaded.authorization_cache.stale_on_poll_error_max_us);
  EXPECT_EQ(made.authorization_cache.entries_max, loaded.authorization_cache.entries_max);
  EXPECT_EQ(made.http.read_header_timeout_us, loaded.http.read_header_timeout_us);
  EXPECT_EQ(made.http.header_bytes_max, loaded.http.header_bytes_max);
  EXPECT_EQ(made.http.body_timeout_us, loaded.http.body_timeout_us);
  EXPECT_EQ(made.limits.max_window_bytes, loaded.limits.max_window_bytes);
  EXPECT_EQ(made.limits.memory_budget_bytes, loaded.limits.memory_budget_bytes);
  EXPECT_EQ(made.limits.stalled_close_timeout_us, loaded.limits.stalled_close_timeout_us);
}

TEST_F(ServerConfigTest, TheKeysOfTheAuthorizationCacheAreRead) {
  file(
      "server:\n  authorization_cache:\n    enabled: false\n    local_positive_ttl: 4s\n"
      "    cluster_positive_ttl: 2m\n    negative_ttl: 500ms\n    revision_poll_interval: 1s\n"
      "    max_stale_on_poll_error: 3s\n    max_entries: 500\n    revoke_open_streams: false\n");
  const auto loaded = server();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded), "") << "they have an effect";
  const AuthorizationCacheSettings& c = loaded.config.authorization_cache;
  EXPECT_FALSE(c.is_enabled);
  EXPECT_EQ(c.local_positive_ttl_us, 4'000'000u);
  EXPECT_EQ(c.cluster_positive_ttl_us, 120'000'000u);
  EXPECT_EQ(c.negative_ttl_us, 500'000u);
  EXPECT_EQ(c.revision_poll_interval_us, 1'000'000u);
  EXPECT_EQ(c.stale_on_poll_error_max_us, 3'000'000u);
  EXPECT_EQ(c.entries_max, 500u);
  EXPECT_FALSE(c.revoke_open_streams);
}

TEST_F(ServerConfigTest, TheKeysOfTheAuthorizationCacheHaveRanges) {
  file(
      "server:\n  authorization_cache:\n    local_positive_ttl: 0s\n    cluster_positive_ttl: 25h\n"
      "    negative_ttl: -1s\n    revision_poll_interval: 99ms\n    max_stale_on_poll_error: 2h\n"
      "    max_entries: 0\n");
  EXPECT_EQ(server().problems.error_count(), 6u) << errors(server());
  file("server:\n  authorization_cache:\n    max_entries: 10000001\n");
  EXPECT_EQ(server().problems.error_count(), 1u);
}

TEST_F(ServerConfigTest, SmallWindowIsRaisedWithAWarning) {
  file("server:\n  stream:\n    initial_window: 65536\n");
  const auto loaded = server();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded),
            "c.yaml:3: server.stream.initial_window: is raised to 262144: peers assume at least that\n");
  EXPECT_EQ(loaded.config.stream.initial_window_bytes, 262144u);
  EXPECT_EQ(loaded.settings.text("server.stream.initial_window"), "262144")
      << "print-config shows what is used";
}

TEST_F(ServerConfigTest, ThresholdLeavesAFrameBelowTheWindow) {
  file("server:\n  stream:\n    window_update_threshold: 229376\n");
  EXPECT_EQ(errors(server()), "");
  file("server:\n  stream:\n    window_update_threshold: 229377\n");
  EXPECT_EQ(errors(server()),
            "c.yaml:3: server.stream.window_update_threshold: must leave at least 32768 bytes below "
            "server.stream.initial_window\n");
}

TEST_F(ServerConfigTest, OnlyOneFramePayloadIsPossible) {
  file("server:\n  stream:\n    max_frame_payload: 32768\n");
  EXPECT_EQ(errors(server()), "");
  file("server:\n  stream:\n    max_frame_payload: 65536\n");
  EXPECT_EQ(errors(server()), "c.yaml:3: server.stream.max_frame_payload: must be 32768 bytes\n");
}

TEST_F(ServerConfigTest, WindowStaysWithinTheBudget) {
  file("server:\n  limits: {memory_budget: 8MiB}\n");
  const auto lowered = server();
  EXPECT_EQ(lowered.config.limits.max_window_bytes, 2097152u);
  EXPECT_EQ(warnings(lowered), "") << "lowering a default is no news";
  file("server:\n  limits:\n    memory_budget: 8MiB\n    max_window: 4MiB\n");
  EXPECT_EQ(warnings(server()),
            "c.yaml:4: server.limits.max_window: is lowered to a quarter of server.limits.memory_budget\n");
  file("server:\n  limits: {memory_budget: 8MiB}\n  stream:\n    initial_window: 4MiB\n");
  EXPECT_EQ(errors(server()),
            "c.yaml:4: server.stream.initial_window: must not be above server.limits.max_window\n");
}

TEST_F(ServerConfigTest, ZeroHttpBudgetsMeanTheDefault) {
  file(
      "server:\n  http: {read_header_timeout: 0, idle_timeout: 0s, max_header_bytes: 0, body_timeout: 0}\n  "
      "agents: {max_connections_per_agent: 0}\n");
  const auto loaded = server();
  ASSERT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.http.read_header_timeout_us, 10000000u);
  EXPECT_EQ(loaded.config.http.idle_timeout_us, 120000000u);
  EXPECT_EQ(loaded.config.http.header_bytes_max, 1048576u);
  EXPECT_EQ(loaded.config.http.body_timeout_us, 30000000u);
  EXPECT_EQ(loaded.config.connections_per_agent_max, 64u);
}

TEST_F(ServerConfigTest, TlsNeedsReadableFiles) {
  file("tls:\n  enabled: true\n");
  EXPECT_EQ(
      errors(server()),
      "c.yaml: tls.cert_file: is required (in the file, as --tls.cert_file or as TUNNELMESH_TLS_CERT_FILE)\n"
      "c.yaml: tls.key_file: is required (in the file, as --tls.key_file or as TUNNELMESH_TLS_KEY_FILE)\n");
  file("tls:\n  enabled: true\n  cert_file: " + path("none.pem") + "\n  key_file: " + write("k.pem", "x") +
       "\n");
  EXPECT_EQ(errors(server()), "c.yaml:3: tls.cert_file: the file cannot be read: no such file or folder\n");
  file("tls:\n  enabled: true\n  cert_file: " + write("c.pem", "x") + "\n  key_file: " + path("k.pem") +
       "\n  min_version: '1.3'\n");
  const auto loaded = server(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  EXPECT_TRUE(loaded.config.tls.is_enabled && loaded.config.tls.needs_tls13);
  file("tls:\n  cert_file: /x\n");
  EXPECT_EQ(warnings(server()), "c.yaml:2: tls.cert_file: has no effect while tls.enabled is false\n");
}

TEST_F(ServerConfigTest, ModeAndStorageBelongTogether) {
  file("mode: cluster\n");
  EXPECT_EQ(errors(server()), "c.yaml: storage.driver: must be mysql when mode is cluster\n");
  file("storage:\n  driver: mysql\n");
  EXPECT_EQ(errors(server()),
            "c.yaml:2: storage.driver: must be sqlite when mode is local\n"
            "c.yaml: storage.mysql.dsn: is required (in the file, as --storage.mysql.dsn_file or as "
            "TUNNELMESH_STORAGE_MYSQL_DSN)\n");
  file("mode: cluster\nstorage:\n  driver: mysql\n  mysql:\n    dsn: u:p@tcp(db:3306)/t\n    cert: /c\n");
  EXPECT_EQ(errors(server()),
            "c.yaml:6: storage.mysql.cert: needs both storage.mysql.cert and storage.mysql.key\n"
            "c.yaml:6: storage.mysql.cert: the file cannot be read: no such file or folder\n");
}

TEST_F(ServerConfigTest, ServersOfOneMysqlAreACluster) {
  file(
      "mode: cluster\nstorage:\n  driver: mysql\n  mysql:\n    dsn: u:p@tcp(db:3306)/t\nnode:\n  id: "
      "berlin\n");
  const auto loaded = server(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(
      warnings(loaded),
      "c.yaml:1: mode: servers of a cluster do not pass streams to each other yet: a client reaches only "
      "agents that are connected to the same server\n");
  EXPECT_TRUE(loaded.config.is_cluster);
  EXPECT_EQ(loaded.config.storage.driver, StorageSettings::Driver::mysql);
  EXPECT_EQ(loaded.config.node_id, "berlin");
  EXPECT_EQ(loaded.config.node_id_path, "/var/lib/tunnelmesh/node-id");
}

TEST_F(ServerConfigTest, ANodeIdMustNotReadAsANumber) {
  for (const char* id : {"'7'", "'007'", "'1e5'", "'-1.5'"}) {
    file("node:\n  id: " + std::string(id) + "\n");
    EXPECT_EQ(errors(server()), "c.yaml:2: node.id: must not read as a number\n") << id;
  }
  for (const char* id : {"a7", "10.0.0.7-a", "node"}) {
    file("node:\n  id: " + std::string(id) + "\n");
    EXPECT_EQ(errors(server()), "") << id;
  }
}

TEST_F(ServerConfigTest, HostsAndOriginsAreNormalised) {
  file("security:\n  allowed_hosts: [Hub.Example.com]\n  allowed_origins: ['HTTPS://Hub.Example.com:443']\n");
  const auto loaded = server();
  ASSERT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.allowed_hosts, (std::vector<std::string>{"hub.example.com"}));
  EXPECT_EQ(loaded.config.allowed_origins, (std::vector<std::string>{"https://hub.example.com"}));
}

TEST_F(ServerConfigTest, APasswordInADsnOnTheCommandLineIsAWarning) {
  flag("storage.mysql.dsn", "u:hunter2@tcp(db:3306)/t");
  const std::string text = warnings(server());
  EXPECT_NE(text.find("storage.mysql.dsn: is visible to every user of this machine"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("hunter2"), std::string::npos);
}

TEST_F(ServerConfigTest, TokenOnTheCommandLineIsAWarning) {
  flag("server.metrics.token", "0123456789abcdef");
  const std::string text = warnings(server());
  EXPECT_TRUE(
      text.starts_with("flag --server.metrics.token: server.metrics.token: is visible to every user of this "
                       "machine until the program has read it; use a file or the environment\n"))
      << text;
}

}  // namespace
}  // namespace tmesh::config
