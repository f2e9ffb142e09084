// What is said about a bad file, word for word.

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

using FileProblems = ConfigTest;

TEST_F(FileProblems, EveryProblemAtOnceWithItsLineAndTheNearestKey) {
  file(
      "mode: locale\n"
      "sevrer:\n"
      "  http_addr: ':80'\n"
      "  stream:\n"
      "    x: 1\n"
      "server:\n"
      "  http_adr: ':80'\n"
      "  http_addr: 80\n"
      "  stream:\n"
      "    max_pending_opens: -1\n"
      "    max_concurrent_opens: [1]\n"
      "    initial_window: 10GB\n"
      "  http: 5\n"
      "  authorization_cache:\n"
      "    negative_ttl: 3\n"
      "    enabled: yes\n"
      "security:\n"
      "  allowed_hosts:\n"
      "    - a.example.com\n"
      "    - '*.example.com'\n"
      "    - [b]\n"
      "  allowed_origins: {a: b}\n"
      "storage:\n"
      "  driver: sqllite\n"
      "http_addr: ':80'\n");
  EXPECT_EQ(errors(server()),
            "c.yaml:1: mode: must be one of local, cluster (did you mean local?)\n"
            "c.yaml:2: sevrer: unknown key (did you mean server?)\n"
            "c.yaml:7: server.http_adr: unknown key (did you mean server.http_addr?)\n"
            "c.yaml:8: server.http_addr: must be host:port\n"
            "c.yaml:10: server.stream.max_pending_opens: must not be negative\n"
            "c.yaml:11: server.stream.max_concurrent_opens: must be a single value\n"
            "c.yaml:12: server.stream.initial_window: must be from 1 to 1073741824 bytes\n"
            "c.yaml:13: server.http: must be a mapping of keys\n"
            "c.yaml:15: server.authorization_cache.negative_ttl: needs a unit, as in 100ms, 5s or 1m30s\n"
            "c.yaml:16: server.authorization_cache.enabled: must be true or false\n"
            "c.yaml:20: security.allowed_hosts[1]: must be a host, or host:port, without a wildcard\n"
            "c.yaml:21: security.allowed_hosts[2]: must be a single value\n"
            "c.yaml:22: security.allowed_origins: must be a list\n"
            "c.yaml:24: storage.driver: must be one of sqlite, mysql (did you mean sqlite?)\n"
            "c.yaml:25: http_addr: unknown key (did you mean server.http_addr?)\n");
}

TEST_F(FileProblems, ListsOfMappings) {
  file(
      "client:\n"
      "  server_url: wss://hub.example.com/\n"
      "  token: t\n"
      "  tunnels:\n"
      "  - just text\n"
      "  -\n"
      "  - name: a\n"
      "    protocol: sock5\n"
      "    lisen: 127.0.0.1:1\n"
      "    listen: [1]\n"
      "    agent_id: x\n"
      "  metadata: {a: b}\n");
  EXPECT_EQ(errors(client()),
            "c.yaml:5: client.tunnels[0]: must be a mapping\n"
            "c.yaml:6: client.tunnels[1]: must be a mapping\n"
            "c.yaml:8: client.tunnels[2].protocol: must be one of tcp, udp, http, socks5, http-proxy (did "
            "you mean socks5?)\n"
            "c.yaml:9: client.tunnels[2].lisen: unknown key (did you mean client.tunnels[].listen?)\n"
            "c.yaml:10: client.tunnels[2].listen: must be a single value\n"
            "c.yaml:12: client.metadata: must be a list of mappings\n");
}

TEST_F(FileProblems, RootMustBeAMapping) {
  file("just text\n");
  EXPECT_EQ(errors(server()), "c.yaml:1: must be a mapping of keys\n");
  file("- a\n- b\n");
  EXPECT_NE(errors(server()), "");
  file("");
  EXPECT_EQ(errors(server()), "");
  file("{}");
  EXPECT_EQ(errors(server()), "");
}

TEST_F(FileProblems, SyntaxAndValuesTogether) {
  file("mode: x\nserver:\n  http_addr: ':80'\n bad: 1\n");
  const std::string text = errors(server());
  EXPECT_TRUE(text.starts_with("c.yaml:1: mode: must be one of local, cluster\nc.yaml:")) << text;
  EXPECT_NE(text.find("syntax: "), std::string::npos);
}

TEST_F(FileProblems, UnreadableFiles) {
  source_.file = path("none.yaml");
  EXPECT_EQ(errors(server()), "none.yaml: cannot be read: no such file or folder\n");
  source_.file = folder_;
  EXPECT_NE(errors(server()).find(": cannot be read: is a folder, not a file\n"), std::string::npos);
  source_.file = write("big.yaml", std::string(2U << 20, '#'));
  EXPECT_EQ(errors(server()), "big.yaml: is larger than 1 MiB\n");
}

TEST_F(FileProblems, TomlIsRefusedByName) {
  source_.file = write("server.TOML", "mode = 'local'\n");
  EXPECT_EQ(errors(server()), "server.TOML: TOML is not supported; use YAML or JSON\n");
}

TEST_F(FileProblems, JsonFilesWork) {
  source_.file =
      write("server.json", "{\n\t\"server\": {\n\t\t\"http_addr\": \":81\",\n\t\t\"nope\": 1\n\t}\n}\n");
  const auto loaded = server();
  EXPECT_EQ(errors(loaded), "server.json:4: server.nope: unknown key\n");
  EXPECT_EQ(loaded.config.http_addr.port, 81);
}

TEST_F(FileProblems, NoValueIsEverRepeated) {
  const std::string marker = "S3CR3T";
  for (const Key& key : keys()) {
    if (key.type == Type::tree || key.type == Type::objects) continue;
    // Once as a text, once as a list item, once as a key below it.
    const std::string value = marker + " \\x01*?/ " + marker;
    std::string name(key.path);
    if (key.is_element()) {
      const std::size_t at = name.find("[].");
      file(name.substr(0, at) + ":\n  - " + name.substr(at + 3) + ": \"" + value + "\"\n");
    } else {
      file(name + ": \"" + value + "\"\n");
    }
    const auto a = server();
    const auto b = agent();
    const auto c = client();
    const std::string said = a.problems.errors_text() + a.problems.warnings_text() +
                             b.problems.errors_text() + b.problems.warnings_text() +
                             c.problems.errors_text() + c.problems.warnings_text();
    EXPECT_EQ(said.find(marker), std::string::npos) << said;
    if (key.is_settable()) {
      env(env_name(key.path) + "=" + value);
      flag(std::string(key.path), value);
      EXPECT_EQ(server().problems.errors_text().find(marker), std::string::npos) << key.path;
    }
    fresh();
  }
  file("agent:\n  token:\n    S: [S3CR3T]\n  tokenn: S3CR3T\n");
  EXPECT_EQ(errors(agent()).find("S3CR3T"), std::string::npos);
}

TEST_F(FileProblems, OnlyTheFirstThousandAreListed) {
  std::string text;
  for (int i = 0; i < 1500; ++i) text += "unknown_key_number_" + std::to_string(i) + ": 1\n";
  file(text);
  const auto loaded = server();
  EXPECT_EQ(loaded.problems.error_count(), 1500u);
  const std::string said = errors(loaded);
  EXPECT_TRUE(said.ends_with("and 500 more\n")) << said.substr(said.size() - 100);
}

// Each of these took minutes before something was bounded.
TEST_F(FileProblems, HostileFilesTakeNoTime) {
  std::string unknown;
  for (int i = 0; i < 20000; ++i) unknown += "k" + std::to_string(i) + ": 1\n";
  file(unknown);
  EXPECT_EQ(client().problems.error_count(), 20002u) << "all of them, and what is required";
  std::string items;
  for (int i = 0; i < 20000; ++i) items += "    - {}\n";
  file("client:\n  tunnels:\n" + items);
  EXPECT_LE(client().config.tunnels.size(), 256u);
  file("client:\n  metadata:\n" + items);
  EXPECT_LE(client().config.metadata.size(), 32u);
}

TEST_F(FileProblems, MissingFeaturesGetOneWarningEach) {
  file(
      "registry:\n  type: database\n  endpoints: []\n"
      "server:\n  https_addr: ':443'\n  dynamic_suffix: a.example.com\n"
      "  webssh:\n    ticket_ttl: 30s\n    idle_timeout: 5m\n"
      "  vpn:\n    anything: [1, {x: y}]\n    enabled: false\n"
      "security:\n  auth:\n    mfa: {digits: 6}\n");
  const auto loaded = server();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded),
            "c.yaml:2: registry: is accepted but has no effect in this version\n"
            "c.yaml:5: server.https_addr: is accepted but has no effect in this version\n"
            "c.yaml:6: server.dynamic_suffix: is accepted but has no effect in this version\n"
            "c.yaml:8: server.webssh: is accepted but has no effect in this version\n"
            "c.yaml:10: server.vpn: is accepted but has no effect in this version\n"
            "c.yaml:14: security.auth: is accepted but has no effect in this version\n");
  EXPECT_EQ(warnings(agent(Purpose::print)), "") << "other programs' keys are not this one's business";
}

TEST_F(FileProblems, AKeyThatExistsBelowAMissingFeatureHasItsEffect) {
  file("security:\n  auth:\n    session_token_ttl: 12h\n");
  const auto alone = server();
  EXPECT_EQ(errors(alone), "");
  EXPECT_EQ(warnings(alone), "");
  EXPECT_EQ(alone.config.session_token_ttl_us, 43'200'000'000U);
  file("security:\n  auth:\n    login_throttle: {max_attempts: 3, window: 1m, block: 2m}\n");
  const auto throttle = server();
  EXPECT_EQ(errors(throttle) + warnings(throttle), "");
  EXPECT_EQ(throttle.config.login_throttle.attempts_max, 3U);
  EXPECT_EQ(throttle.config.login_throttle.window_us, 60'000'000U);
  EXPECT_EQ(throttle.config.login_throttle.block_us, 120'000'000U);
  file("security:\n  auth:\n    session_token_ttl: 12h\n    mfa: {digits: 6}\n");
  EXPECT_EQ(warnings(server()), "c.yaml:2: security.auth: is accepted but has no effect in this version\n");
}

TEST_F(FileProblems, SwitchingOnAMissingFeatureIsAnError) {
  file(
      "server:\n  webssh: {enabled: true}\n  proxy_entry: {enabled: true}\n  relay: {enabled: true}\n"
      "  vpn: {enabled: true}\nsecurity:\n  auth: {enabled: true}\n");
  EXPECT_EQ(errors(server()),
            "c.yaml:2: server.webssh.enabled: is not available in this version\n"
            "c.yaml:3: server.proxy_entry.enabled: is not available in this version\n"
            "c.yaml:4: server.relay.enabled: is not available in this version\n"
            "c.yaml:5: server.vpn.enabled: is not available in this version\n"
            "c.yaml:7: security.auth.enabled: is not available in this version\n");
  EXPECT_EQ(errors(agent(Purpose::print)), "");
}

TEST_F(FileProblems, OneModelForAllPrograms) {
  file(
      "mode: local\nserver: {http_addr: ':8080'}\nagent: {id: a, token: t, server_url: "
      "'ws://127.0.0.1:8080'}\n"
      "client: {token: t, server_url: 'ws://127.0.0.1:8080', tunnels: [{protocol: socks5, listen: "
      "'127.0.0.1:1080', agent_id: a}]}\n");
  EXPECT_EQ(errors(server(Purpose::run)), "");
  EXPECT_EQ(errors(agent(Purpose::run)), "");
  EXPECT_EQ(errors(client(Purpose::run)), "");
}

}  // namespace
}  // namespace tmesh::config
