#include "cpp/config/print.hpp"

#include "cpp/base/json.hpp"
#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

class Print : public ConfigTest {
 protected:
  static json::Value at(json::Value value, std::string_view path) {
    while (true) {
      const std::size_t dot = path.find('.');
      value = value.get(path.substr(0, dot));
      if (dot == std::string_view::npos) return value;
      path.remove_prefix(dot + 1);
    }
  }
};

TEST_F(Print, IndentedJsonWithTypedValues) {
  file("security: {allowed_hosts: [a.example.com]}\n");
  const std::string text = print_config(server(Purpose::print).settings, kServer, false);
  const auto doc = json::parse(text);
  ASSERT_TRUE(doc) << text;
  const json::Value root = doc->root();
  EXPECT_EQ(at(root, "server.http_addr").as_string(), ":80");
  EXPECT_EQ(at(root, "server.stream.max_pending_opens").as_int(), 1024);
  EXPECT_EQ(at(root, "storage.auto_init").as_bool(), true);
  EXPECT_EQ(at(root, "server.http.idle_timeout").as_string(), "2m");
  EXPECT_EQ(at(root, "security.allowed_hosts").size(), 1u);
  EXPECT_TRUE(text.starts_with("{\n  \"mode\": \"local\",\n  \"storage\": {\n    \"driver\": \"sqlite\",\n"))
      << text;
  EXPECT_TRUE(text.ends_with("}\n"));
}

// A key for the service can stand nowhere else.
TEST_F(Print, TheQueryOfAnAuthUrlIsRedacted) {
  file(
      "client:\n  tunnels:\n    - {auth_url: 'https://auth.example.com/ask?key=S3CR3T'}\n    - {auth_url: "
      "'https://auth.example.com/ask'}\n");
  for (const bool with_origins : {false, true}) {
    const std::string text = print_config(client(Purpose::print).settings, kClient, with_origins);
    EXPECT_EQ(text.find("S3CR3T"), std::string::npos);
    EXPECT_NE(text.find("\"https://auth.example.com/ask?[redacted]\""), std::string::npos) << text;
    EXPECT_NE(text.find("\"https://auth.example.com/ask\""), std::string::npos) << text;
  }
}

TEST_F(Print, SectionsAppearOnce) {
  const std::string text = print_config(server(Purpose::print).settings, kServer, false);
  const std::size_t first = text.find("\n  \"server\": {");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(text.find("\n  \"server\": {", first + 1), std::string::npos);
}

TEST_F(Print, TokensAreLeftOutAndSecretsRedacted) {
  file(
      "agent: {token: S3CR3T}\nclient: {token: S3CR3T}\n"
      "server: {relay: {node_token: S3CR3T}, metrics: {token: S3CR3TS3CR3TS3CR3T}}\n"
      "storage: {mysql: {dsn: 'u:S3CR3T@tcp(h)/d'}}\n");
  for (const Role role : {kServer, kAgent, kClient}) {
    for (const bool with_origins : {false, true}) {
      const std::string text = print_config(server(Purpose::print).settings, role, with_origins);
      EXPECT_EQ(text.find("S3CR3T"), std::string::npos);
      EXPECT_EQ(text.find("\"token\""), std::string::npos);
      EXPECT_EQ(text.find("node_token"), std::string::npos);
      EXPECT_NE(text.find("\"dsn\": "), std::string::npos);
      EXPECT_NE(text.find("\"[redacted]\""), std::string::npos);
    }
  }
}

TEST_F(Print, EmptySecretIsEmpty) {
  const auto doc = json::parse(print_config(server(Purpose::print).settings, kServer, false));
  ASSERT_TRUE(doc);
  EXPECT_EQ(at(doc->root(), "storage.mysql.dsn").as_string(), "");
}

TEST_F(Print, OriginOfEachValue) {
  file("server:\n  http_addr: ':81'\n");
  env("TUNNELMESH_SERVER_LOG_LEVEL=debug");
  flag("mode", "local");
  const auto doc = json::parse(short_text(print_config(server(Purpose::print).settings, kServer, true)));
  ASSERT_TRUE(doc);
  const json::Value root = doc->root();
  EXPECT_EQ(at(root, "server.http_addr.value").as_string(), ":81");
  EXPECT_EQ(at(root, "server.http_addr.origin").as_string(), "c.yaml:2");
  EXPECT_EQ(at(root, "server.log_level.origin").as_string(), "env TUNNELMESH_SERVER_LOG_LEVEL");
  EXPECT_EQ(at(root, "mode.origin").as_string(), "flag --mode");
  EXPECT_EQ(at(root, "storage.driver.origin").as_string(), "default");
}

TEST_F(Print, TunnelsWithTheirDefaults) {
  file("client:\n  tunnels:\n  - {name: a, protocol: socks5, listen: '127.0.0.1:1', agent_id: x}\n");
  const auto doc = json::parse(short_text(print_config(client(Purpose::print).settings, kClient, false)));
  ASSERT_TRUE(doc);
  const json::Value tunnels = at(doc->root(), "client.tunnels");
  ASSERT_EQ(tunnels.size(), 1u);
  const json::Value first = *tunnels.begin();
  EXPECT_EQ(first.get("name").as_string(), "a");
  EXPECT_EQ(first.get("auth_mode").as_string(), "none");
  EXPECT_EQ(first.get("allow_remote").as_bool(), false);
  EXPECT_EQ(first.get("target_port").as_int(), 0);
  EXPECT_TRUE(first.get("hosts").is_array());
}

TEST_F(Print, OnlyKeysOfTheRoleUnlessSet) {
  const std::string plain = print_config(agent(Purpose::print).settings, kAgent, false);
  EXPECT_EQ(plain.find("\"server\""), std::string::npos);
  EXPECT_EQ(plain.find("\"icmp"), std::string::npos);
  file("server: {http_addr: ':1'}\n");
  EXPECT_NE(print_config(agent(Purpose::print).settings, kAgent, false).find("\"http_addr\""),
            std::string::npos);
}

TEST_F(Print, ReferenceHasEveryKeyOnce) {
  const std::string text = dump_reference_markdown();
  for (const Key& key : keys()) {
    const std::string cell = "| `" + std::string(key.path) + "` |";
    const std::size_t at = text.find(cell);
    ASSERT_NE(at, std::string::npos) << key.path;
    EXPECT_EQ(text.find(cell, at + 1), std::string::npos) << key.path;
    if (key.is_settable()) {
      EXPECT_NE(text.find("`" + env_name(key.path) + "`"), std::string::npos) << key.path;
    }
  }
}

TEST_F(Print, HelpNamesEveryKeyOfTheRole) {
  for (const Role role : {kServer, kAgent, kClient}) {
    const std::string text = keys_help(role);
    for (const Key& key : keys()) {
      const bool is_there =
          text.find("  --" + std::string(key.path) + (key.flags.empty() ? " " : ", ")) != std::string::npos;
      EXPECT_EQ(is_there, (key.roles & role) != 0 && key.is_settable() && key.effect == Effect::full)
          << key.path;
    }
  }
}

}  // namespace
}  // namespace tmesh::config
