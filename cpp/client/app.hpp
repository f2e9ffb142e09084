// The client program behind its command line.
#pragma once

#include <string>

#include "cpp/config/load.hpp"

namespace tmesh::client {

// Serves every tunnel of the configuration until SIGTERM or SIGINT. Blocks. Returns the
// exit code: 0 stopped by a signal, 1 failed at run time (a busy port, a dead listener),
// 3 the configuration asks for what this version cannot do. On SIGHUP, and when its files
// change, the configuration is loaded from the source anew.
int run(const config::Loaded<config::ClientConfig>& started, const config::Source& source);

// What run() would refuse of a configuration that loads, such as a certificate without its key: one
// line that names key and file, or nothing. Reads the files.
std::string config_fault(const config::ClientConfig& config);

// The one tunnel of the configuration between standard input and output instead of a listener
// (net/stdio.hpp), over one link of its own. Blocks. 0: both directions ended regularly; 1:
// refused, broken or ended by a signal, with one line on standard error.
int run_stdio(const config::ClientConfig& config);

}  // namespace tmesh::client
