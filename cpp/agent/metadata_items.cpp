#include "cpp/agent/metadata_items.hpp"

#include <cstdlib>
#include <utility>

#include "core/proto/metadata.h"
#include "cpp/base/file.hpp"
#include "cpp/base/utf8.hpp"

namespace tmesh::agent {

std::vector<CollectedItem> collect_metadata(const std::vector<config::MetadataItem>& items) {
  std::vector<CollectedItem> collected;
  for (const auto& item : items) {
    CollectedItem out;
    out.name = item.name;
    if (item.source == config::MetadataItem::Kind::file) {
      out.source = "file";
      auto text = read_file(item.path, TMESH_METADATA_VALUE_MAX_BYTES);
      out.is_failed = !text;
      if (text) out.value = std::move(*text);
    } else {
      out.source = "env";
      const char* value = std::getenv(item.key.c_str());
      out.is_failed = value == nullptr;
      if (value != nullptr) out.value = value;
    }
    if (out.value.size() > TMESH_METADATA_VALUE_MAX_BYTES || !utf8_valid(out.value)) {
      out.is_failed = true;
      out.value.clear();
    }
    collected.push_back(std::move(out));
  }
  return collected;
}

}  // namespace tmesh::agent
