#include "cmd/cli.hpp"

#include <gtest/gtest.h>

#include <string>

#include "cpp/base/exit_code.hpp"
#include "tests/cpp/cmd/run_cli.hpp"

namespace tmesh::cli {
namespace {

// Prints what the command got.
int echo(const Invocation& in) {
  std::string text;
  for (const std::string& part : in.path) text += part + " ";
  for (const std::string& argument : in.arguments) text += "<" + argument + ">";
  for (const Invocation::Option& option : in.options) text += "[" + option.name + "=" + option.value + "]";
  for (const config::FlagValue& flag : in.source.flags) text += "{" + flag.path + "=" + flag.value + "}";
  if (!in.source.file.empty()) text += "config:" + in.source.file;
  std::fputs(text.c_str(), in.out);
  return 42;
}

int defaults(const Invocation& in) {
  std::fprintf(in.out, "%s %d %d", in.value("listen").c_str(), in.is_on("json") ? 1 : 0,
               static_cast<int>(in.values("allow").size()));
  return 0;
}

Program program() {
  Command run{.name = "run", .doc = "starts it"};
  run.takes_keys = true;
  run.run = &echo;
  Command create{.name = "create", .doc = "creates one"};
  create.arguments = {"NAME"};
  create.flags = {{"json", "", "print JSON"},
                  {"allow", "PATTERN", "targets", "", "", false, true},
                  {"role", "ROLE", "what it may do", "user", "admin|user"}};
  create.takes_keys = true;
  create.run = &echo;
  Command user{.name = "user", .doc = "people"};
  user.children = {create};
  Command forward{.name = "forward", .doc = "an entry"};
  forward.flags = {{"listen", "HOST:PORT", "where", "127.0.0.1:0"},
                   {"json", "", "j"},
                   {"allow", "P", "x", "", "", false, true},
                   {"agent", "ID", "who", "", "", true}};
  forward.run = &defaults;
  Command hidden{.name = "hidden", .doc = "not shown"};
  hidden.is_hidden = true;
  hidden.run = &echo;
  Program p{.name = "tunnelmesh-server", .doc = "the hub"};
  p.role = config::kServer;
  p.commands = {run, user, forward, hidden};
  return p;
}

Ran ran(const std::vector<std::string_view>& words) {
  return run_cli(program(), words);
}

std::string usage(const std::vector<std::string_view>& words) {
  const Ran r = ran(words);
  EXPECT_EQ(r.code, kExitUsage);
  EXPECT_EQ(r.out, "");
  return r.err.substr(0, r.err.find('\n'));
}

TEST(Cli, CommandsNestAndReturnTheirCode) {
  const Ran r = ran({"user", "create", "bob"});
  EXPECT_EQ(r.code, 42);
  EXPECT_EQ(r.out, "user create <bob>");
  EXPECT_EQ(r.err, "");
}

TEST(Cli, FlagsInBothForms) {
  EXPECT_EQ(ran({"user", "create", "--role", "admin", "bob", "--allow=a", "--allow", "b=c"}).out,
            "user create <bob>[role=admin][allow=a][allow=b=c]");
  EXPECT_EQ(ran({"user", "create", "bob", "--json"}).out, "user create <bob>[json=true]");
  EXPECT_EQ(ran({"user", "create", "bob", "--json=false"}).out, "user create <bob>[json=false]");
  EXPECT_EQ(ran({"user", "create", "--allow", "--json", "bob"}).out, "user create <bob>[allow=--json]")
      << "what follows a flag is its value";
}

TEST(Cli, SwitchNeverTakesTheNextWord) {
  EXPECT_EQ(ran({"user", "create", "--json", "false"}).out, "user create <false>[json=true]");
}

TEST(Cli, DoubleDashEndsFlags) {
  EXPECT_EQ(ran({"user", "create", "--", "--json"}).out, "user create <--json>");
  EXPECT_EQ(ran({"user", "create", "-"}).out, "user create <->");
}

TEST(Cli, EveryKeyIsAFlag) {
  EXPECT_EQ(ran({"run", "--server.http_addr", ":81", "--storage-driver=sqlite", "--config", "c.yaml"}).out,
            "run {server.http_addr=:81}{storage.driver=sqlite}config:c.yaml");
  EXPECT_EQ(ran({"run", "--tls.enabled", "--tls.enabled=false", "--tls.enabled", "false"}).out,
            "run {tls.enabled=true}{tls.enabled=false}{tls.enabled=false}");
}

TEST(Cli, KeysMayStandBeforeTheCommand) {
  EXPECT_EQ(ran({"--config", "c.yaml", "--mode", "local", "run"}).out, "run {mode=local}config:c.yaml");
  EXPECT_EQ(ran({"user", "--mode", "local", "create", "x"}).out, "user create <x>{mode=local}");
}

TEST(Cli, DefaultsOfFlags) {
  EXPECT_EQ(ran({"forward", "--agent", "a"}).out, "127.0.0.1:0 0 0");
  EXPECT_EQ(ran({"forward", "--agent", "a", "--listen", ":1", "--json", "--allow", "x", "--allow", "y"}).out,
            ":1 1 2");
}

TEST(Cli, UnknownCommandNamesTheNearest) {
  EXPECT_EQ(usage({"rnu"}), "tunnelmesh-server: unknown command \"rnu\" (did you mean run?)");
  EXPECT_EQ(usage({"user", "craete"}),
            "tunnelmesh-server user: unknown command \"craete\" (did you mean create?)");
  EXPECT_EQ(usage({"completoin"}),
            "tunnelmesh-server: unknown command \"completoin\" (did you mean completion?)");
  EXPECT_EQ(usage({"xyzzy"}), "tunnelmesh-server: unknown command \"xyzzy\"");
  EXPECT_EQ(usage({"hidde"}), "tunnelmesh-server: unknown command \"hidde\"")
      << "hidden commands stay hidden";
  EXPECT_EQ(usage({"\x1b[31m"}), "tunnelmesh-server: unknown command \"?[31m\"");
}

TEST(Cli, UnknownFlagNamesTheNearest) {
  EXPECT_EQ(usage({"user", "create", "x", "--jsno"}),
            "tunnelmesh-server user create: unknown flag \"--jsno\" (did you mean --json?)");
  EXPECT_EQ(usage({"run", "--server.http_adr", ":1"}),
            "tunnelmesh-server run: unknown flag \"--server.http_adr\" (did you mean --server.http_addr?)");
  EXPECT_EQ(usage({"run", "--storage-drivr", "x"}),
            "tunnelmesh-server run: unknown flag \"--storage-drivr\" (did you mean --storage-driver?)");
  EXPECT_EQ(usage({"run", "--confg", "x"}),
            "tunnelmesh-server run: unknown flag \"--confg\" (did you mean --config?)");
  EXPECT_EQ(usage({"run", "-config", "x"}),
            "tunnelmesh-server run: unknown flag \"-config\"; flags have two dashes");
  EXPECT_EQ(usage({"hidden", "--config", "x"}), "tunnelmesh-server hidden: unknown flag \"--config\"")
      << "only commands that take configuration know its flags";
}

TEST(Cli, ValuesAreNeverRepeated) {
  for (const Ran& r :
       {ran({"run", "--server.metrics.tokne=S3CR3T"}), ran({"user", "create", "a", "S3CR3T"}),
        ran({"user", "create", "a", "--role=S3CR3T"}), ran({"user", "create", "a", "--json=S3CR3T"})}) {
    EXPECT_EQ(r.code, kExitUsage);
    EXPECT_EQ(r.err.find("S3CR3T"), std::string::npos) << r.err;
  }
}

TEST(Cli, MissingPieces) {
  EXPECT_EQ(usage({}), "tunnelmesh-server: a command is missing");
  EXPECT_EQ(usage({"user"}), "tunnelmesh-server user: a command is missing behind \"user\"");
  EXPECT_EQ(usage({"user", "create"}), "tunnelmesh-server user create: NAME is missing");
  EXPECT_EQ(usage({"user", "create", "a", "b"}), "tunnelmesh-server user create: too many arguments");
  EXPECT_EQ(usage({"run", "x"}), "tunnelmesh-server run: too many arguments");
  EXPECT_EQ(usage({"forward"}), "tunnelmesh-server forward: --agent is required");
  EXPECT_EQ(usage({"forward", "--agent"}), "tunnelmesh-server forward: --agent needs a value");
  EXPECT_EQ(usage({"run", "--config"}), "tunnelmesh-server run: --config needs a value");
  EXPECT_EQ(usage({"run", "--config="}), "tunnelmesh-server run: --config needs a file");
}

TEST(Cli, ContradictionsAndChoices) {
  EXPECT_EQ(usage({"run", "--config", "a", "--config", "b"}),
            "tunnelmesh-server run: --config is given twice");
  EXPECT_EQ(usage({"user", "create", "a", "--role", "user", "--role", "user"}),
            "tunnelmesh-server user create: --role is given twice");
  EXPECT_EQ(usage({"user", "create", "a", "--role", "amdin"}),
            "tunnelmesh-server user create: --role must be one of admin user (did you mean admin?)");
  EXPECT_EQ(usage({"user", "create", "a", "--json=perhaps"}),
            "tunnelmesh-server user create: --json must be true or false");
  EXPECT_EQ(usage({"run", "--tls.enabled=perhaps"}),
            "tunnelmesh-server run: --tls.enabled must be true or false");
}

TEST(Cli, UsageErrorPointsToHelp) {
  EXPECT_EQ(ran({"user", "create"}).err,
            "tunnelmesh-server user create: NAME is missing\ntry: tunnelmesh-server user create --help\n");
}

TEST(Cli, HelpAtEveryLevel) {
  for (const std::vector<std::string_view>& words :
       std::vector<std::vector<std::string_view>>{{"--help"}, {"-h"}, {"help"}}) {
    const Ran r = ran(words);
    EXPECT_EQ(r.code, 0);
    EXPECT_TRUE(
        r.out.starts_with("tunnelmesh-server: the hub\n\nusage: tunnelmesh-server <command> [flags]\n"))
        << r.out;
    EXPECT_NE(r.out.find("\n  run                       starts it\n"), std::string::npos) << r.out;
    EXPECT_EQ(r.out.find("hidden"), std::string::npos);
  }
  EXPECT_EQ(ran({"user", "--help"}).out, ran({"help", "user"}).out);
  const Ran create = ran({"user", "create", "--help"});
  EXPECT_EQ(create.out, ran({"help", "user", "create"}).out);
  EXPECT_TRUE(create.out.starts_with(
      "tunnelmesh-server user create: creates one\n\nusage: tunnelmesh-server user create NAME [flags]\n"));
  EXPECT_NE(create.out.find("--role admin|user"), std::string::npos);
  EXPECT_NE(create.out.find("what it may do (default user)"), std::string::npos);
  EXPECT_NE(create.out.find("targets (may be repeated)"), std::string::npos);
  EXPECT_NE(ran({"run", "--help"}).out.find("--server.http_addr TEXT"), std::string::npos)
      << "keys come from the table";
  EXPECT_EQ(ran({"forward", "--help"}).out.find("--server.http_addr"), std::string::npos);
  EXPECT_NE(ran({"forward", "--help"}).out.find("who (required)"), std::string::npos);
  EXPECT_EQ(ran({"help", "nothing"}).code, kExitUsage);
}

TEST(Cli, HelpWinsOverWhatIsMissing) {
  EXPECT_EQ(ran({"forward", "--help"}).code, 0);
}

TEST(Cli, Version) {
  const Ran r = ran({"--version"});
  EXPECT_EQ(r.code, 0);
  EXPECT_TRUE(r.out.starts_with("tunnelmesh-server ") && r.out.ends_with("\n")) << r.out;
  EXPECT_EQ(ran({"run", "--version"}).out, r.out);
}

// `ps` shows argv to every user (LESSONS P-K7).
TEST(Cli, SecretsAreTakenOutOfArgv) {
  static std::string got;
  got.clear();
  Program program{.name = "tunnelmesh-client", .doc = "x"};
  program.role = config::kClient;
  Command run{.name = "run", .doc = "starts it"};
  run.takes_keys = true;
  run.run = [](const Invocation& in) {
    for (const config::FlagValue& flag : in.source.flags) got += flag.value + " ";
    return 0;
  };
  program.commands = {run};
  std::vector<std::string> words = {
      "tunnelmesh-client",    "run", "--client.token", "hunter2", "--storage.mysql.dsn=hunter3",
      "--client.tls.ca_file", "/a"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  EXPECT_EQ(execute(program, static_cast<int>(argv.size()), argv.data()), 0);
  EXPECT_EQ(got, "hunter2 hunter3 /a ");
  EXPECT_EQ(words[3], std::string(7, '\0'));
  EXPECT_EQ(words[4], "--storage.mysql.dsn=" + std::string(7, '\0'));
  EXPECT_EQ(words[6], "/a");
}

}  // namespace
}  // namespace tmesh::cli
