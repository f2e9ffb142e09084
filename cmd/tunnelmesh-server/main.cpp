// tunnelmesh-server: the command table and nothing else.
#include <map>
#include <utility>

#include "cmd/cli.hpp"
#include "cmd/config_commands.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/base/out_of_memory.hpp"
#include "cpp/server/admin_commands.hpp"
#include "cpp/server/app.hpp"
#include "cpp/server/database_settings.hpp"
#include "cpp/server/explain.hpp"
#include "cpp/server/node_identity.hpp"
#include "cpp/server/quickstart.hpp"
#include "cpp/server/schema_commands.hpp"
#include "cpp/server/secret_box.hpp"

namespace {

using namespace tmesh;

int run_server(const cli::Invocation& invocation) {
  const auto loaded = cli::load_server(invocation, config::Purpose::run);
  if (!loaded.ok()) return kExitConfig;
  log::configure(loaded.config.log.level, loaded.config.log.format);
  return server::run(loaded, invocation.source);
}

using AdminCommand = int (*)(const server::AdminRequest&);

int run_on_database(const cli::Invocation& invocation, AdminCommand command) {
  const auto loaded = cli::load_server(invocation, config::Purpose::use);
  if (!loaded.ok()) return kExitConfig;
  server::AdminRequest request;
  request.resource = invocation.path.front();
  request.verb = invocation.path.back();
  request.arguments = invocation.arguments;
  for (const cli::Invocation::Option& option : invocation.options) {
    if (option.name == "json") continue;
    const bool is_switch = invocation.flag(option.name)->value_name.empty();
    if (is_switch && option.value == "false") continue;
    request.options.push_back({option.name, is_switch ? "" : option.value});
  }
  request.is_json = invocation.is_on("json");
  request.database = server::database_settings(loaded.config.storage);
  request.auto_init = loaded.config.storage.is_auto_init;
  request.out = invocation.out;
  request.err = invocation.err;
  const Result<std::optional<server::SecretBox>> box =
      server::SecretBox::if_given(loaded.config.token_encryption_key, loaded.config.token_encryption_key_id);
  if (!box) {
    (void)std::fprintf(invocation.err, "%s\n", box.error().text);
    return kExitConfig;
  }
  if (*box) request.secret_box = &**box;
  return command(request);
}

int run_admin(const cli::Invocation& invocation) {
  return run_on_database(invocation, &server::run_admin);
}

int run_explain(const cli::Invocation& invocation) {
  return run_on_database(invocation, &server::run_explain);
}

cli::Command explain_command() {
  cli::Command command{.name = "explain", .doc = "why a client's token may or may not open a target"};
  command.flags = {{"agent", "AGENT", "id or name of the agent", "", "", true},
                   {"token-id", "ID", "the client token (its id, not its secret)"},
                   {"user", "USER", "instead: every client token of this user (id or name)"},
                   {"protocol", "PROTOCOL", "what is opened", "tcp", "tcp|udp|http|ws"},
                   {"node", "ID", "the server at which the token is used; its scope of servers counts then"},
                   {"json", "", "print JSON"}};
  command.arguments = {"HOST:PORT"};
  command.takes_keys = true;
  command.run = &run_explain;
  return command;
}

server::SchemaRequest schema_request(const cli::Invocation& invocation, const config::ServerConfig& config) {
  return {.database = server::database_settings(config.storage),
          .is_json = invocation.is_on("json"),
          .out = invocation.out,
          .err = invocation.err};
}

int run_migrate(const cli::Invocation& invocation) {
  const auto loaded = cli::load_server(invocation, config::Purpose::use);
  if (!loaded.ok()) return kExitConfig;
  return server::run_migrate(schema_request(invocation, loaded.config), invocation.is_on("dry-run"));
}

int run_db_check(const cli::Invocation& invocation) {
  const auto loaded = cli::load_server(invocation, config::Purpose::use);
  if (!loaded.ok()) return kExitConfig;
  return server::run_db_check(schema_request(invocation, loaded.config));
}

int run_quickstart(const cli::Invocation& invocation) {
  server::QuickstartRequest request;
  request.directory = invocation.value("dir");
  request.agent_name = invocation.value("agent");
  request.listen = invocation.value("listen");
  request.socks5 = invocation.value("socks5");
  request.allow = invocation.values("allow");
  request.public_url = invocation.value("public-url");
  request.out = invocation.out;
  request.err = invocation.err;
  return server::run_quickstart(request);
}

cli::Command quickstart_command() {
  const server::QuickstartRequest defaults;
  cli::Command command{.name = "quickstart",
                       .doc = "first set-up on one machine: database, agent, tokens, files"};
  command.flags = {
      {"dir", "DIR", "folder for database and configuration", defaults.directory},
      {"agent", "NAME", "name of the agent", defaults.agent_name},
      {"listen", "HOST:PORT", "where the server listens", defaults.listen},
      {"socks5", "HOST:PORT", "the client's local SOCKS5 entry", defaults.socks5},
      {"allow", "PATTERN", "targets the agent may dial: host:port, *:*, 10.0.0.0/8:*, *.example.com:443", "",
       "", true, true},
      {"public-url", "URL", "ws:// or wss:// URL of the server, if it is not --listen"}};
  command.run = &run_quickstart;
  return command;
}

int run_init_node_id(const cli::Invocation& invocation) {
  const auto loaded = cli::load_server(invocation, config::Purpose::print);
  if (!loaded.ok()) return kExitConfig;
  const std::string& path = loaded.config.node_id_path;
  const auto made = server::init_node_id({loaded.config.node_id, path});
  if (!made) {
    std::fprintf(invocation.err, "node.id_path: %s: %s\n", path.c_str(), made.error().text);
    return kExitFailure;
  }
  std::fprintf(invocation.out, "%s\n", made->id.c_str());
  return kExitOk;
}

// Deployed servers print a line and go on; a script that goes on with `run` has its schema then.
int run_init_db(const cli::Invocation& invocation) {
  std::fputs(
      "init-db: there is nothing to do; run makes the schema (storage.auto_init), or tunnelmesh-server "
      "migrate\n",
      invocation.out);
  return kExitOk;
}

cli::Command init_db_command() {
  cli::Command command{.name = "init-db", .doc = "does nothing: see run and migrate"};
  command.takes_keys = true;
  command.is_hidden = true;
  command.run = &run_init_db;
  return command;
}

cli::Command init_node_id_command() {
  cli::Command command{.name = "init-node-id",
                       .doc = "makes the identity of this server unless it has one; prints it"};
  command.takes_keys = true;
  command.run = &run_init_node_id;
  return command;
}

// The schema of the configured database.
std::vector<cli::Command> schema_commands() {
  const cli::Flag json{"json", "", "print JSON"};
  cli::Command migrate{.name = "migrate", .doc = "creates or upgrades the schema of the database"};
  migrate.flags = {{"dry-run", "", "print the pending steps and their statements, change nothing"}, json};
  migrate.takes_keys = true;
  migrate.run = &run_migrate;
  cli::Command check{.name = "check", .doc = "tells what is wrong with the database; changes nothing"};
  check.flags = {json};
  check.takes_keys = true;
  check.run = &run_db_check;
  cli::Command db{.name = "db", .doc = "the database itself"};
  db.children.push_back(std::move(check));
  return {std::move(migrate), std::move(db)};
}

// One group of commands for each resource of the administration.
std::vector<cli::Command> admin_commands() {
  const std::map<std::string, std::string> docs = {
      {"user", "people who own agents and tokens"},     {"admin", "how administrators get in"},
      {"audit", "who changed what, and when"},          {"agent", "agents and their state"},
      {"policy", "what an agent may be asked to dial"}, {"token", "secrets of agents and clients"},
      {"node", "the servers of this installation"}};
  std::vector<cli::Command> groups;
  for (const server::AdminVerb& verb : server::admin_verbs()) {
    if (groups.empty() || groups.back().name != verb.resource) {
      const auto doc = docs.find(verb.resource);
      groups.push_back({.name = verb.resource, .doc = doc == docs.end() ? "" : doc->second});
    }
    cli::Command command{.name = verb.verb, .doc = verb.help};
    for (const server::AdminFlag& flag : verb.flags) {
      command.flags.push_back({flag.name, flag.value_name == nullptr ? "" : flag.value_name, flag.help, "",
                               "", flag.is_required, flag.is_repeatable});
    }
    command.flags.push_back({"json", "", "print JSON"});
    if (verb.argument != nullptr) command.arguments.emplace_back(verb.argument);
    command.takes_keys = true;
    command.run = &run_admin;
    groups.back().children.push_back(std::move(command));
  }
  return groups;
}

}  // namespace

int main(int argc, char** argv) {
  exit_when_out_of_memory();
  cli::Program program{.name = "tunnelmesh-server", .doc = "the public hub between clients and agents"};
  program.role = config::kServer;
  cli::Command run{.name = "run", .doc = "start the server"};
  run.takes_keys = true;
  run.run = &run_server;
  program.commands = {run, quickstart_command(), init_node_id_command(), init_db_command(),
                      explain_command()};
  for (cli::Command& command : schema_commands()) program.commands.push_back(std::move(command));
  for (cli::Command& command : admin_commands()) program.commands.push_back(std::move(command));
  for (cli::Command& command :
       cli::config_commands(&cli::check_config<&cli::load_server, &server::config_fault>))
    program.commands.push_back(std::move(command));
  return cli::execute(program, argc, argv);
}
