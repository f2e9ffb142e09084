// The commands that every program has: run, check-config, print-config, and the
// hidden config-reference.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cmd/cli.hpp"
#include "cpp/base/exit_code.hpp"
#include "cpp/config/load.hpp"

namespace tmesh::cli {

// Loads for a role; warnings and errors go to invocation.err. Without a value in
// `loaded.ok()` the command ends with kExitConfig.
config::Loaded<config::ServerConfig> load_server(const Invocation& invocation, config::Purpose purpose);
config::Loaded<config::AgentConfig> load_agent(const Invocation& invocation, config::Purpose purpose);
config::Loaded<config::ClientConfig> load_client(const Invocation& invocation, config::Purpose purpose);

// For check-config. fault: of the program; what run would refuse of a configuration that loads, in
// one line without its end, or nothing.
template <auto load, auto fault>
int check_config(const Invocation& invocation) {
  const auto loaded = load(invocation, config::Purpose::check);
  if (!loaded.ok()) return kExitConfig;
  const std::string why = fault(loaded.config);
  if (why.empty()) {
    (void)std::fputs("configuration valid\n", invocation.out);
    return kExitOk;
  }
  (void)std::fprintf(invocation.err, "%s\n", why.c_str());
  return kExitConfig;
}

// check-config, print-config and config-reference for the program's role.
std::vector<Command> config_commands(int (*check_config)(const Invocation&));

}  // namespace tmesh::cli
