// How rows of the key table are written (private to this folder).
#pragma once

#include <span>

#include "cpp/config/key_table.hpp"

namespace tmesh::config::rows {

constexpr Key make(std::string_view path, Type type, std::string_view default_text, uint8_t roles,
                   std::string_view doc) {
  Key key;
  key.path = path;
  key.type = type;
  key.default_text = default_text;
  key.roles = roles;
  key.doc = doc;
  return key;
}
constexpr Key boolean(std::string_view path, std::string_view value, uint8_t roles, std::string_view doc) {
  return make(path, Type::boolean, value, roles, doc);
}
constexpr Key count(std::string_view path, std::string_view value, uint8_t roles, std::string_view doc) {
  return make(path, Type::count, value, roles, doc);
}
constexpr Key bytes(std::string_view path, std::string_view value, uint8_t roles, std::string_view doc) {
  return make(path, Type::bytes, value, roles, doc);
}
constexpr Key duration(std::string_view path, std::string_view value, uint8_t roles, std::string_view doc) {
  return make(path, Type::duration, value, roles, doc);
}
constexpr Key text(std::string_view path, std::string_view value, uint8_t roles, std::string_view doc) {
  return make(path, Type::text, value, roles, doc);
}
constexpr Key list(std::string_view path, std::string_view value, uint8_t roles, std::string_view doc) {
  return make(path, Type::list, value, roles, doc);
}
constexpr Key choice(std::string_view path, std::string_view choices, std::string_view value, uint8_t roles,
                     std::string_view doc) {
  Key key = make(path, Type::choice, value, roles, doc);
  key.choices = choices;
  return key;
}

inline constexpr uint64_t kMs = 1000;
inline constexpr uint64_t kSecond = 1000000;
inline constexpr uint64_t kMinute = 60 * kSecond;
inline constexpr uint64_t kHour = 60 * kMinute;
inline constexpr uint64_t kDay = 24 * kHour;

// Ranges used by many rows. A count of streams, dials or opens beyond a million is
// more than a process has descriptors; a timeout beyond a day is a typing error.
inline constexpr uint64_t kCountMax = 1000000;
inline constexpr uint64_t kBufferMax = 1ULL << 30;  // one stream; the memory budget is smaller anyway

std::span<const Key> common();
std::span<const Key> server();
std::span<const Key> server_features();
std::span<const Key> agent();
std::span<const Key> client();

}  // namespace tmesh::config::rows
