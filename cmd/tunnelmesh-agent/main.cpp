// tunnelmesh-agent: the command table and nothing else.
#include <utility>

#include "cmd/cli.hpp"
#include "cmd/config_commands.hpp"
#include "cmd/elsewhere.hpp"
#include "cpp/agent/app.hpp"
#include "cpp/agent/status.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/out_of_memory.hpp"

namespace {

using namespace tmesh;

int run_agent(const cli::Invocation& invocation) {
  const auto loaded = cli::load_agent(invocation, config::Purpose::run);
  if (!loaded.ok()) return kExitConfig;
  log::configure(loaded.config.log.level, loaded.config.log.format);
  return agent::run(loaded, invocation.source);
}

int print_id(const cli::Invocation& invocation) {
  const auto loaded = cli::load_agent(invocation, config::Purpose::print);
  if (!loaded.ok()) return kExitConfig;
  if (loaded.config.id.empty()) {
    std::fputs("agent.id: is required\n", invocation.err);
    return kExitConfig;
  }
  std::fprintf(invocation.out, "%s\n", loaded.config.id.c_str());
  return kExitOk;
}

int run_status(const cli::Invocation& invocation) {
  const auto loaded = cli::load_agent(invocation, config::Purpose::print);
  if (!loaded.ok()) return kExitConfig;
  return agent::run_status(loaded.config, invocation.is_on("json"), invocation.is_on("watch"), invocation.out,
                           invocation.err);
}

constexpr char kRegister[] =
    "register: agents are made on the server: tunnelmesh-server agent create, then token create --type agent";

}  // namespace

int main(int argc, char** argv) {
  exit_when_out_of_memory();
  cli::Program program{.name = "tunnelmesh-agent",
                       .doc = "dials targets in a private network for the server"};
  program.role = config::kAgent;
  cli::Command run{.name = "run", .doc = "start the agent"};
  run.takes_keys = true;
  run.run = &run_agent;
  cli::Command id{.name = "id", .doc = "print the agent's id"};
  id.takes_keys = true;
  id.run = &print_id;
  cli::Command status{.name = "status",
                      .doc = "what the running agent does: its links and their last errors"};
  status.flags = {{"json", "", "print JSON, one line per program"}, {"watch", "", "again every second"}};
  status.takes_keys = true;
  status.run = &run_status;
  program.commands = {run, id, status, cli::elsewhere<kRegister>("register")};
  for (cli::Command& command :
       cli::config_commands(&cli::check_config<&cli::load_agent, &agent::config_fault>))
    program.commands.push_back(std::move(command));
  return cli::execute(program, argc, argv);
}
