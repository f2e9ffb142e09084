#include "cpp/config/key_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "cpp/config/settings.hpp"
#include "cpp/config/value.hpp"

namespace tmesh::config {
namespace {

TEST(KeyTable, EveryPathIsUniqueAndWellFormed) {
  std::set<std::string_view> seen;
  for (const Key& key : keys()) {
    EXPECT_TRUE(seen.insert(key.path).second) << key.path;
    for (const char c : key.path) {
      EXPECT_TRUE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
                  std::string_view("._[]").find(c) != std::string_view::npos)
          << key.path;
    }
    EXPECT_EQ(find_key(key.path), &key);
  }
  EXPECT_GT(seen.size(), 150u);
}

TEST(KeyTable, EveryRowIsDocumentedAndHasARole) {
  for (const Key& key : keys()) {
    EXPECT_FALSE(key.doc.empty()) << key.path;
    EXPECT_NE(key.roles, 0) << key.path;
    EXPECT_EQ(key.effect == Effect::full, key.feature.empty()) << key.path;
    if (key.is_token) {
      EXPECT_TRUE(key.is_secret) << key.path;
    }
  }
}

TEST(KeyTable, EveryDefaultIsAValidValue) {
  for (const Key& key : keys()) {
    if (key.type == Type::objects || key.type == Type::tree) continue;
    if (key.type == Type::list) {
      for (const std::string& item : split_list(key.default_text))
        EXPECT_EQ(check_value(key, item), "") << key.path;
      continue;
    }
    const bool may_be_missing = key.is_element() && key.default_text.empty() && key.type == Type::choice;
    if (!may_be_missing) {
      EXPECT_EQ(check_value(key, key.default_text), "") << key.path;
    }
  }
}

TEST(KeyTable, EveryNumberHasBoundsAndRefusesWhatIsOutside) {
  for (const Key& key : keys()) {
    if (key.type != Type::count && key.type != Type::bytes && key.type != Type::duration) continue;
    const std::string unit = key.type == Type::duration ? "us" : "";
    ASSERT_LT(key.max, UINT64_MAX) << key.path << " has no upper bound";
    EXPECT_EQ(check_value(key, std::to_string(key.max) + unit), "") << key.path;
    EXPECT_NE(check_value(key, std::to_string(key.max + 1) + unit), "") << key.path;
    EXPECT_EQ(check_value(key, std::to_string(key.min) + unit), "") << key.path;
    if (key.min > 0) {
      EXPECT_NE(check_value(key, std::to_string(key.min - 1) + unit), "") << key.path;
    }
    for (const char* bad : {"-1", "18446744073709551616", "1e3", "many", ""}) {
      EXPECT_NE(check_value(key, bad + (*bad == '\0' ? "" : unit)), "") << key.path << " " << bad;
    }
  }
}

TEST(KeyTable, BooleansAndChoicesRefuseOtherWords) {
  for (const Key& key : keys()) {
    if (key.type != Type::boolean && key.type != Type::choice) continue;
    EXPECT_NE(check_value(key, "perhaps"), "") << key.path;
    EXPECT_NE(check_value(key, ""), "") << key.path;
  }
}

TEST(KeyTable, EnvironmentNamesAreUniqueAndDerived) {
  std::map<std::string, std::string_view> seen;
  for (const Key& key : keys()) {
    if (!key.is_settable()) continue;
    const auto [it, is_new] = seen.emplace(env_name(key.path), key.path);
    EXPECT_TRUE(is_new) << key.path << " and " << it->second;
  }
  EXPECT_EQ(env_name("server.relay.node_token"), "TUNNELMESH_SERVER_RELAY_NODE_TOKEN");
  EXPECT_EQ(env_name("a-b.c"), "TUNNELMESH_A_B_C");
}

TEST(KeyTable, FlagsAreUniqueForEachRole) {
  for (const Role role : {kServer, kAgent, kClient}) {
    std::set<std::string> seen;
    for (const Key& key : keys()) {
      if (!key.is_settable()) continue;
      EXPECT_TRUE(seen.insert(std::string(key.path)).second) << key.path;
      EXPECT_EQ(find_flag(key.path, role), &key);
      if ((key.roles & role) == 0) continue;
      for (std::string_view rest = key.flags; !rest.empty();) {
        const std::size_t bar = rest.find('|');
        const std::string name(rest.substr(0, bar));
        EXPECT_TRUE(seen.insert(name).second) << name;
        EXPECT_EQ(find_flag(name, role), &key) << name;
        rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
      }
    }
  }
}

TEST(KeyTable, AFlagBelongsToTheRolesOfItsRow) {
  EXPECT_EQ(find_flag("server-url", kAgent)->path, "agent.server_url");
  EXPECT_EQ(find_flag("server-url", kClient)->path, "client.server_url");
  EXPECT_EQ(find_flag("server-url", kServer), nullptr);
  EXPECT_EQ(find_flag("client.tunnels", kClient), nullptr);
}

// Defaults of INTERFACE 5.2 and of requirements C1, C8, D10, E3, E6, J1.
TEST(KeyTable, DocumentedDefaults) {
  const std::map<std::string_view, std::string_view> expected = {
      {"mode", "local"},
      {"storage.driver", "sqlite"},
      {"storage.sqlite.path", "tunnelmesh.db"},
      {"storage.auto_init", "true"},
      {"server.http_addr", ":80"},
      {"server.stream.max_concurrent_opens", "256"},
      {"server.stream.max_pending_opens", "1024"},
      {"server.stream.max_opens_per_link", "128"},
      {"server.stream.max_active_per_link", "16384"},
      {"server.stream.max_active_per_token", "16384"},
      {"server.stream.max_active_per_agent", "1024"},
      {"server.stream.initial_window", "262144"},
      {"server.stream.window_update_threshold", "131072"},
      {"server.stream.max_frame_payload", "32768"},
      {"server.authorization_cache.enabled", "true"},
      {"server.authorization_cache.local_positive_ttl", "5s"},
      {"server.authorization_cache.cluster_positive_ttl", "5m"},
      {"server.authorization_cache.negative_ttl", "3s"},
      {"server.authorization_cache.revision_poll_interval", "2s"},
      {"server.authorization_cache.max_stale_on_poll_error", "5s"},
      {"server.authorization_cache.max_entries", "100000"},
      {"server.authorization_cache.revoke_open_streams", "true"},
      {"server.http.read_header_timeout", "10s"},
      {"server.http.idle_timeout", "120s"},
      {"server.http.max_header_bytes", "1048576"},
      {"server.http.body_timeout", "30s"},
      {"server.http.max_connections", "0"},
      {"server.agents.max_connections_per_agent", "64"},
      {"server.audit.retention_days", "0"},
      {"server.webssh.enabled", "true"},
      {"server.proxy_entry.listen", "127.0.0.1:8089"},
      {"tls.enabled", "false"},
      {"tls.min_version", "1.2"},
      {"agent.connections.min", "1"},
      {"agent.connections.max", "1"},
      {"agent.connections.high_watermark", "16"},
      {"agent.connections.low_watermark", "2"},
      {"agent.connections.evaluation_interval", "10s"},
      {"agent.connections.cooldown", "30s"},
      {"agent.streams.max_concurrent_dials", "32"},
      {"agent.streams.max_pending_dials", "128"},
      {"agent.streams.connect_timeout", "5s"},
      {"agent.streams.open_timeout", "8s"},
      {"agent.streams.inbound_buffer_bytes", "262144"},
      {"agent.streams.max_active", "1024"},
      {"agent.streams.resolver", "async"},
      {"client.connections.min", "1"},
      {"client.connections.max", "1"},
      {"client.stream.open_timeout", "8s"},
      {"client.stream.inbound_buffer_bytes", "262144"},
      {"client.remote_validation.positive_ttl", "15s"},
      {"client.remote_validation.negative_ttl", "2s"},
      {"client.remote_validation.timeout", "3s"},
      {"client.remote_validation.max_entries", "10000"},
      {"client.handshake_timeout", "10s"},
      {"client.udp_idle_timeout", "60s"},
      {"client.limits.max_window", "16777216"},
      {"client.limits.memory_budget", "268435456"},
      {"client.limits.window_violations", "256 in 10s"},
      {"agent.shutdown_timeout", "10s"},
      {"agent.log_level", "info"},
      {"agent.log_format", "text"}};
  for (const auto& [path, value] : expected) {
    const Key* key = find_key(path);
    ASSERT_NE(key, nullptr) << path;
    EXPECT_EQ(key->default_text, value) << path;
  }
}

TEST(KeyTable, NearestKey) {
  EXPECT_EQ(nearest_key("server.http_adr", kServer), "server.http_addr");
  EXPECT_EQ(nearest_key("agent.stream.max_active", kAgent), "agent.streams.max_active") << "same last part";
  EXPECT_EQ(nearest_key("server_url", kAgent), "agent.server_url") << "keys of the own role first";
  EXPECT_EQ(nearest_key("server_url", kClient), "client.server_url");
  EXPECT_EQ(nearest_key("sevrer", kServer), "server") << "sections, too";
  EXPECT_EQ(nearest_key("client.tunnels[].lisen", kClient), "client.tunnels[].listen");
  EXPECT_EQ(nearest_key("server.strem", kServer), "server.stream");
  EXPECT_EQ(nearest_key("server.http-addr", kServer), "server.http_addr");
  EXPECT_EQ(nearest_key("sevrer.http_adr", kServer), "server.http_addr") << "a path written with dots";
  EXPECT_EQ(nearest_key("server.nope", kServer), "") << "the common beginning is no likeness";
  EXPECT_EQ(nearest_key("completely.different", kServer), "");
}

TEST(KeyTable, Sections) {
  EXPECT_TRUE(is_section("server"));
  EXPECT_TRUE(is_section("server.stream"));
  EXPECT_FALSE(is_section("server.str"));
  EXPECT_FALSE(is_section("server.http_addr"));
  EXPECT_TRUE(is_section("client.tunnels[]"));
  EXPECT_FALSE(is_section("client.tunnels"));
}

}  // namespace
}  // namespace tmesh::config
