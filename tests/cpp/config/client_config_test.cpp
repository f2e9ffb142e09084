#include "cpp/config/client.hpp"

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

class ClientConfigTest : public ConfigTest {
 protected:
  // A complete file with the given tunnels, one flow mapping each, from line 5 on.
  void tunnels(const std::vector<std::string>& list) {
    std::string text = "client:\n  server_url: wss://hub.example.com\n  token: t\n  tunnels:\n";
    for (const std::string& tunnel : list) text += "  - {" + tunnel + "}\n";
    file(text);
  }
  std::string tunnel_errors(const std::string& tunnel, Purpose purpose = Purpose::check) {
    tunnels({tunnel});
    return errors(client(purpose));
  }
};

TEST_F(ClientConfigTest, CompleteFile) {
  tunnels({"name: web, protocol: socks5, listen: '127.0.0.1:1080', agent_id: home",
           "protocol: socks5, listen: 'unix:/run/tm.sock', agent_id: home, socket_mode: '0660', "
           "socket_owner: 'a:b'"});
  const auto loaded = client(Purpose::check);
  ASSERT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded), "");
  const ClientConfig& c = loaded.config;
  EXPECT_EQ(c.server.endpoint.path, "/ws/client");
  EXPECT_EQ(c.handshake_timeout_us, 10000000u);
  EXPECT_EQ(c.open_timeout_us, 8000000u);
  ASSERT_EQ(c.tunnels.size(), 2u);
  EXPECT_EQ(c.tunnels[0].name, "web");
  EXPECT_EQ(c.tunnels[0].protocol, Tunnel::Protocol::socks5);
  EXPECT_EQ(c.tunnels[0].listen, (HostPort{"127.0.0.1", 1080}));
  EXPECT_EQ(c.tunnels[0].agent_id, "home");
  EXPECT_EQ(c.tunnels[0].socket_mode, 0600u);
  EXPECT_TRUE(c.tunnels[0].is_local());
  EXPECT_EQ(c.tunnels[1].name, "tunnel-2");
  EXPECT_EQ(c.tunnels[1].socket_path, "/run/tm.sock");
  EXPECT_EQ(c.tunnels[1].socket_mode, 0660u);
  EXPECT_EQ(c.tunnels[1].socket_owner, "a:b");
  EXPECT_TRUE(c.tunnels[1].is_local()) << "a Unix socket counts as local (J5)";
}

TEST_F(ClientConfigTest, StructDefaultsAgreeWithTheTable) {
  const ClientConfig made;
  const ClientConfig loaded = client(Purpose::print).config;
  EXPECT_EQ(made.open_timeout_us, loaded.open_timeout_us);
  EXPECT_EQ(made.inbound_buffer_bytes, loaded.inbound_buffer_bytes);
  EXPECT_EQ(made.handshake_timeout_us, loaded.handshake_timeout_us);
  EXPECT_EQ(made.udp_idle_timeout_us, loaded.udp_idle_timeout_us);
  EXPECT_EQ(made.remote_validation.positive_ttl_us, loaded.remote_validation.positive_ttl_us);
  EXPECT_EQ(made.remote_validation.negative_ttl_us, loaded.remote_validation.negative_ttl_us);
  EXPECT_EQ(made.remote_validation.timeout_us, loaded.remote_validation.timeout_us);
  EXPECT_EQ(made.remote_validation.entries_max, loaded.remote_validation.entries_max);
}

TEST_F(ClientConfigTest, TunnelNeedsProtocolListenAndAgent) {
  EXPECT_EQ(tunnel_errors("name: x"),
            "c.yaml:5: client.tunnels[0].listen: is required\n"
            "c.yaml:5: client.tunnels[0].protocol: is required\n"
            "c.yaml:5: client.tunnels[0].agent_id: is required\n");
}

TEST_F(ClientConfigTest, RemoteSocks5NeedsConsentAndPassword) {
  const std::string base = "protocol: socks5, agent_id: a, listen: ";
  for (const char* local :
       {"'127.0.0.1:1080'", "'[::1]:1080'", "'localhost:1080'", "'127.9.9.9:0'", "'unix:/run/x'"}) {
    EXPECT_EQ(tunnel_errors(base + local), "") << local;
  }
  const std::string consent =
      "c.yaml:5: client.tunnels[0].listen: is reachable from other machines; that needs allow_remote: true\n";
  const std::string password =
      "c.yaml:5: client.tunnels[0].listen: is reachable from other machines; that needs auth_mode: "
      "password\n";
  for (const char* remote : {"':1080'", "'0.0.0.0:1080'", "'[::]:1080'", "'192.168.1.1:1080'"}) {
    EXPECT_EQ(tunnel_errors(base + remote), consent + password) << remote;
    EXPECT_EQ(tunnel_errors(base + remote + ", allow_remote: true"), password) << remote;
    EXPECT_EQ(tunnel_errors(base + remote + ", auth_mode: password"), consent) << remote;
    EXPECT_EQ(tunnel_errors(base + remote + ", auth_mode: password, allow_remote: true"), "") << remote;
  }
}

TEST_F(ClientConfigTest, RemoteHttpProxyNeedsConsentAndBasic) {
  EXPECT_EQ(
      tunnel_errors("protocol: http-proxy, agent_id: a, listen: ':8080'"),
      "c.yaml:5: client.tunnels[0].listen: is reachable from other machines; that needs allow_remote: true\n"
      "c.yaml:5: client.tunnels[0].listen: is reachable from other machines; that needs auth_mode: basic\n");
  EXPECT_EQ(tunnel_errors(
                "protocol: http-proxy, agent_id: a, listen: ':8080', allow_remote: true, auth_mode: basic"),
            "");
}

TEST_F(ClientConfigTest, RemoteTcpNeedsConsentAndWarns) {
  for (const char* protocol : {"tcp", "udp", "http"}) {
    const std::string base = std::string("protocol: ") + protocol +
                             ", agent_id: a, target_host: db, target_port: 5432, listen: ':5432'";
    EXPECT_EQ(tunnel_errors(base),
              "c.yaml:5: client.tunnels[0].listen: is reachable from other machines; that needs "
              "allow_remote: true\n");
    EXPECT_EQ(tunnel_errors(base + ", allow_remote: true"), "");
    EXPECT_NE(warnings(client()).find("is reachable from other machines without any authentication\n"),
              std::string::npos);
  }
}

TEST_F(ClientConfigTest, AuthModeFitsTheProtocol) {
  const std::string at = ", agent_id: a, listen: '127.0.0.1:1', target_host: h, target_port: 1, auth_mode: ";
  EXPECT_EQ(tunnel_errors("protocol: socks5, agent_id: a, listen: '127.0.0.1:1', auth_mode: basic"),
            "c.yaml:5: client.tunnels[0].auth_mode: must be none or password with protocol socks5\n");
  EXPECT_EQ(tunnel_errors("protocol: http-proxy, agent_id: a, listen: '127.0.0.1:1', auth_mode: password"),
            "c.yaml:5: client.tunnels[0].auth_mode: must be none or basic with protocol http-proxy\n");
  for (const char* protocol : {"tcp", "udp", "http"}) {
    EXPECT_EQ(tunnel_errors(std::string("protocol: ") + protocol + at + "password"),
              "c.yaml:5: client.tunnels[0].auth_mode: must be none with this protocol\n");
    EXPECT_EQ(tunnel_errors(std::string("protocol: ") + protocol + at + "none"), "");
  }
}

TEST_F(ClientConfigTest, ForwardsNeedATarget) {
  EXPECT_EQ(tunnel_errors("protocol: tcp, agent_id: a, listen: '127.0.0.1:1'"),
            "c.yaml:5: client.tunnels[0].target_host: is required\n"
            "c.yaml:5: client.tunnels[0].target_port: is required\n");
  EXPECT_EQ(
      tunnel_errors("protocol: tcp, agent_id: a, listen: '127.0.0.1:1', target_host: h, target_port: 65536"),
      "c.yaml:5: client.tunnels[0].target_port: must be from 0 to 65535\n");
  EXPECT_EQ(tunnel_errors("protocol: socks5, agent_id: a, listen: '127.0.0.1:1', target_host: h"), "");
  EXPECT_EQ(warnings(client()),
            "c.yaml:5: client.tunnels[0].target_host: has no effect with this protocol\n");
}

TEST_F(ClientConfigTest, NamesAndListenersAreUnique) {
  tunnels({"name: a, protocol: socks5, listen: '127.0.0.1:1080', agent_id: x",
           "name: a, protocol: socks5, listen: '127.0.0.1:1080', agent_id: y",
           "name: b, protocol: udp, listen: '127.0.0.1:1080', agent_id: y, target_host: h, target_port: 1",
           "name: c, protocol: socks5, listen: '127.0.0.1:0', agent_id: y",
           "name: d, protocol: socks5, listen: '127.0.0.1:0', agent_id: y",
           "name: e, protocol: socks5, listen: 'unix:/run/x', agent_id: y",
           "name: f, protocol: socks5, listen: 'unix:/run//./x', agent_id: y",
           "name: g, protocol: socks5, listen: 'localhost:1080', agent_id: y",
           "name: h, protocol: socks5, listen: 'unix:/run/y', agent_id: y"});
  EXPECT_EQ(errors(client()),
            "c.yaml:6: client.tunnels[1].name: is the same as that of client.tunnels[0]\n"
            "c.yaml:6: client.tunnels[1].listen: is the same as that of client.tunnels[0]\n"
            "c.yaml:11: client.tunnels[6].listen: is the same as that of client.tunnels[5]\n"
            "c.yaml:12: client.tunnels[7].listen: is the same as that of client.tunnels[0]\n"
            "c.yaml:12: client.tunnels[7].listen: is the same as that of client.tunnels[1]\n");
  // Two names for every address of the machine.
  const std::string to = ", protocol: tcp, agent_id: x, target_host: h, target_port: 1, allow_remote: true";
  tunnels({"listen: ':1080'" + to, "listen: '[::]:1080'" + to, "listen: '127.0.0.1:1080'" + to});
  EXPECT_EQ(errors(client()),
            "c.yaml:6: client.tunnels[1].listen: is the same as that of client.tunnels[0]\n");
}

// Requirement J5: a Unix socket counts as local; datagrams and pages that a browser opens need a port.
TEST_F(ClientConfigTest, AUnixSocketIsForStreams) {
  const std::string at = ", agent_id: a, listen: 'unix:/run/x', target_host: h, target_port: 1";
  EXPECT_EQ(tunnel_errors("protocol: tcp, socket_mode: '0660', socket_owner: 'a:b'" + at, Purpose::run), "");
  EXPECT_EQ(warnings(client()), "");
  for (const char* protocol : {"udp", "http"}) {
    EXPECT_EQ(tunnel_errors(std::string("protocol: ") + protocol + at),
              "c.yaml:5: client.tunnels[0].listen: must be host:port with this protocol\n");
  }
  tunnel_errors(
      "protocol: socks5, agent_id: a, listen: '127.0.0.1:1', socket_mode: '0660', socket_owner: 'a'");
  EXPECT_EQ(warnings(client()),
            "c.yaml:5: client.tunnels[0].socket_mode: has no effect without a Unix socket\n"
            "c.yaml:5: client.tunnels[0].socket_owner: has no effect without a Unix socket\n");
}

// The agent speaks TLS to the target of an http entry, and to no other.
TEST_F(ClientConfigTest, AnHttpTargetCanBeBehindTls) {
  const std::string at = ", agent_id: a, listen: '127.0.0.1:1', target_host: h, target_port: 1";
  EXPECT_EQ(
      tunnel_errors("protocol: http, target_scheme: https, tls_server_name: wiki.example" + at, Purpose::run),
      "");
  EXPECT_TRUE(client().config.tunnels[0].is_target_https);
  EXPECT_EQ(client().config.tunnels[0].tls_server_name, "wiki.example");
  EXPECT_EQ(tunnel_errors("protocol: http" + at), "");
  EXPECT_FALSE(client().config.tunnels[0].is_target_https);
  EXPECT_EQ(tunnel_errors("protocol: tcp, target_scheme: https" + at),
            "c.yaml:5: client.tunnels[0].target_scheme: needs protocol http\n");
  EXPECT_EQ(tunnel_errors("protocol: http, tls_server_name: x" + at),
            "c.yaml:5: client.tunnels[0].tls_server_name: needs target_scheme https\n");
  EXPECT_EQ(tunnel_errors("protocol: tcp, hosts: [x]" + at), "");
  EXPECT_EQ(warnings(client()), "c.yaml:5: client.tunnels[0].hosts: has no effect with this protocol\n");
}

TEST_F(ClientConfigTest, APasswordForAnAuthUrlInClearIsWarnedOf) {
  const std::string base = "protocol: socks5, agent_id: a, listen: '127.0.0.1:1', auth_url: ";
  const std::string warning =
      "c.yaml:5: client.tunnels[0].auth_url: sends the password over the network in clear; use https://\n";
  for (const char* url :
       {"'http://auth.example.com/'", "'http://192.168.1.1:8080/check'", "'http://[fd00::1]/'"}) {
    EXPECT_EQ(tunnel_errors(base + url + ", auth_mode: password"), "") << url;
    EXPECT_NE(warnings(client()).find(warning), std::string::npos) << url;
    EXPECT_EQ(tunnel_errors(base + url), "");
    EXPECT_EQ(warnings(client()), "") << "without a password there is none to be read: " << url;
  }
  for (const char* url : {"'https://auth.example.com/'", "'http://127.0.0.1:8080/'", "'http://[::1]/'",
                          "'http://localhost/'"}) {
    tunnels({base + url + ", auth_mode: password"});
    EXPECT_EQ(warnings(client()).find("auth_url"), std::string::npos) << url;
  }
}

TEST_F(ClientConfigTest, RunServesATunnelWithAuthUrl) {
  tunnels({"protocol: socks5, agent_id: a, listen: '127.0.0.1:1', auth_url: 'https://auth.example.com/'"});
  const auto loaded = client(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.tunnels[0].auth_url, "https://auth.example.com/");
}

TEST_F(ClientConfigTest, RemoteValidationKeys) {
  const std::string ca = write("ca.pem", "x");
  file(
      "client:\n  server_url: wss://hub\n  token: t\n  remote_validation: {positive_ttl: 1m, negative_ttl: "
      "5s, timeout: 1s, max_entries: 7, ca_file: " +
      ca + "}\n");
  const auto loaded = client();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(warnings(loaded).find("remote_validation"), std::string::npos) << warnings(loaded);
  const RemoteValidationSettings& got = loaded.config.remote_validation;
  EXPECT_EQ(got.positive_ttl_us, 60'000'000u);
  EXPECT_EQ(got.negative_ttl_us, 5'000'000u);
  EXPECT_EQ(got.timeout_us, 1'000'000u);
  EXPECT_EQ(got.entries_max, 7u);
  EXPECT_EQ(got.ca_file, ca);
}

TEST_F(ClientConfigTest, RunNeedsATunnel) {
  file("client: {server_url: 'wss://hub', token: t}\n");
  EXPECT_EQ(errors(client(Purpose::run)),
            "c.yaml: client.tunnels: has no entry, so there is nothing to do\n");
  EXPECT_EQ(errors(client(Purpose::check)), "");
  EXPECT_EQ(warnings(client(Purpose::check)),
            "c.yaml: client.tunnels: has no entry; run needs at least one\n");
}

TEST_F(ClientConfigTest, TunnelCountIsBounded) {
  std::vector<std::string> many(257, "protocol: socks5, listen: '127.0.0.1:0', agent_id: x");
  tunnels(many);
  EXPECT_EQ(errors(client()), "c.yaml:4: client.tunnels: must have at most 256 items\n");
}

TEST_F(ClientConfigTest, CredentialsFromTheEnvironment) {
  tunnels({"protocol: socks5, listen: ':1080', agent_id: x, allow_remote: true, auth_mode: password"});
  EXPECT_EQ(errors(client(Purpose::run)),
            "c.yaml:4: client.tunnels: needs TUNNELMESH_SOCKS5_USERNAME and TUNNELMESH_SOCKS5_PASSWORD, or "
            "client.socks5_credentials_file\n");
  EXPECT_EQ(errors(client(Purpose::check)), "") << "the service manager may supply them later";
  EXPECT_NE(warnings(client(Purpose::check)), "");
  env("TUNNELMESH_SOCKS5_USERNAME=u:ser");
  EXPECT_EQ(errors(client(Purpose::run)),
            "env TUNNELMESH_SOCKS5_PASSWORD: needs both TUNNELMESH_SOCKS5_USERNAME and "
            "TUNNELMESH_SOCKS5_PASSWORD\n");
  env("TUNNELMESH_SOCKS5_PASSWORD=p w");
  const auto loaded = client(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.socks5.username, "u:ser");
  EXPECT_EQ(loaded.config.socks5.password.reveal(), "p w");
}

TEST_F(ClientConfigTest, CredentialLengthsOfRfc1929) {
  env("TUNNELMESH_SOCKS5_USERNAME=" + std::string(255, 'u'));
  env("TUNNELMESH_SOCKS5_PASSWORD=" + std::string(255, 'p'));
  EXPECT_EQ(errors(client(Purpose::print)), "");
  variables_.pop_back();
  env("TUNNELMESH_SOCKS5_PASSWORD=" + std::string(256, 'p'));
  EXPECT_EQ(errors(client(Purpose::print)),
            "env TUNNELMESH_SOCKS5_PASSWORD: user name and password must have at most 255 bytes each\n");
}

TEST_F(ClientConfigTest, CredentialsFromASecretFile) {
  const std::string secret = write("creds", "user:x\r\np:ss\n");
  file("client:\n  server_url: wss://hub\n  token: t\n  socks5_credentials_file: " + secret +
       "\n  tunnels: [{protocol: socks5, listen: ':1080', agent_id: x, allow_remote: true, auth_mode: "
       "password}]\n");
  auto loaded = client(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.socks5.username, "user:x");
  EXPECT_EQ(loaded.config.socks5.password.reveal(), "p:ss");
  env("TUNNELMESH_SOCKS5_USERNAME=env");
  env("TUNNELMESH_SOCKS5_PASSWORD=env");
  EXPECT_EQ(client(Purpose::run).config.socks5.username, "env") << "environment over file";
  variables_.clear();
  const std::string bad =
      "c.yaml:4: client.socks5_credentials_file: the file must hold a user name and a password on two "
      "lines\n";
  for (const char* text : {"user", "user\n", "user\npass\nmore"}) {
    write("creds", text);
    EXPECT_TRUE(errors(client(Purpose::check)).starts_with(bad)) << text;
  }
}

TEST_F(ClientConfigTest, ForwardCommandReplacesTheTunnels) {
  tunnels({"protocol: tcp, listen: bad"});
  source_.tunnel = {
      {"protocol", "protocol", "socks5"}, {"listen", "listen", "127.0.0.1:0"}, {"agent", "agent_id", "home"}};
  auto loaded = client(Purpose::run);
  EXPECT_EQ(errors(loaded), "c.yaml:5: client.tunnels[0].listen: must be host:port\n")
      << "the file is still checked";
  tunnels({"protocol: tcp, listen: '127.0.0.1:1', agent_id: a, target_host: h, target_port: 1"});
  loaded = client(Purpose::run);
  EXPECT_EQ(errors(loaded), "");
  ASSERT_EQ(loaded.config.tunnels.size(), 1u);
  EXPECT_EQ(loaded.config.tunnels[0].agent_id, "home");
  EXPECT_EQ(loaded.config.tunnels[0].protocol, Tunnel::Protocol::socks5);
}

TEST_F(ClientConfigTest, ForwardCommandKeepsTheRules) {
  file("client: {server_url: 'wss://hub', token: t}\n");
  source_.tunnel = {
      {"protocol", "protocol", "socks5"}, {"listen", "listen", ":1080"}, {"agent", "agent_id", "home"}};
  EXPECT_EQ(errors(client(Purpose::run)),
            "flag --listen: listen: is reachable from other machines; that needs allow_remote: true\n"
            "flag --listen: listen: is reachable from other machines; that needs auth_mode: password\n");
  source_.tunnel[1].value = "nonsense";
  EXPECT_EQ(errors(client(Purpose::run)), "flag --listen: listen: must be host:port\n");
}

}  // namespace
}  // namespace tmesh::config
