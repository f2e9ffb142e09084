// The effective text of every key, with its origin: what the sources (files,
// environment, flags) are merged into, and what the typed configurations and
// print-config are made from.
//
// Only valid texts get in, so the typed getters cannot fail. Values of secret keys
// are wiped when the Settings die. Move-only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/redact.hpp"
#include "cpp/config/key_table.hpp"
#include "cpp/config/problems.hpp"
#include "cpp/config/value.hpp"

namespace tmesh::config {

struct Setting {
  Origin origin;
  std::vector<std::string> values;  // one text; of a list any number
  bool is_refused = false;          // somebody set it, and no valid value came of it

  bool is_set() const { return origin.kind != Origin::Kind::fallback; }
  std::string_view text() const { return values.empty() ? std::string_view() : values.front(); }
};

// One mapping of a list of mappings, such as client.tunnels[0].
struct Element {
  struct Field {
    const Key* key;
    Setting setting;
  };
  Origin origin;     // its first line
  std::string path;  // "client.tunnels[0]"
  std::vector<Field> fields;

  // The setting of "name" in "client.tunnels[].name"; nullptr when it was not given.
  const Setting* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  // The value, or the row's default.
  std::string_view text(std::string_view name) const;
  bool boolean(std::string_view name) const;
  uint64_t number(std::string_view name) const;
  std::vector<std::string> list(std::string_view name) const;
  // Where the field was given, or where the element begins.
  const Origin& where(std::string_view name) const;

 private:
  const Key& row(std::string_view name) const;
};

class Settings {
 public:
  Settings();  // every key at its default
  Settings(Settings&&) noexcept = default;
  Settings& operator=(Settings&&) noexcept = default;
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;
  ~Settings();

  const Setting& at(const Key& key) const { return settings_[key_index(key)]; }
  Setting& at(const Key& key) { return settings_[key_index(key)]; }
  // The path must be a row of the table; asserted, as is the type in those below.
  const Setting& at(std::string_view path) const;

  bool is_set(std::string_view path) const { return at(path).is_set(); }
  const Origin& origin(std::string_view path) const { return at(path).origin; }
  std::string_view text(std::string_view path) const { return at(path).text(); }
  std::string string(std::string_view path) const { return std::string(text(path)); }
  bool boolean(std::string_view path) const;
  // A count, bytes, or a duration in microseconds.
  uint64_t number(std::string_view path) const;
  Rate rate(std::string_view path) const;
  const std::vector<std::string>& list(std::string_view path) const { return at(path).values; }
  Secret secret(std::string_view path) const { return Secret(text(path)); }

  // Changes the effective value; the origin stays, since the operator looks for it there.
  void replace(std::string_view path, std::string_view text);

  // Of an `objects` row, in the order of the file.
  const std::vector<Element>& elements(std::string_view path) const;
  std::vector<Element>& elements(std::string_view path);

 private:
  std::vector<Setting> settings_;  // as keys()
  struct Group {
    std::string_view path;
    std::vector<Element> elements;
  };
  std::vector<Group> groups_;
};

}  // namespace tmesh::config
