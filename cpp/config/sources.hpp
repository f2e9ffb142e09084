// From the sources to Settings: flags over environment over file over default, for
// every key (requirement F1).
#pragma once

#include <string>
#include <vector>

#include "cpp/base/file.hpp"
#include "cpp/base/file_print.hpp"
#include "cpp/config/key_table.hpp"
#include "cpp/config/problems.hpp"
#include "cpp/config/settings.hpp"

namespace tmesh::config {

struct FlagValue {
  std::string name;   // as typed, without its dashes
  std::string path;   // the key's path
  std::string value;  // not wiped: a reload needs it again
};

struct Source {
  std::string file;                          // --config; empty = none
  std::vector<FlagValue> flags;              // in order; of repeated ones the last counts, lists add up
  const char* const* environment = nullptr;  // as environ; nullptr = empty. Borrowed.
  // A `forward` command's one tunnel: fields of client.tunnels[] by name, instead of
  // the tunnels in the file.
  std::vector<FlagValue> tunnel;
  bool is_reload = false;  // the program runs already: what can be read only once was read
};

// Reads the file (blocking) and merges. Every problem goes to `problems`; a refused
// value leaves the next lower source in effect. files: gets what was read, may be null.
Settings gather(const Source& source, Role role, Problems& problems, FilePrints* files = nullptr);

inline Pipes pipes(const Source& source) {
  return source.is_reload ? Pipes::refuse : Pipes::read;
}

// The value of an environment variable that is no key (SOCKS5 credentials); empty when unset.
std::string_view environment_value(const Source& source, std::string_view name);

}  // namespace tmesh::config
