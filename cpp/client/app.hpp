// The client program behind its command line.
#pragma once

#include "cpp/config/client.hpp"

namespace tmesh::client {

// Serves every tunnel of the configuration until SIGTERM or SIGINT. Blocks. Returns the
// exit code: 0 stopped by a signal, 1 failed at run time (a busy port, a dead listener),
// 3 the configuration asks for what this version cannot do.
int run(const config::ClientConfig& config);

}  // namespace tmesh::client
