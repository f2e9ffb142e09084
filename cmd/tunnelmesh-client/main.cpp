// tunnelmesh-client: the command table and nothing else.
#include <utility>

#include "cmd/cli.hpp"
#include "cmd/config_commands.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/out_of_memory.hpp"
#include "cpp/client/app.hpp"

namespace {

using namespace tmesh;

int run_client(const cli::Invocation& invocation) {
  const auto loaded = cli::load_client(invocation, config::Purpose::run);
  if (!loaded.ok()) return kExitConfig;
  log::configure(loaded.config.log.level, loaded.config.log.format);
  return client::run(loaded.config);
}

// One tunnel from flags instead of those in the file; the protocol is the command's name.
int run_forward(const cli::Invocation& invocation) {
  cli::Invocation with_tunnel = invocation;
  with_tunnel.source.tunnel = {{"listen", "listen", invocation.value("listen")},
                               {"protocol", "protocol", invocation.path.back()},
                               {"agent", "agent_id", invocation.value("agent")},
                               {"auth", "auth_mode", invocation.value("auth")},
                               {"auth-url", "auth_url", invocation.value("auth-url")},
                               {"allow-remote", "allow_remote", invocation.value("allow-remote")}};
  return run_client(with_tunnel);
}

cli::Command forward_command() {
  cli::Command socks5{.name = "socks5", .doc = "a local SOCKS5 proxy through an agent"};
  socks5.flags = {{"listen", "HOST:PORT", "local address; port 0 = any free one", "127.0.0.1:0"},
                  {"agent", "ID", "agent that dials", "", "", true},
                  {"auth", "MODE", "what local applications must show", "none", "none|password"},
                  {"allow-remote", "", "listen for other machines, too; needs --auth password"},
                  {"auth-url", "URL", "service that is asked about every open"}};
  socks5.takes_keys = true;
  socks5.run = &run_forward;
  cli::Command forward{.name = "forward", .doc = "one local entry from flags"};
  forward.children = {socks5};
  return forward;
}

}  // namespace

int main(int argc, char** argv) {
  exit_when_out_of_memory();
  cli::Program program{.name = "tunnelmesh-client", .doc = "local entries into private networks"};
  program.role = config::kClient;
  cli::Command run{.name = "run", .doc = "serve client.tunnels of the configuration"};
  run.takes_keys = true;
  run.run = &run_client;
  program.commands = {run, forward_command()};
  for (cli::Command& command : cli::config_commands()) program.commands.push_back(std::move(command));
  return cli::execute(program, argc, argv);
}
