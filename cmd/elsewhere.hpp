// Commands that other programs of these names have and that do nothing there either: they say
// where the thing is done. Hidden; keys are accepted, since scripts give --config to everything.
#pragma once

#include <cstdio>

#include "cmd/cli.hpp"
#include "cpp/base/exit_code.hpp"

namespace tmesh::cli {

template <const char* kText>
int run_elsewhere(const Invocation& invocation) {
  std::fprintf(invocation.err, "%s\n", kText);
  return kExitUsage;
}

template <const char* kText>
Command elsewhere(const char* name) {
  Command command{.name = name, .doc = kText};
  command.takes_keys = true;
  command.is_hidden = true;
  command.run = &run_elsewhere<kText>;
  return command;
}

}  // namespace tmesh::cli
