// The commands that every program has: run, check-config, print-config, and the
// hidden config-reference.
#pragma once

#include <string>
#include <vector>

#include "cmd/cli.hpp"
#include "cpp/config/load.hpp"

namespace tmesh::cli {

// Loads for a role; warnings and errors go to invocation.err. Without a value in
// `loaded.ok()` the command ends with kExitConfig.
config::Loaded<config::ServerConfig> load_server(const Invocation& invocation, config::Purpose purpose);
config::Loaded<config::AgentConfig> load_agent(const Invocation& invocation, config::Purpose purpose);
config::Loaded<config::ClientConfig> load_client(const Invocation& invocation, config::Purpose purpose);

// check-config, print-config and config-reference for the program's role.
std::vector<Command> config_commands();

}  // namespace tmesh::cli
