// The configured facts an agent reports about its host (agent.metadata).
#pragma once

#include <string>
#include <vector>

#include "cpp/config/common.hpp"

namespace tmesh::agent {

struct CollectedItem {
  std::string name;
  const char* source = "";  // "file" or "env"
  std::string value;
  bool is_failed = false;  // the file or variable could not be read: reported by name only
};

// Reads regular files (blocking, small, once per link) and variables. A value longer
// than the protocol's 4,096 bytes, not UTF-8 or with a NUL counts as failed. An item
// whose name the protocol does not allow is left out.
std::vector<CollectedItem> collect_metadata(const std::vector<config::MetadataItem>& items);

}  // namespace tmesh::agent
