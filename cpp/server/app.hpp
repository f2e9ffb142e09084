// The server program behind its command line.
#pragma once

#include "cpp/config/server.hpp"

namespace tmesh::server {

// Serves until SIGTERM or SIGINT. Blocks. Returns the exit code: 0 stopped by a signal,
// 1 failed at run time (a busy port, a database that cannot be used, a dead listener),
// 3 the configuration asks for what this version cannot do.
int run(const config::ServerConfig& config);

}  // namespace tmesh::server
