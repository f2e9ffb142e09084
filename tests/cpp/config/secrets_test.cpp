// Where secrets come from, in which order, and that files with them are looked after.
#include <filesystem>

#include "tests/cpp/config/fixture.hpp"

namespace tmesh::config {
namespace {

class Secrets : public ConfigTest {
 protected:
  Secrets() { std::filesystem::create_directory(path("credentials")); }
  void credential(const std::string& name, std::string_view text) {
    write("credentials/" + name, text, 0440);
    if (!has_credentials_) env("CREDENTIALS_DIRECTORY=" + path("credentials"));
    has_credentials_ = true;
  }
  // The rest of a client that only lacks its token.
  void client_file(const std::string& more = "") {
    file("client:\n  server_url: wss://hub.example.com\n" + more +
         "  tunnels: [{protocol: socks5, listen: '127.0.0.1:1', agent_id: a}]\n");
  }
  std::string token() {
    const auto loaded = client();
    EXPECT_EQ(errors(loaded), "");
    return std::string(loaded.config.token.reveal());
  }

  bool has_credentials_ = false;
};

TEST_F(Secrets, FlagOverEnvironmentOverCredentialOverFile) {
  client_file("  token: of-the-file\n");
  EXPECT_EQ(token(), "of-the-file");
  credential("tunnelmesh-client.token", "of-the-credential\n");
  EXPECT_EQ(token(), "of-the-credential");
  env("TUNNELMESH_CLIENT_TOKEN=of-the-environment");
  EXPECT_EQ(token(), "of-the-environment");
  flag("client.token_file", write("token", "of-the-flag\n"));
  EXPECT_EQ(token(), "of-the-flag");
}

TEST_F(Secrets, CredentialAlone) {
  client_file();
  credential("tunnelmesh-client.token", "of-the-credential\n");
  EXPECT_EQ(token(), "of-the-credential");
  credential("tunnelmesh-agent.token", "of-the-agent");
  file("agent:\n  server_url: wss://hub.example.com\n  id: a\n");
  EXPECT_EQ(agent().config.token.reveal(), "of-the-agent");
}

TEST_F(Secrets, CredentialOverATokenFileOfTheFile) {
  client_file("  token_file: " + write("token", "of-the-file") + "\n");
  credential("tunnelmesh-client.token", "of-the-credential");
  EXPECT_EQ(token(), "of-the-credential");
}

TEST_F(Secrets, ACredentialHasNoRuleAboutItsMode) {
  client_file();
  credential("tunnelmesh-client.token", "t");
  EXPECT_EQ(warnings(client()), "");
}

TEST_F(Secrets, ABadCredentialIsNamedAndNotShown) {
  client_file();
  credential("tunnelmesh-client.token", "two words");
  EXPECT_EQ(errors(client()),
            "credential tunnelmesh-client.token: the file must hold one token and nothing else\n");
  credential("tunnelmesh-client.token", "");
  EXPECT_EQ(errors(client()), "credential tunnelmesh-client.token: the file is empty\n");
}

TEST_F(Secrets, ACredentialThatCannotBeReachedIsNotTakenForNone) {
  client_file();
  credential("tunnelmesh-client.token", "t");
  const std::string loop = path("credentials") + "/tunnelmesh-client.token";
  std::filesystem::remove(loop);
  std::filesystem::create_symlink(loop, loop);
  EXPECT_TRUE(errors(client()).starts_with("credential tunnelmesh-client.token: the file cannot be read: "))
      << errors(client());
}

TEST_F(Secrets, PrintReadsNone) {
  client_file();
  credential("tunnelmesh-client.token", "two words");
  EXPECT_EQ(errors(client(Purpose::print)), "");
}

TEST_F(Secrets, CredentialsOfEntries) {
  client_file("  token: t\n");
  credential("tunnelmesh-client.socks5", "ann\npass\n");
  credential("tunnelmesh-client.http-proxy", "bob\r\nword");
  const auto loaded = client();
  EXPECT_EQ(errors(loaded), "");
  EXPECT_EQ(loaded.config.socks5.username, "ann");
  EXPECT_EQ(loaded.config.socks5.password.reveal(), "pass");
  EXPECT_EQ(loaded.config.http_proxy.username, "bob");
  EXPECT_EQ(loaded.config.http_proxy.password.reveal(), "word");
  env("TUNNELMESH_SOCKS5_USERNAME=eve");
  env("TUNNELMESH_SOCKS5_PASSWORD=other");
  EXPECT_EQ(client().config.socks5.username, "eve");
}

TEST_F(Secrets, CredentialsOfAnEntryAreTwoLines) {
  client_file("  token: t\n");
  credential("tunnelmesh-client.socks5", "only-one");
  EXPECT_EQ(
      errors(client()),
      "credential tunnelmesh-client.socks5: the file must hold a user name and a password on two lines\n");
}

TEST_F(Secrets, DatabaseDsn) {
  const std::string head = "mode: cluster\nstorage:\n  driver: mysql\n";
  file(head);
  EXPECT_NE(errors(server()).find("storage.mysql.dsn: is required"), std::string::npos);
  file(head + "  mysql:\n    dsn_file: " + write("dsn", "u:p@tcp(h)/file\n") + "\n");
  EXPECT_EQ(errors(server()), "");
  EXPECT_EQ(server().config.storage.mysql_dsn.reveal(), "u:p@tcp(h)/file");
  EXPECT_EQ(server(Purpose::use).config.storage.mysql_dsn.reveal(), "u:p@tcp(h)/file") << "for commands";
  EXPECT_TRUE(server(Purpose::print).config.storage.mysql_dsn.empty());
  credential("tunnelmesh-server.mysql-dsn", "u:p@tcp(h)/credential");
  EXPECT_EQ(server().config.storage.mysql_dsn.reveal(), "u:p@tcp(h)/credential");
  env("TUNNELMESH_STORAGE_MYSQL_DSN=u:p@tcp(h)/env");
  EXPECT_EQ(server().config.storage.mysql_dsn.reveal(), "u:p@tcp(h)/env");
}

TEST_F(Secrets, TokenEncryptionKey) {
  file("server:\n  token_encryption_key_file: " + write("key", "of-the-file\n") + "\n");
  EXPECT_EQ(server().config.token_encryption_key.reveal(), "of-the-file");
  credential("tunnelmesh-server.token-encryption-key", "of-the-credential");
  EXPECT_EQ(server(Purpose::use).config.token_encryption_key.reveal(), "of-the-credential");
  env("TUNNELMESH_TOKEN_ENCRYPTION_KEY=of-the-environment");
  env("TUNNELMESH_TOKEN_ENCRYPTION_KEY_ID=2027");
  EXPECT_EQ(server().config.token_encryption_key.reveal(), "of-the-environment");
  EXPECT_EQ(server().config.token_encryption_key_id, "2027");
}

// Requirement F1.
TEST_F(Secrets, AFlagCountsMoreThanTheEnvironmentAndThatMoreThanACredential) {
  file("");
  credential("tunnelmesh-server.token-encryption-key", "of-the-credential");
  env("TUNNELMESH_SERVER_TOKEN_ENCRYPTION_KEY_FILE=" + write("named", "of-the-named-file\n"));
  EXPECT_EQ(server().config.token_encryption_key.reveal(), "of-the-named-file");
  env("TUNNELMESH_TOKEN_ENCRYPTION_KEY=of-the-environment");
  EXPECT_EQ(server().config.token_encryption_key.reveal(), "of-the-environment");
  flag("server.token_encryption_key_file", write("flag", "of-the-flag\n"));
  EXPECT_EQ(server().config.token_encryption_key.reveal(), "of-the-flag");
  fresh();
  client_file("  token: t\n");
  env("TUNNELMESH_SOCKS5_USERNAME=eve");
  env("TUNNELMESH_SOCKS5_PASSWORD=other");
  flag("client.socks5_credentials_file", write("login", "ann\npass\n"));
  EXPECT_EQ(errors(client()), "");
  EXPECT_EQ(client().config.socks5.username, "ann");
  EXPECT_EQ(client().config.socks5.password.reveal(), "pass");
}

TEST_F(Secrets, FilesThatOthersMayReadAreWarnedOf) {
  client_file("  token: t\n  socks5_credentials_file: " + write("login", "a\nb\n", 0644) + "\n");
  EXPECT_EQ(
      warnings(client()),
      "c.yaml:4: client.socks5_credentials_file: other users have access to the file; its mode should be "
      "0600\n");
}

TEST_F(Secrets, AFileWithASecretAmongOtherKeysIsWarnedOfToo) {
  client_file("  token: t\n");
  source_.file = write("c.yaml", "client: {token: t}\n", 0640);
  EXPECT_EQ(warnings(client(Purpose::print)),
            "c.yaml:1: client.token: other users have access to the file; its mode should be 0600\n");
  source_.file = write("c.yaml", "client: {token_file: /x}\n", 0644);
  EXPECT_EQ(warnings(client(Purpose::print)), "");
}

TEST_F(Secrets, WhatIsMissingIsNotAskedForOnTheCommandLine) {
  client_file();
  EXPECT_EQ(errors(client()),
            "c.yaml: client.token: is required (in the file, as --client.token_file or as "
            "TUNNELMESH_CLIENT_TOKEN)\n");
}

TEST_F(Secrets, EveryFileThatWasReadIsListed) {
  const std::string token = write("token", "t");
  const std::string ca = write("ca.pem", "x");
  const std::string auth_ca = write("auth.pem", "y");
  client_file("  token_file: " + token + "\n  tls:\n    ca_file: " + ca +
              "\n  remote_validation:\n    ca_file: " + auth_ca + "\n");
  credential("tunnelmesh-client.socks5", "ann\npass\n");
  const FilePrints files = client().files;
  for (const std::string& file :
       {path("c.yaml"), token, ca, auth_ca, path("credentials/tunnelmesh-client.socks5")}) {
    ASSERT_TRUE(files.contains(file)) << file;
    EXPECT_NE(files.at(file), kNoPrint) << file;
  }
  EXPECT_EQ(files.size(), 5u);
  EXPECT_EQ(files.at(token), print_of("t"));
}

TEST_F(Secrets, CertificatesOfTargetsAreListedAndMustBeThere) {
  const std::string ca = write("targets.pem", "x");
  file("agent: {server_url: 'wss://hub.example.com', id: a, token: t, streams: {tls_ca_file: " + ca + "}}\n");
  EXPECT_TRUE(agent().files.contains(ca));
  std::filesystem::remove(ca);
  EXPECT_EQ(errors(agent()),
            "c.yaml:1: agent.streams.tls_ca_file: the file cannot be read: no such file or folder\n");
}

}  // namespace
}  // namespace tmesh::config
