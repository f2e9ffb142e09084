#include "cpp/config/key_table.hpp"

#include <algorithm>
#include <vector>

#include "core/base/check.h"
#include "cpp/base/nearest.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/config/key_rows.hpp"

namespace tmesh::config {
namespace {

std::vector<Key> all_rows() {
  std::vector<Key> all;
  for (const std::span<const Key> part :
       {rows::common(), rows::server(), rows::server_features(), rows::agent(), rows::client()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t bar = names.find('|');
    if (names.substr(0, bar) == name) return true;
    names = bar == std::string_view::npos ? std::string_view() : names.substr(bar + 1);
  }
  return false;
}

std::string_view last_part(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

// What stands in front of the last part; empty at the top.
std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

// Paths worth proposing: rows, and the sections above them.
std::vector<std::string_view> paths_for(uint8_t roles) {
  std::vector<std::string_view> paths;
  for (const Key& key : keys()) {
    if ((key.roles & roles) == 0) continue;
    for (std::size_t dot = key.path.find('.'); dot != std::string_view::npos;
         dot = key.path.find('.', dot + 1)) {
      paths.push_back(key.path.substr(0, dot));
    }
    paths.push_back(key.path);
  }
  return paths;
}

// Where the section is right, only the last part counts: a long common beginning
// would make everything in it look alike.
std::string_view nearest_in(std::string_view path, const std::vector<std::string_view>& paths) {
  const std::string_view parent = parent_of(path);
  if (!parent.empty() && !is_section(parent)) return nearest(path, paths);
  std::vector<std::string_view> siblings;
  for (const std::string_view other : paths) {
    if (parent_of(other) == parent) siblings.push_back(last_part(other));
  }
  const std::string_view name = nearest(last_part(path), siblings);
  for (const std::string_view other : paths) {
    if (!name.empty() && parent_of(other) == parent && last_part(other) == name) return other;
  }
  return {};
}

}  // namespace

std::span<const Key> keys() {
  static const std::vector<Key> all = all_rows();
  return all;
}

const Key* find_key(std::string_view path) {
  const auto all = keys();
  const auto it = std::find_if(all.begin(), all.end(), [&](const Key& key) { return key.path == path; });
  return it == all.end() ? nullptr : &*it;
}

std::size_t key_index(const Key& key) {
  const auto index = static_cast<std::size_t>(&key - keys().data());
  TMESH_ASSERT(index < keys().size());
  return index;
}

const Key* find_flag(std::string_view name, Role role) {
  const Key* of_server = nullptr;
  for (const Key& key : keys()) {
    if (!key.is_settable()) continue;
    if (key.path == name) return &key;
    if (!has_name(key.flags, name)) continue;
    if ((key.roles & role) != 0) return &key;
    if ((key.roles & kServer) != 0) of_server = &key;
  }
  return of_server;
}

std::string env_name(std::string_view path) {
  std::string name = "TUNNELMESH_" + ascii_upper(path);
  std::replace_if(name.begin(), name.end(), [](char c) { return c == '.' || c == '-'; }, '_');
  return name;
}

std::string_view value_name(const Key& key) {
  switch (key.type) {
    case Type::boolean:
      return "BOOL";
    case Type::count:
      return "COUNT";
    case Type::bytes:
      return "BYTES";
    case Type::duration:
      return "DURATION";
    case Type::rate:
      return "'COUNT in DURATION'";
    case Type::text:
      return key.is_secret ? "SECRET" : "TEXT";
    case Type::choice:
      return key.choices;
    case Type::list:
      return "TEXT,...";
    case Type::objects:
    case Type::tree:
      break;
  }
  return "";
}

bool is_section(std::string_view path) {
  return std::any_of(keys().begin(), keys().end(), [&](const Key& key) {
    return key.path.size() > path.size() && key.path.starts_with(path) && key.path[path.size()] == '.';
  });
}

std::string_view nearest_key(std::string_view path, Role role) {
  const std::string_view wanted = last_part(path);
  std::string_view best;
  std::size_t best_distance = SIZE_MAX;
  for (const Key& key : keys()) {
    if ((key.roles & role) == 0 || last_part(key.path) != wanted) continue;
    const std::size_t distance = edit_distance(path, key.path);
    if (distance < best_distance) {
      best_distance = distance;
      best = key.path;
    }
  }
  if (!best.empty()) return best;
  const std::string_view own = nearest_in(path, paths_for(role));
  return own.empty() ? nearest_in(path, paths_for(kEveryRole)) : own;
}

}  // namespace tmesh::config
