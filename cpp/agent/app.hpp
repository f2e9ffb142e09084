// The agent program behind its command line.
#pragma once

#include "cpp/config/load.hpp"

namespace tmesh::agent {

// Serves until SIGTERM or SIGINT. Blocks. Never gives up on the server, a host without
// network at boot included. Returns the exit code: 0 stopped by a signal, 1 failed at
// run time (out of resources at start, an unreadable CA file). On SIGHUP, and when its files
// change, the configuration is loaded from the source anew.
int run(const config::Loaded<config::AgentConfig>& started, const config::Source& source);

}  // namespace tmesh::agent
