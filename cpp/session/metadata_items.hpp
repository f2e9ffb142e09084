// The configured facts that a client or an agent reports about its host (client.metadata,
// agent.metadata).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/proto/metadata.h"
#include "cpp/base/log.hpp"

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

// The payload of a hello; empty when it is invalid. What reports too much goes without its items,
// for it is more useful without them than offline.
template <class Hello>
std::vector<uint8_t> encode_hello(Hello& hello,
                                  tmesh_status (*encode)(const Hello*, char*, size_t, size_t*)) {
  std::vector<uint8_t> out(TMESH_METADATA_MAX_BYTES);
  char* const text = reinterpret_cast<char*>(out.data());
  std::size_t len = 0;
  if (!tmesh_is_ok(encode(&hello, text, out.size(), &len))) {
    log::warn("metadata_too_large");
    hello.item_count = 0;
    hello.error_count = 0;
    if (!tmesh_is_ok(encode(&hello, text, out.size(), &len))) return {};
  }
  out.resize(len);
  return out;
}

// Of a wall clock in microseconds.
inline tmesh_time metadata_time(int64_t wall_us) {
  return {wall_us / 1'000'000, static_cast<uint32_t>(wall_us % 1'000'000) * 1000};
}

}  // namespace tmesh::session
