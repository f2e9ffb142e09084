#include "cmd/config_commands.hpp"

#include "cpp/config/print.hpp"

namespace tmesh::cli {
namespace {

void print(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
}

template <class Config>
config::Loaded<Config> reported(const Invocation& invocation, config::Loaded<Config> loaded) {
  print(invocation.err, loaded.problems.warnings_text() + loaded.problems.errors_text());
  return loaded;
}

template <class Config>
int show(const Invocation& invocation, config::Loaded<Config> (*load)(const Invocation&, config::Purpose)) {
  const config::Loaded<Config> loaded = load(invocation, config::Purpose::print);
  if (!loaded.ok()) return kExitConfig;
  print(invocation.out,
        config::print_config(loaded.settings, invocation.program->role, invocation.is_on("origin")));
  return kExitOk;
}

int print_config(const Invocation& invocation) {
  switch (invocation.program->role) {
    case config::kServer:
      return show(invocation, &load_server);
    case config::kAgent:
      return show(invocation, &load_agent);
    case config::kClient:
      return show(invocation, &load_client);
  }
  return kExitFailure;
}

int config_reference(const Invocation& invocation) {
  print(invocation.out, config::dump_reference_markdown());
  return kExitOk;
}

}  // namespace

config::Loaded<config::ServerConfig> load_server(const Invocation& invocation, config::Purpose purpose) {
  return reported(invocation, config::load_server(invocation.source, purpose));
}

config::Loaded<config::AgentConfig> load_agent(const Invocation& invocation, config::Purpose purpose) {
  return reported(invocation, config::load_agent(invocation.source, purpose));
}

config::Loaded<config::ClientConfig> load_client(const Invocation& invocation, config::Purpose purpose) {
  return reported(invocation, config::load_client(invocation.source, purpose));
}

std::vector<Command> config_commands(int (*check_config)(const Invocation&)) {
  Command check{.name = "check-config", .doc = "report every problem of the configuration"};
  check.takes_keys = true;
  check.run = check_config;
  Command show{.name = "print-config", .doc = "print the effective configuration as JSON, secrets redacted"};
  show.flags = {{"origin", "", "say where each value comes from", "", "", false, false}};
  show.takes_keys = true;
  show.run = &print_config;
  Command reference{.name = "config-reference", .doc = "print the table of all keys as Markdown"};
  reference.is_hidden = true;
  reference.run = &config_reference;
  return {check, show, reference};
}

}  // namespace tmesh::cli
