#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <regex>
#include <sstream>

#include "cpp/server/authorizer.hpp"
#include "cpp/server/credential_service.hpp"
#include "cpp/server/password.hpp"
#include "cpp/server/quickstart.hpp"
#include "cpp/storage/user_repository.hpp"
#include "tests/cpp/server/capture.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::server {
namespace {

std::string read(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The value of a quoted scalar, by the key before it.
std::string scalar_of(const std::string& yaml, const std::string& key) {
  std::smatch match;
  return std::regex_search(yaml, match, std::regex("\\b" + key + ": \"([^\"]*)\"")) ? match[1].str()
                                                                                    : "(not there)";
}

unsigned mode(const std::string& path) {
  struct stat about{};
  EXPECT_EQ(::stat(path.c_str(), &about), 0) << path;
  return about.st_mode & 07777;
}

struct Quickstart : testing::Test {
  test::TempDir dir;
  test::FakeClock time;
  QuickstartRequest request;
  std::string out;
  std::string err;

  void SetUp() override {
    request.directory = dir.file("set-up");
    request.allow = {"*.example.com:443", "10.0.0.0/8:*"};
    request.clock = time.clock();
  }
  int run() {
    test::Capture out_file;
    test::Capture err_file;
    request.out = out_file.file();
    request.err = err_file.file();
    const int code = run_quickstart(request);
    out = out_file.text();
    err = err_file.text();
    return code;
  }
  std::string file(const char* name) const { return request.directory + '/' + name; }
  void expect_usage(const std::string& wanted) {
    EXPECT_EQ(run(), 2);
    EXPECT_EQ(err, wanted);
    EXPECT_EQ(out, "");
    EXPECT_FALSE(std::filesystem::exists(request.directory));
  }
};

TEST_F(Quickstart, WritesThreeFilesAndADatabaseForTheirOwnerOnly) {
  ASSERT_EQ(run(), 0) << err;
  EXPECT_EQ(err, "");
  EXPECT_EQ(mode(request.directory), 0700U);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(request.directory))
    names.push_back(entry.path().filename());
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{"agent.yaml", "client.yaml", "server.yaml", "tunnelmesh.db"}));
  for (const std::string& name : names) EXPECT_EQ(mode(request.directory + '/' + name), 0600U) << name;
}

TEST_F(Quickstart, TheFilesFitTogether) {
  ASSERT_EQ(run(), 0) << err;
  const std::string server = read(file("server.yaml"));
  const std::string agent = read(file("agent.yaml"));
  const std::string client = read(file("client.yaml"));
  EXPECT_EQ(scalar_of(server, "path"), file("tunnelmesh.db"));
  EXPECT_EQ(scalar_of(server, "http_addr"), "127.0.0.1:8080");
  EXPECT_EQ(scalar_of(agent, "server_url"), "ws://127.0.0.1:8080/ws/agent");
  EXPECT_EQ(scalar_of(client, "server_url"), "ws://127.0.0.1:8080/ws/client");
  EXPECT_EQ(scalar_of(client, "listen"), "127.0.0.1:1080");
  EXPECT_TRUE(std::regex_match(scalar_of(agent, "id"), std::regex("agent-[0-9a-f]{24}")));
  EXPECT_EQ(scalar_of(client, "agent_id"), scalar_of(agent, "id"));
  EXPECT_TRUE(std::regex_match(scalar_of(agent, "instance_id"), std::regex("agent-[0-9a-f]{32}")));
  EXPECT_TRUE(std::regex_match(scalar_of(client, "instance_id"), std::regex("client-[0-9a-f]{32}")));

  std::unique_ptr<storage::Db> db = test::open_migrated(file("tunnelmesh.db"));
  CredentialService credentials(*db, time.clock());
  const Result<Identity> agent_identity =
      credentials.authenticate(scalar_of(agent, "token"), TokenType::agent);
  ASSERT_TRUE(agent_identity) << agent_identity.error().text;
  EXPECT_EQ(agent_identity->agent_id, scalar_of(agent, "id"));
  const Result<Identity> identity = credentials.authenticate(scalar_of(client, "token"), TokenType::client);
  ASSERT_TRUE(identity) << identity.error().text;
  Authorizer authorizer(*db, time.clock());
  const auto ask = [&](const char* protocol, const char* host, uint16_t port) {
    return authorizer.authorize({identity->token_id, agent_identity->agent_id, protocol, host, port})
        .has_value();
  };
  for (const char* protocol : {"tcp", "udp", "http"}) {
    EXPECT_TRUE(ask(protocol, "www.example.com", 443)) << protocol;
    EXPECT_TRUE(ask(protocol, "10.1.2.3", 22)) << protocol;
    EXPECT_FALSE(ask(protocol, "www.example.com", 80)) << protocol;
    EXPECT_FALSE(ask(protocol, "other.test", 443)) << protocol;
  }
}

TEST_F(Quickstart, PrintsWhatToDoAndThePasswordOnce) {
  ASSERT_EQ(run(), 0) << err;
  std::smatch match;
  const std::regex wanted("Created in " + request.directory +
                          ": server.yaml, agent.yaml, client.yaml, tunnelmesh.db\n\n"
                          "  administrator  (admin-[0-9a-f]{8})\n"
                          "  password       ([A-Za-z0-9_-]{32})  \\(shown only this once\\)\n"
                          "  agent          home \\(agent-[0-9a-f]{24}\\)\n"
                          "  may reach      \\*\\.example\\.com:443 10\\.0\\.0\\.0/8:\\*\n\n"
                          "Start the three programs, each in its own terminal:\n\n"
                          "  tunnelmesh-server run --config " +
                          file("server.yaml") +
                          "\n"
                          "  tunnelmesh-agent run --config " +
                          file("agent.yaml") +
                          "\n"
                          "  tunnelmesh-client run --config " +
                          file("client.yaml") +
                          "\n\n"
                          "Then point a browser at the SOCKS5 proxy 127.0.0.1:1080, or: curl --proxy "
                          "socks5h://127.0.0.1:1080 URL\n");
  ASSERT_TRUE(std::regex_match(out, match, wanted)) << out;
  std::unique_ptr<storage::Db> db = test::open_migrated(file("tunnelmesh.db"));
  const auto admin = *storage::UserRepository(*db).find_by_username(match[1].str());
  ASSERT_TRUE(admin);
  EXPECT_EQ(admin->role, "admin");
  EXPECT_TRUE(verify_password(admin->password_hash, match[2].str()));
  for (const char* name : {"server.yaml", "agent.yaml", "client.yaml"}) {
    EXPECT_EQ(read(file(name)).find(match[2].str()), std::string::npos) << name;
  }
}

TEST_F(Quickstart, RefusesADirectoryThatHoldsOneOfItsFiles) {
  for (const char* name : {"server.yaml", "agent.yaml", "client.yaml", "tunnelmesh.db"}) {
    std::filesystem::remove_all(request.directory);
    std::filesystem::create_directory(request.directory);
    std::ofstream(file(name)) << "precious";
    EXPECT_EQ(run(), 1) << name;
    EXPECT_EQ(err, "quickstart: " + file(name) + ": exists already: choose another --dir\n");
    EXPECT_EQ(read(file(name)), "precious");
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(request.directory))
      files += entry.exists() ? 1 : 0;
    EXPECT_EQ(files, 1) << "nothing else is left behind";
  }
}

TEST_F(Quickstart, TwiceIsRefusedAndTheFirstStays) {
  ASSERT_EQ(run(), 0);
  const std::string before = read(file("agent.yaml"));
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(read(file("agent.yaml")), before);
  EXPECT_TRUE(test::open_migrated(file("tunnelmesh.db")));
}

TEST_F(Quickstart, AnEmptyDirectoryIsUsedAndStaysAfterAFailure) {
  std::filesystem::create_directory(request.directory);
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  test::Capture err_file;
  request.out = full;
  request.err = err_file.file();
  EXPECT_EQ(run_quickstart(request), 1);
  std::fclose(full);
  EXPECT_EQ(err_file.text(), "quickstart: the output could not be written\n");
  EXPECT_TRUE(std::filesystem::is_empty(request.directory)) << "all or nothing";
  EXPECT_EQ(run(), 0) << err;
}

TEST_F(Quickstart, ADirectoryOfOursGoesAwayAfterAFailure) {
  std::FILE* full = std::fopen("/dev/full", "w");
  test::Capture err_file;
  request.out = full;
  request.err = err_file.file();
  EXPECT_EQ(run_quickstart(request), 1);
  std::fclose(full);
  EXPECT_FALSE(std::filesystem::exists(request.directory));
}

TEST_F(Quickstart, SaysWhyADirectoryCannotBeUsed) {
  std::ofstream(request.directory) << "a file";
  EXPECT_EQ(run(), 1);
  EXPECT_EQ(err, "quickstart: " + request.directory + ": not a directory\n");
  request.directory = dir.file("no/such");
  EXPECT_EQ(run(), 1);
  EXPECT_TRUE(err.starts_with("quickstart: " + request.directory + ": ")) << err;
}

TEST_F(Quickstart, ARelativeDirectoryBecomesAbsoluteInTheFiles) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(dir.path());
  request.directory = "./here";
  EXPECT_EQ(run(), 0) << err;
  std::filesystem::current_path(before);
  EXPECT_EQ(scalar_of(read(dir.file("here/server.yaml")), "path"), dir.file("here/tunnelmesh.db"));
}

TEST_F(Quickstart, NeedsAnAllowPattern) {
  request.allow = {};
  expect_usage(
      "quickstart: --allow is missing: nothing is reachable without it. It takes HOST:PORTS, where HOST is "
      "*, "
      "*.example.com, a name, an address, a CIDR or [IPv6], and PORTS is *, 443, 80,443 or 8000-8100; '*:*' "
      "allows "
      "everything the agent can reach\n");
}

TEST_F(Quickstart, NamesEveryMalformedValue) {
  request.agent_name = "";
  request.listen = "8080";
  request.socks5 = "127.0.0.1:0";
  request.allow = {"*:*", "a.example", "10.0.0.0/99:1"};
  request.public_url = "http://a.example";
  EXPECT_EQ(run(), 2);
  for (const char* wanted :
       {"--agent: an agent name", "--listen 8080: not HOST:PORT", "--socks5 127.0.0.1:0: not HOST:PORT",
        "--allow a.example: there is no :PORT at the end", "--allow 10.0.0.0/99:1: the CIDR is malformed",
        "--public-url http://a.example: not ws://"}) {
    EXPECT_NE(err.find(std::string("quickstart: ") + wanted), std::string::npos) << wanted << " in " << err;
  }
  EXPECT_EQ(std::ranges::count(err, '\n'), 6);
  EXPECT_FALSE(std::filesystem::exists(request.directory));
}

TEST_F(Quickstart, RefusesASocks5EntryThatOthersCanReach) {
  request.socks5 = "0.0.0.0:1080";
  expect_usage(
      "quickstart: --socks5 0.0.0.0:1080: an entry that others can reach needs a password: set it up in "
      "client.yaml "
      "later\n");
}

TEST_F(Quickstart, WarnsAboutAListenerWithoutTlsThatOthersCanReach) {
  request.listen = "0.0.0.0:8080";
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(err.starts_with("warning: others can reach 0.0.0.0:8080 ")) << err;
  EXPECT_EQ(scalar_of(read(file("agent.yaml")), "server_url"), "ws://127.0.0.1:8080/ws/agent");
  EXPECT_EQ(scalar_of(read(file("server.yaml")), "http_addr"), "0.0.0.0:8080");
}

TEST_F(Quickstart, AnIpv6ListenerKeepsItsBrackets) {
  request.listen = "[::1]:8080";
  request.socks5 = "[::1]:1080";
  EXPECT_EQ(run(), 0) << err;
  EXPECT_EQ(scalar_of(read(file("server.yaml")), "http_addr"), "[::1]:8080");
  EXPECT_EQ(scalar_of(read(file("client.yaml")), "server_url"), "ws://[::1]:8080/ws/client");
  EXPECT_EQ(scalar_of(read(file("client.yaml")), "listen"), "[::1]:1080");
}

TEST_F(Quickstart, APublicUrlIsWhereAgentAndClientGo) {
  request.public_url = "wss://Tunnel.example.com/";
  EXPECT_EQ(run(), 0) << err;
  EXPECT_EQ(scalar_of(read(file("agent.yaml")), "server_url"), "wss://tunnel.example.com:443/ws/agent");
  EXPECT_EQ(scalar_of(read(file("client.yaml")), "server_url"), "wss://tunnel.example.com:443/ws/client");
}

TEST_F(Quickstart, APathWithSpacesIsQuotedForTheShell) {
  request.directory = dir.file("it's here");
  EXPECT_EQ(run(), 0) << err;
  EXPECT_NE(out.find("run --config '" + dir.file("it'\\''s here/server.yaml") + "'\n"), std::string::npos)
      << out;
}

}  // namespace
}  // namespace tmesh::server
