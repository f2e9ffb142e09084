#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <string>

#include "cpp/base/exit_code.hpp"
#include "cpp/base/file.hpp"
#include "tests/cpp/cmd/run_cli.hpp"

namespace tmesh::cli {
namespace {

int nothing(const Invocation&) {
  return 0;
}

Program program() {
  Command run{.name = "run", .doc = "starts it"};
  run.takes_keys = true;
  run.run = &nothing;
  Command create{.name = "create", .doc = "creates one"};
  create.flags = {{"json", "", "print JSON"}};
  create.run = &nothing;
  Command user{.name = "user", .doc = "people"};
  user.children = {create};
  Command hidden{.name = "hidden", .doc = "not shown"};
  hidden.is_hidden = true;
  Program p{.name = "tunnelmesh-server", .doc = "the hub"};
  p.commands = {run, user, hidden};
  return p;
}

std::string shell_output(const std::string& command) {
  std::FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string out;
  std::array<char, 4096> block;
  for (std::size_t n; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) out.append(block.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << command;
  return out;
}

// What bash proposes for the last word.
std::string proposals(const std::string& words) {
  const std::string script = testing::TempDir() + "tmesh-completion.bash";
  EXPECT_TRUE(write_file(script, run_cli(program(), {"completion", "bash"}).out, 0600));
  return shell_output(
      "bash -c '. " + script + "; COMP_WORDS=(" + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tunnelmesh_server; echo \"${COMPREPLY[*]}\"'");
}

TEST(Completion, BashProposesCommandsFlagsAndKeys) {
  EXPECT_EQ(proposals("tunnelmesh-server \"\""), "run user completion help --version --help\n");
  EXPECT_EQ(proposals("tunnelmesh-server us"), "user\n");
  EXPECT_EQ(proposals("tunnelmesh-server user \"\""), "create --help\n");
  EXPECT_EQ(proposals("tunnelmesh-server user create --j"), "--json\n");
  EXPECT_EQ(proposals("tunnelmesh-server run --server.http_a"), "--server.http_addr\n");
  EXPECT_EQ(proposals("tunnelmesh-server run --config x --tls.min"), "--tls.min_version\n");
  EXPECT_EQ(proposals("tunnelmesh-server completion z"), "zsh\n");
  EXPECT_EQ(proposals("tunnelmesh-server hid"), "\n");
  EXPECT_EQ(proposals("tunnelmesh-server run --agent."), "\n") << "keys of another program";
}

TEST(Completion, OtherShellsHaveTheSameWords) {
  for (const char* shell : {"zsh", "fish"}) {
    const std::string text = run_cli(program(), {"completion", shell}).out;
    for (const char* word : {"/user/create", "--json", "--server.http_addr", "tunnelmesh-server"}) {
      EXPECT_NE(text.find(word), std::string::npos) << shell << " " << word;
    }
    EXPECT_EQ(text.find("hidden"), std::string::npos);
    // Where the shell is installed it must at least accept the script.
    const std::string script = testing::TempDir() + "tmesh-completion." + shell;
    ASSERT_TRUE(write_file(script, text, 0600));
    shell_output(std::string("if command -v ") + shell + " >/dev/null; then " + shell + " -n " + script +
                 "; fi");
  }
}

TEST(Completion, UnknownShell) {
  const Ran r = run_cli(program(), {"completion", "bsah"});
  EXPECT_EQ(r.code, kExitUsage);
  EXPECT_TRUE(
      r.err.starts_with("tunnelmesh-server: completion needs one of bash, zsh, fish (did you mean bash?)\n"))
      << r.err;
  EXPECT_EQ(run_cli(program(), {"completion"}).code, kExitUsage);
  EXPECT_EQ(run_cli(program(), {"completion", "--help"}).code, kExitOk);
}

}  // namespace
}  // namespace tmesh::cli
