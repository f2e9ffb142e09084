#include "cmd/config_commands.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cpp/base/exit_code.hpp"
#include "cpp/base/file.hpp"
#include "cpp/base/json.hpp"
#include "cpp/config/print.hpp"
#include "tests/cpp/cmd/run_cli.hpp"

namespace tmesh::cli {
namespace {

template <class Config>
std::string no_fault(const Config&) {
  return "";
}

std::string has_fault(const config::ServerConfig& config) {
  return "the fault of " + config.node_id;
}

using Check = int (*)(const Invocation&);
Check check_of(config::Role role) {
  switch (role) {
    case config::kServer:
      return &check_config<&load_server, &no_fault<config::ServerConfig>>;
    case config::kAgent:
      return &check_config<&load_agent, &no_fault<config::AgentConfig>>;
    case config::kClient:
      break;
  }
  return &check_config<&load_client, &no_fault<config::ClientConfig>>;
}

Program program(config::Role role, Check check) {
  Program p{.name = "tunnelmesh-x", .doc = "a program"};
  p.role = role;
  p.commands = config_commands(check);
  return p;
}

Program program(config::Role role) {
  return program(role, check_of(role));
}

std::string file(const char* text) {
  const std::string path = testing::TempDir() + "tmesh-config-commands.yaml";
  EXPECT_TRUE(write_file(path, text, 0600));
  return path;
}

TEST(ConfigCommands, CheckConfigOfAValidFile) {
  const std::string path = file("server: {http_addr: ':8080'}\n");
  const Ran r = run_cli(program(config::kServer), {"check-config", "--config", path});
  EXPECT_EQ(r.code, kExitOk);
  EXPECT_EQ(r.out, "configuration valid\n");
  EXPECT_EQ(r.err, "");
}

TEST(ConfigCommands, CheckConfigPrintsEveryProblemAndEndsWithThree) {
  const std::string path = file("server:\n  http_addr: 8080\n  https_addr: ':1'\n  nope: 1\n");
  const Ran r = run_cli(program(config::kServer), {"check-config", "--config", path});
  EXPECT_EQ(r.code, kExitConfig);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, path + ":3: warning: server.https_addr: is accepted but has no effect in this version\n" +
                       path + ":2: server.http_addr: must be host:port\n" + path +
                       ":4: server.nope: unknown key\n");
}

TEST(ConfigCommands, CheckConfigSaysWhatRunWouldRefuse) {
  const Program p = program(config::kServer, &check_config<&load_server, &has_fault>);
  const Ran r = run_cli(p, {"check-config", "--node.id=n"});
  EXPECT_EQ(r.code, kExitConfig);
  EXPECT_EQ(r.out, "");
  EXPECT_EQ(r.err, "the fault of n\n");
  EXPECT_EQ(run_cli(p, {"check-config", "--server.http_addr=x"}).err.find("fault"), std::string::npos)
      << "only what loads is looked at";
}

TEST(ConfigCommands, CheckConfigIsForTheProgramsRole) {
  EXPECT_EQ(run_cli(program(config::kServer), {"check-config"}).code, kExitOk);
  EXPECT_EQ(run_cli(program(config::kAgent), {"check-config"}).code, kExitConfig) << "an agent needs an id";
  EXPECT_EQ(run_cli(program(config::kAgent), {"check-config", "--server-url", "wss://hub", "--id=a"},
                    {"TUNNELMESH_AGENT_TOKEN=t"})
                .code,
            kExitOk);
  EXPECT_EQ(run_cli(program(config::kClient), {"check-config"}).code, kExitConfig);
}

TEST(ConfigCommands, PrintConfigShowsWhatIsInEffect) {
  const std::string path = file("agent: {id: from-file, token: S3CR3T}\n");
  const Ran r =
      run_cli(program(config::kAgent), {"print-config", "--config", path, "--agent.id", "from-flag"},
              {"TUNNELMESH_AGENT_LOG_LEVEL=debug"});
  EXPECT_EQ(r.code, kExitOk);
  const auto doc = json::parse(r.out);
  ASSERT_TRUE(doc) << r.out;
  EXPECT_EQ(doc->root().get("agent").get("id").as_string(), "from-flag");
  EXPECT_EQ(doc->root().get("agent").get("log_level").as_string(), "debug");
  EXPECT_EQ(r.out.find("S3CR3T"), std::string::npos);
}

TEST(ConfigCommands, PrintConfigWithOrigins) {
  const Ran r = run_cli(program(config::kAgent), {"print-config", "--origin"}, {"TUNNELMESH_AGENT_ID=a"});
  const auto doc = json::parse(r.out);
  ASSERT_TRUE(doc) << r.out;
  EXPECT_EQ(doc->root().get("agent").get("id").get("origin").as_string(), "env TUNNELMESH_AGENT_ID");
}

TEST(ConfigCommands, PrintConfigRefusesAnInvalidFile) {
  const Ran r = run_cli(program(config::kServer), {"print-config", "--config", file("mode: x\n")});
  EXPECT_EQ(r.code, kExitConfig);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err, "");
}

TEST(ConfigCommands, ReferenceIsHiddenAndComplete) {
  const Ran r = run_cli(program(config::kServer), {"config-reference"});
  EXPECT_EQ(r.code, kExitOk);
  EXPECT_EQ(r.out, config::dump_reference_markdown());
  EXPECT_EQ(run_cli(program(config::kServer), {"--help"}).out.find("config-reference"), std::string::npos);
}

}  // namespace
}  // namespace tmesh::cli
