// A YAML or JSON text as a flat list of nodes. (JSON is read by the same parser.)
//
// The only user of <yaml.h>. Refused, each with its line: aliases (a small text can
// expand without end), tags other than the standard scalar ones, tabs in the
// indentation, a second document, keys that are no plain text, repeated keys,
// nesting beyond kYamlDepthMax, more than kYamlNodesMax nodes. Reading goes on
// behind a problem wherever the parser can. Keys compare without case, as deployed
// programs read them, and come out in lower case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/config/problems.hpp"

namespace tmesh::config {

inline constexpr std::size_t kFileBytesMax = 1U << 20;  // configuration is written by hand
inline constexpr std::size_t kYamlDepthMax = 16;        // the deepest key has five levels
inline constexpr std::size_t kYamlNodesMax = 50000;     // 256 tunnels have about 4,000
inline constexpr std::size_t kYamlKeyBytesMax = 128;    // one part of a path

struct YamlNode {
  enum class Kind : uint8_t { scalar, null, mapping, sequence };
  std::string path;  // "client.tunnels[0].listen"; the root's is ""
  Kind kind = Kind::scalar;
  std::string value;     // of a scalar
  std::size_t line = 0;  // of the key, or of the item
};

// Nodes in the order of the text, a container before its content. `file` is the
// name for messages. Problems are added to `problems`; what could be read is
// returned all the same. Does not block.
std::vector<YamlNode> read_yaml(std::string_view text, const std::string& file, Problems& problems);

}  // namespace tmesh::config
