// `tunnelmesh-client status` and `tunnelmesh-agent status`: asks the running programs.
// Blocking, without a loop.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "cpp/session/status_place.hpp"

namespace tmesh::session {

struct StatusRequest {
  std::string_view role;             // "client", "agent"
  std::string socket;                // of the configuration; empty: every place where one may be
  bool is_json = false;              // the documents as they came, one line each
  bool is_watch = false;             // again and again, until a signal or nobody reads `out`
  uint64_t patience_us = 3'000'000;  // with one program, until its last byte
  uint64_t watch_every_us = 1'000'000;
  unsigned watch_rounds_max = 0;  // 0: no end; tests have one
  StatusSurroundings around = status_surroundings();
  std::FILE* out = stdout;
  std::FILE* err = stderr;
};

// 0: at least one program answered. 1: none runs, or it does not let this user ask; `err`
// says which and where was looked. While it watches, that is no end.
[[nodiscard]] int run_status(const StatusRequest& request);

}  // namespace tmesh::session
