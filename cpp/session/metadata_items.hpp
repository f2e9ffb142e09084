// The configured facts that a client or an agent reports about its host (client.metadata,
// agent.metadata).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/proto/metadata.h"

namespace tmesh::session {

// Where one comes from: a file, or a variable when path is empty.
struct MetadataSource {
  std::string name;
  std::string path;
  std::string variable;
};

struct CollectedItem {
  std::string name;
  const char* source = "";  // "file" or "env"
  std::string value;
  bool is_failed = false;  // the file or variable could not be read: reported by name only
};

// Reads regular files (blocking, small, once per link) and variables. A value longer
// than the protocol's 4,096 bytes, not UTF-8 or with a NUL counts as failed. An item
// whose name the protocol does not allow is left out.
std::vector<CollectedItem> collect_metadata(std::span<const MetadataSource> sources);

// As config::MetadataItem says it.
template <class Item>
std::vector<CollectedItem> collect_metadata_items(const std::vector<Item>& items) {
  std::vector<MetadataSource> sources;
  sources.reserve(items.size());
  for (const Item& item : items) {
    sources.push_back({item.name, item.source == Item::Kind::file ? item.path : std::string(), item.key});
  }
  return collect_metadata(sources);
}

// Puts them into a hello, as far as there is room. Borrowed until it was encoded.
template <class Hello>
void put_metadata(Hello& hello, const std::vector<CollectedItem>& items) {
  for (const CollectedItem& item : items) {
    if (item.is_failed) {
      if (hello.error_count == TMESH_METADATA_ERRORS_MAX) continue;
      hello.errors[hello.error_count++] = {item.name.c_str(), "collection_error", "cannot be read"};
    } else if (hello.item_count < TMESH_METADATA_ITEMS_MAX) {
      hello.items[hello.item_count++] = {item.name.c_str(), item.source, item.value.c_str(), false};
    }
  }
}

}  // namespace tmesh::session
