// The table of configuration keys: one row per key. The parser, the command line
// flags, `--help`, print-config and docs/operations/configuration.md are made from
// it, so a key is added here and nowhere else (docs/HACKING.md has the checklist).
//
// Static storage, no allocation, no I/O; safe from every thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tmesh::config {

// What a value looks like in text.
enum class Type : uint8_t {
  boolean,   // true, false
  count,     // whole number
  bytes,     // whole number, or with KiB, MiB, GiB
  duration,  // Go syntax: 100ms, 5s, 1m30s
  rate,      // "256 in 10s"
  text,
  choice,   // one of `choices`
  list,     // a sequence, or one text with commas
  objects,  // a sequence of mappings; their keys are the rows "path[].name"
  tree,     // anything below it is accepted unread
};

// Which programs use a key. Every program accepts every key (one model for all).
enum Role : uint8_t { kServer = 1, kAgent = 2, kClient = 4 };
inline constexpr uint8_t kEveryRole = kServer | kAgent | kClient;

enum class Effect : uint8_t {
  full,
  none,         // accepted with one warning per feature: it changes nothing here
  unavailable,  // as none, but `true` is an error: the user would rely on it
};

// nullptr when the text is fine, else a static reason ("must be ...") that does not
// repeat it.
using Check = const char* (*)(std::string_view text);

struct Key {
  std::string_view path;
  Type type = Type::text;
  std::string_view default_text;  // as a user would write it; "" = empty
  uint8_t roles = kEveryRole;
  std::string_view doc;

  uint64_t min = 0;  // count; bytes; durations in microseconds
  uint64_t max = UINT64_MAX;
  std::string_view choices;  // "a|b|c"
  Check check = nullptr;     // text, and each item of a list
  bool is_secret = false;    // printed as [redacted]
  bool is_token = false;     // secret, and never printed at all
  bool hides_query = false;  // a URL whose query is printed as [redacted]
  Effect effect = Effect::full;
  std::string_view feature;     // what one warning names, when the effect is not full
  std::string_view flags;       // more names of the flag: "storage-driver|..."
  std::string_view file_alias;  // older path, read from a file only when the key itself is set nowhere
  bool is_live = false;         // a reload applies it; otherwise the program has to be started again

  // Part of a list of mappings: no flag, no environment variable.
  constexpr bool is_element() const { return path.find("[]") != std::string_view::npos; }
  constexpr bool is_settable() const { return !is_element() && type != Type::objects && type != Type::tree; }

  constexpr Key range(uint64_t least, uint64_t most) const {
    Key k = *this;
    k.min = least;
    k.max = most;
    return k;
  }
  constexpr Key checked(Check fn) const {
    Key k = *this;
    k.check = fn;
    return k;
  }
  constexpr Key secret() const {
    Key k = *this;
    k.is_secret = true;
    return k;
  }
  constexpr Key token() const {
    Key k = secret();
    k.is_token = true;
    return k;
  }
  constexpr Key secret_query() const {
    Key k = *this;
    k.hides_query = true;
    return k;
  }
  constexpr Key no_effect(std::string_view what) const {
    Key k = *this;
    k.effect = Effect::none;
    k.feature = what;
    return k;
  }
  constexpr Key unavailable(std::string_view what) const {
    Key k = *this;
    k.effect = Effect::unavailable;
    k.feature = what;
    return k;
  }
  constexpr Key flag(std::string_view names) const {
    Key k = *this;
    k.flags = names;
    return k;
  }
  constexpr Key live() const {
    Key k = *this;
    k.is_live = true;
    return k;
  }
  constexpr Key formerly(std::string_view path_in_file) const {
    Key k = *this;
    k.file_alias = path_in_file;
    return k;
  }
};

// Every row, in the order of the documentation.
std::span<const Key> keys();

// The row of exactly that path (elements are written "client.tunnels[].name"); nullptr if none.
const Key* find_key(std::string_view path);
// Position in keys(); the row must be one of them.
std::size_t key_index(const Key& key);

// The row that a flag names: its path, or one of its further names for that role, else of
// the server's (deployed programs take those everywhere); without the dashes. nullptr if none.
const Key* find_flag(std::string_view name, Role role);

// "server.http_addr" -> "TUNNELMESH_SERVER_HTTP_ADDR".
std::string env_name(std::string_view path);

// What a value is called in help: "BOOL", "DURATION", ...
std::string_view value_name(const Key& key);

// Whether a path names no row but rows lie below it ("server.stream").
bool is_section(std::string_view path);

// The nearest valid path for an unknown one, empty if there is none: first a key with
// the same last part, then by edit distance. Keys of the role are preferred.
std::string_view nearest_key(std::string_view path, Role role);

}  // namespace tmesh::config
