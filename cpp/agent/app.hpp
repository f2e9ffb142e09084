// The agent program behind its command line.
#pragma once

#include <string>

#include "cpp/config/load.hpp"

namespace tmesh::agent {

// Serves until SIGTERM or SIGINT. Blocks. Never gives up on the server, a host without
// network at boot included. Returns the exit code: 0 stopped by a signal, 1 failed at
// run time (out of resources at start, an unreadable CA file). On SIGHUP, and when its files
// change, the configuration is loaded from the source anew.
int run(const config::Loaded<config::AgentConfig>& started, const config::Source& source);

// What run() would refuse of a configuration that loads, such as a certificate without its key: one
// line that names key and file, or nothing. Reads the files.
std::string config_fault(const config::AgentConfig& config);

}  // namespace tmesh::agent
