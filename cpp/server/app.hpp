// The server program behind its command line.
#pragma once

#include <string>

#include "cpp/config/load.hpp"

namespace tmesh::server {

// Serves until SIGTERM or SIGINT. Blocks. Returns the exit code: 0 stopped by a signal,
// 1 failed at run time (a busy port, a database that cannot be used, a dead listener),
// 3 the configuration asks for what this version cannot do. On SIGHUP, and when its files
// change, the configuration is loaded from the source anew.
int run(const config::Loaded<config::ServerConfig>& started, const config::Source& source);

// What run() would refuse of a configuration that loads, such as a certificate without its key: one
// line that names key and file, or nothing. Reads the files.
std::string config_fault(const config::ServerConfig& config);

}  // namespace tmesh::server
