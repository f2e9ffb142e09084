// Command line over environment over file over default, for every key (requirement F1).
#include <algorithm>

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

class Precedence : public ConfigTest {
 protected:
  Settings settings() {
    Problems problems;
    Settings out = gather(source(), kServer, problems);
    EXPECT_EQ(problems.errors_text(), "");
    return out;
  }
};

TEST_F(Precedence, FlagOverEnvironmentOverFileOverDefault) {
  const char* key = "server.stream.max_pending_opens";
  EXPECT_EQ(settings().text(key), "1024");
  EXPECT_EQ(settings().origin(key).text(), "default");
  file("server:\n  stream:\n    max_pending_opens: 1\n");
  EXPECT_EQ(settings().text(key), "1");
  EXPECT_EQ(short_text(settings().origin(key).text()), "c.yaml:3");
  env("TUNNELMESH_SERVER_STREAM_MAX_PENDING_OPENS=2");
  EXPECT_EQ(settings().text(key), "2");
  EXPECT_EQ(settings().origin(key).text(), "env TUNNELMESH_SERVER_STREAM_MAX_PENDING_OPENS");
  flag(key, "3");
  EXPECT_EQ(settings().text(key), "3");
  EXPECT_EQ(settings().origin(key).text(), "flag --server.stream.max_pending_opens");
}

// A valid value of a key that differs from its default, by type.
std::string other_value(const Key& key) {
  switch (key.type) {
    case Type::boolean:
      return key.default_text == "true" ? "false" : "true";
    case Type::count:
    case Type::bytes:
      return std::to_string(key.default_text == std::to_string(key.max) ? key.min : key.max);
    case Type::duration:
      return std::to_string(key.max) + "us";
    case Type::rate:
      return "7 in 7s";
    case Type::choice: {
      const std::size_t bar = key.choices.find('|');
      const std::string_view first = key.choices.substr(0, bar);
      return std::string(first != key.default_text
                             ? first
                             : key.choices.substr(bar + 1, key.choices.substr(bar + 1).find('|')));
    }
    default:
      break;
  }
  for (const char* text : {"plain", "/plain/path", "127.0.0.9:9", "wss://h.example.com/x", "10.0.0.0/8",
                           "10.9.9.9", "https://origin.example.com", "sixteen-characters"}) {
    if (check_value(key, text).empty() && key.default_text != text) return text;
  }
  return "";
}

TEST_F(Precedence, EveryKeyCanComeFromEverySource) {
  for (const Key& key : keys()) {
    if (!key.is_settable()) continue;
    const std::string value = other_value(key);
    ASSERT_NE(value, "") << key.path;
    ASSERT_EQ(check_value(key, value), "") << key.path;
    Problems problems;
    fresh();
    file(std::string(key.path) + ": \"" + value + "\"\n");
    const Settings from_file = gather(source(), kServer, problems);
    EXPECT_EQ(from_file.at(key).text(), value) << key.path;
    EXPECT_EQ(from_file.at(key).origin.kind, Origin::Kind::file) << key.path;
    fresh();
    env(env_name(key.path) + "=" + value);
    EXPECT_EQ(gather(source(), kServer, problems).at(key).text(), value) << key.path;
    fresh();
    flag(std::string(key.path), value);
    EXPECT_EQ(gather(source(), kServer, problems).at(key).text(), value) << key.path;
  }
}

TEST_F(Precedence, EmptyVariableIsUnset) {
  file("server:\n  http_addr: ':81'\n");
  env("TUNNELMESH_SERVER_HTTP_ADDR=");
  EXPECT_EQ(settings().text("server.http_addr"), ":81");
}

TEST_F(Precedence, NullInAFileIsUnset) {
  file("server:\n  http_addr:\n  stream: ~\n");
  EXPECT_EQ(settings().text("server.http_addr"), ":80");
}

TEST_F(Precedence, RefusedValueLeavesTheNextLowerSource) {
  file("server:\n  stream:\n    max_pending_opens: 7\n");
  env("TUNNELMESH_SERVER_STREAM_MAX_PENDING_OPENS=many");
  Problems problems;
  const Settings out = gather(source(), kServer, problems);
  EXPECT_EQ(out.text("server.stream.max_pending_opens"), "7");
  EXPECT_EQ(problems.errors_text(),
            "env TUNNELMESH_SERVER_STREAM_MAX_PENDING_OPENS: server.stream.max_pending_opens: must be a "
            "whole number\n");
}

TEST_F(Precedence, ShadowedValuesAreCheckedAsWell) {
  file("server:\n  stream:\n    max_pending_opens: 0\n");
  flag("server.stream.max_pending_opens", "5");
  EXPECT_EQ(errors(server()), "c.yaml:3: server.stream.max_pending_opens: must be from 1 to 1000000\n");
}

TEST_F(Precedence, ListsFromEverySource) {
  file("security:\n  allowed_hosts: [a, b]\n");
  EXPECT_EQ(settings().list("security.allowed_hosts"), (std::vector<std::string>{"a", "b"}));
  file("security:\n  allowed_hosts: a, b,c\n");
  EXPECT_EQ(settings().list("security.allowed_hosts"), (std::vector<std::string>{"a", "b", "c"}));
  file("security:\n  allowed_hosts: []\n");
  EXPECT_TRUE(settings().list("security.allowed_hosts").empty());
  env("TUNNELMESH_SECURITY_ALLOWED_HOSTS=d,e");
  EXPECT_EQ(settings().list("security.allowed_hosts"), (std::vector<std::string>{"d", "e"}));
  flag("security.allowed_hosts", "f");
  flag("security.allowed_hosts", "g,h");
  EXPECT_EQ(settings().list("security.allowed_hosts"), (std::vector<std::string>{"f", "g", "h"}));
}

TEST_F(Precedence, LastOfRepeatedFlagsCounts) {
  flag("mode", "cluster");
  flag("mode", "local");
  EXPECT_EQ(settings().text("mode"), "local");
}

TEST_F(Precedence, FlatAliasCountsOnlyWhenTheKeyIsSetNowhere) {
  file("server:\n  tcp_bridge_enabled: false\n");
  EXPECT_EQ(settings().text("server.tcp_bridge.enabled"), "false");
  file("server:\n  tcp_bridge_enabled: false\n  tcp_bridge:\n    enabled: true\n");
  EXPECT_EQ(settings().text("server.tcp_bridge.enabled"), "true");
  file("server:\n  tcp_bridge_enabled: false\n");
  env("TUNNELMESH_SERVER_TCP_BRIDGE_ENABLED=true");
  EXPECT_EQ(settings().text("server.tcp_bridge.enabled"), "true");
}

TEST_F(Precedence, ARefusedValueIsNotMissingAsWell) {
  env("TUNNELMESH_CLIENT_SERVER_URL=hub.example.com");
  env("TUNNELMESH_CLIENT_TOKEN=t");
  const std::string said = errors(client());
  EXPECT_TRUE(said.starts_with("env TUNNELMESH_CLIENT_SERVER_URL: client.server_url: must be ")) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(Precedence, MistypedVariableIsMentioned) {
  env("TUNNELMESH_SERVER_HTTP_ADR=:81");
  env("TUNNELMESH_SERVICE_PORT_8080_TCP=tcp://10.0.0.1:8080");
  env("TUNNELMESH_SOCKS5_PASSWORD=x");
  env("OTHER_SERVER_HTTP_ADDR=:82");
  const auto loaded = server();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded),
            "env TUNNELMESH_SERVER_HTTP_ADR: names no key (did you mean TUNNELMESH_SERVER_HTTP_ADDR?)\n");
}

}  // namespace
}  // namespace tmesh::config
