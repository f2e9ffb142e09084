// tunnelmesh-client: the command table and nothing else.
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "cmd/cli.hpp"
#include "cmd/config_commands.hpp"
#include "cmd/elsewhere.hpp"
#include "cpp/base/address.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/log.hpp"
#include "cpp/base/out_of_memory.hpp"
#include "cpp/client/app.hpp"
#include "cpp/client/explain.hpp"
#include "cpp/client/status.hpp"

namespace {

using namespace tmesh;

int run_client(const cli::Invocation& invocation) {
  const auto loaded = cli::load_client(invocation, config::Purpose::run);
  if (!loaded.ok()) return kExitConfig;
  log::configure(loaded.config.log.level, loaded.config.log.format);
  return client::run(loaded, invocation.source);
}

// Flags of commands that describe one tunnel, and the fields of client.tunnels[] they are.
constexpr std::pair<const char*, const char*> kTunnelFlags[] = {{"listen", "listen"},
                                                                {"agent", "agent_id"},
                                                                {"target-host", "target_host"},
                                                                {"target-port", "target_port"},
                                                                {"target-scheme", "target_scheme"},
                                                                {"tls-server-name", "tls_server_name"},
                                                                {"hosts", "hosts"},
                                                                {"auth", "auth_mode"},
                                                                {"auth-url", "auth_url"},
                                                                {"allow-remote", "allow_remote"},
                                                                {"socket-mode", "socket_mode"},
                                                                {"socket-owner", "socket_owner"}};

// One tunnel from flags instead of those in the file.
cli::Invocation with_tunnel(const cli::Invocation& invocation, const std::string& protocol) {
  cli::Invocation out = invocation;
  out.source.tunnel = {{"protocol", "protocol", protocol}};
  for (const auto& [flag, field] : kTunnelFlags) {
    const std::string value = invocation.value(flag);
    if (invocation.flag(flag) != nullptr && !value.empty()) out.source.tunnel.push_back({flag, field, value});
  }
  return out;
}

// The protocol is the command's name.
int run_forward(const cli::Invocation& invocation) {
  return run_client(with_tunnel(invocation, invocation.path.back()));
}

int run_proxy(const cli::Invocation& invocation) {
  cli::Invocation tunnel = with_tunnel(invocation, "tcp");
  tunnel.source.tunnel.push_back({"listen", "listen", "127.0.0.1:0"});  // not used
  const auto loaded = cli::load_client(tunnel, config::Purpose::run);
  if (!loaded.ok()) return kExitConfig;
  // Whoever runs it sees its standard error, as ssh's user does: one line at the end, if any.
  const log::Level level = loaded.config.log.level;
  log::configure(level == log::Level::debug ? level : log::Level::error, loaded.config.log.format);
  return client::run_stdio(loaded.config);
}

const cli::Flag kAgent{"agent", "ID", "agent that dials", "", "", true};
const cli::Flag kTargetHost{"target-host", "HOST", "where to; a name is resolved by the agent", "", "", true};
const cli::Flag kTargetPort{"target-port", "PORT", "where to", "", "", true};
const cli::Flag kAllowRemote{"allow-remote", "", "listen for other machines, too"};
const cli::Flag kSocketMode{"socket-mode", "MODE", "permissions of a Unix socket; 0600 when not given"};
const cli::Flag kSocketOwner{"socket-owner", "USER[:GROUP]", "owner of a Unix socket"};

cli::Flag listen_flag(const char* value_name, const char* default_text) {
  return {"listen", value_name, "local address; port 0 = any free one", default_text};
}

cli::Command entry_command(const char* name, const char* doc, std::vector<cli::Flag> flags) {
  cli::Command command{.name = name, .doc = doc};
  command.flags = std::move(flags);
  command.takes_keys = true;
  command.run = &run_forward;
  return command;
}

cli::Command http_command() {
  return entry_command(
      "http", "a local HTTP port that leads to one web service",
      {listen_flag("HOST:PORT", "127.0.0.1:0"), kAgent, kTargetHost, kTargetPort,
       cli::Flag{"target-scheme", "SCHEME", "https = the agent speaks TLS to the target", "http",
                 "http|https"},
       cli::Flag{"tls-server-name", "NAME", "with https: name in the target's certificate"},
       cli::Flag{"hosts", "NAME,...", "names it answers to besides localhost and its address"},
       kAllowRemote});
}

cli::Command forward_command() {
  const cli::Flag auth_url{"auth-url", "URL", "service that is asked about every open"};
  const cli::Flag allow_with_login{"allow-remote", "", "listen for other machines, too; needs a login"};
  const char* const any = "HOST:PORT|unix:/PATH";
  cli::Command forward{.name = "forward", .doc = "one local entry from flags"};
  forward.children = {
      entry_command("tcp", "a local port that leads to one target",
                    {listen_flag(any, "127.0.0.1:0"), kAgent, kTargetHost, kTargetPort, kAllowRemote,
                     kSocketMode, kSocketOwner}),
      entry_command(
          "udp", "a local UDP port that leads to one target",
          {listen_flag("HOST:PORT", "127.0.0.1:0"), kAgent, kTargetHost, kTargetPort, kAllowRemote}),
      http_command(),
      entry_command("socks5", "a local SOCKS5 proxy through an agent",
                    {listen_flag(any, "127.0.0.1:0"), kAgent,
                     cli::Flag{"auth", "MODE", "what local applications must show", "none", "none|password"},
                     allow_with_login, auth_url, kSocketMode, kSocketOwner}),
      entry_command("http-proxy", "a local HTTP proxy through an agent",
                    {listen_flag(any, "127.0.0.1:8080"), kAgent,
                     cli::Flag{"auth", "MODE", "what local applications must show", "none", "none|basic"},
                     allow_with_login, auth_url, kSocketMode, kSocketOwner})};
  return forward;
}

cli::Command publish_command() {
  cli::Command publish{.name = "publish", .doc = "the same as forward http"};
  publish.children = {http_command()};
  return publish;
}

cli::Command proxy_command() {
  cli::Command tcp{.name = "tcp", .doc = "standard input and output to one target, for ssh's ProxyCommand"};
  tcp.flags = {kAgent, kTargetHost, kTargetPort};
  tcp.takes_keys = true;
  tcp.run = &run_proxy;
  cli::Command proxy{.name = "proxy", .doc = "one connection over standard input and output"};
  proxy.children = {tcp};
  return proxy;
}

constexpr char kLogin[] =
    "login: there is no login; the token stands in client.token_file or TUNNELMESH_CLIENT_TOKEN";
constexpr char kAgents[] = "agent: agents are managed on the server: tunnelmesh-server agent list";
constexpr char kStop[] =
    "stop: end the service with its manager (systemctl stop tunnelmesh-client) or with SIGTERM";
constexpr char kTunnelStop[] = "tunnel stop: take the entry out of client.tunnels and send SIGHUP";
constexpr char kTunnelStatus[] = "tunnel status: see tunnelmesh-client status";

std::vector<cli::Command> elsewhere_commands() {
  cli::Command tunnel{.name = "tunnel", .doc = "see status"};
  tunnel.is_hidden = true;
  tunnel.children = {cli::elsewhere<kTunnelStop>("stop"), cli::elsewhere<kTunnelStatus>("status")};
  return {cli::elsewhere<kLogin>("login"), cli::elsewhere<kAgents>("agent"), cli::elsewhere<kStop>("stop"),
          tunnel};
}

int run_explain(const cli::Invocation& invocation) {
  const Result<HostPort> target = parse_host_port(invocation.arguments.front());
  if (!target || target->host.empty() || target->port == 0) {
    std::fprintf(invocation.err, "explain: HOST:PORT is needed\n");
    return kExitUsage;
  }
  cli::Invocation tunnel = with_tunnel(invocation, "tcp");
  tunnel.source.tunnel.push_back({"listen", "listen", "127.0.0.1:0"});  // not used
  tunnel.source.tunnel.push_back({"target-host", "target_host", target->host});
  tunnel.source.tunnel.push_back({"target-port", "target_port", std::to_string(target->port)});
  const auto loaded = cli::load_client(tunnel, config::Purpose::run);
  if (!loaded.ok()) return kExitConfig;
  // What the log would say is in the answer.
  const log::Level level = loaded.config.log.level;
  log::configure(level == log::Level::debug ? level : log::Level::error, loaded.config.log.format);
  return client::run_explain(loaded.config, invocation.is_on("json"), invocation.out, invocation.err);
}

cli::Command explain_command() {
  cli::Command explain{.name = "explain", .doc = "one open, traced stage by stage"};
  explain.flags = {kAgent, {"json", "", "print JSON"}};
  explain.arguments = {"HOST:PORT"};
  explain.takes_keys = true;
  explain.run = &run_explain;
  return explain;
}

int run_status(const cli::Invocation& invocation) {
  const auto loaded = cli::load_client(invocation, config::Purpose::print);
  if (!loaded.ok()) return kExitConfig;
  return client::run_status(loaded.config, invocation.is_on("json"), invocation.is_on("watch"),
                            invocation.out, invocation.err);
}

}  // namespace

int main(int argc, char** argv) {
  exit_when_out_of_memory();
  cli::Program program{.name = "tunnelmesh-client", .doc = "local entries into private networks"};
  program.role = config::kClient;
  cli::Command run{.name = "run", .doc = "serve client.tunnels of the configuration"};
  run.takes_keys = true;
  run.run = &run_client;
  cli::Command status{.name = "status",
                      .doc = "what the running client does: its links, entries and last errors"};
  status.flags = {{"json", "", "print JSON, one line per program"}, {"watch", "", "again every second"}};
  status.takes_keys = true;
  status.run = &run_status;
  program.commands = {run, status, explain_command(), forward_command(), publish_command(), proxy_command()};
  for (cli::Command& command : elsewhere_commands()) program.commands.push_back(std::move(command));
  for (cli::Command& command :
       cli::config_commands(&cli::check_config<&cli::load_client, &client::config_fault>))
    program.commands.push_back(std::move(command));
  return cli::execute(program, argc, argv);
}
