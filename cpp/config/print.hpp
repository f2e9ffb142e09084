// The effective configuration and the key table as text.
#pragma once

#include <string>

#include "cpp/config/key_table.hpp"
#include "cpp/config/settings.hpp"

namespace tmesh::config {

// Indented JSON, nested by the parts of the paths: every key of the role, and every
// other key that was set. Tokens are left out, other secrets are "[redacted]"
// (INTERFACE 5.1). With origins each value is {"value": ..., "origin": "file:12"}.
// Ends with a newline.
std::string print_config(const Settings& settings, Role role, bool with_origins);

// docs/operations/configuration.md: every key with type, default, range, variable
// and meaning, grouped by program. Ends with a newline.
std::string dump_reference_markdown();

// The part of `--help` about keys: one line per key of the role that can be a flag.
std::string keys_help(Role role);

}  // namespace tmesh::config
