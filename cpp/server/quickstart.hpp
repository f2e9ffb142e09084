// `tunnelmesh-server quickstart`: the first set-up, for one machine.
//
// Creates a directory with a database (an administrator, one agent, its policies,
// one agent token, one client token) and the three configuration files that belong
// to it, all with mode 0600 in a directory with mode 0700, and prints the commands
// that start the three programs. All or nothing: it refuses to touch a directory
// that already holds one of its files, and on any failure removes what it created.
// Blocking, keeps nothing.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

struct QuickstartRequest {
  std::string directory = "./tunnelmesh";
  std::string agent_name = "home";
  std::string listen = "127.0.0.1:8080";  // where the server listens
  std::string socks5 = "127.0.0.1:1080";  // the client's local entry
  std::vector<std::string> allow;         // at least one target pattern (target_pattern.hpp)
  std::string public_url;                 // ws:// or wss:// base URL; empty: made from `listen`
  storage::WallClock clock = storage::system_clock();
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

// 0 = done; 1 = failed, with nothing left behind; 2 = a value is malformed or no
// --allow was given. Every malformed value is named on `err`, not only the first.
[[nodiscard]] int run_quickstart(const QuickstartRequest& request);

}  // namespace tmesh::server
