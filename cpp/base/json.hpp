// JSON for configuration, administration and the HTTP API: a strict bounded reader
// over cJSON, and a streaming writer. (Frames have their own reader in core/proto.)
//
// The reader accepts exactly RFC 8259: the text is checked before cJSON sees it,
// because cJSON alone takes raw control characters, "01", trailing bytes, invalid
// UTF-8 and a thousand levels. \u0000 is refused as well: values end up in C
// strings and databases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/result.hpp"

struct cJSON;

namespace tmesh::json {

struct Limits {
  std::size_t depth_max = 16;             // no message of ours nests deeper than 8
  std::size_t size_bytes_max = 1U << 20;  // the HTTP body limit
};

// A borrowed view of one value of a Document; valid while the Document lives. A
// default-constructed Value (a member that is not there) is false and answers
// every question with "no".
class Value {
 public:
  Value() = default;
  explicit Value(const cJSON* node) : node_(node) {}

  explicit operator bool() const { return node_ != nullptr; }
  bool is_null() const;
  bool is_object() const;
  bool is_array() const;

  std::optional<bool> as_bool() const;
  std::optional<std::string_view> as_string() const;
  // Whole numbers within +-(2^53-1) only, which JSON numbers carry exactly.
  std::optional<int64_t> as_int() const;
  std::optional<double> as_number() const;

  // The member of that exact name; the last one when it is repeated.
  Value get(std::string_view key) const;
  // The name of this member; empty for array items.
  std::string_view key() const;
  // Members or items; 0 for everything else.
  std::size_t size() const;

  class Iterator {
   public:
    explicit Iterator(const cJSON* node) : node_(node) {}
    Value operator*() const { return Value(node_); }
    Iterator& operator++();
    bool operator==(const Iterator&) const = default;

   private:
    const cJSON* node_;
  };
  // Over members or items, in the order of the text.
  Iterator begin() const;
  Iterator end() const { return Iterator(nullptr); }

 private:
  const cJSON* node_ = nullptr;
};

// Owns a parsed text. Move-only.
class Document {
 public:
  Value root() const { return Value(node_.get()); }

 private:
  friend Result<Document> parse(std::string_view text, Limits limits);
  struct Free {
    void operator()(cJSON* node) const;
  };
  std::unique_ptr<cJSON, Free> node_;
};

// INVALID (with a static reason), TOO_LARGE (size or depth) or NO_MEMORY.
Result<Document> parse(std::string_view text, Limits limits = {});

// Writes one JSON value onto the end of a string, compact or indented by two
// spaces. Calls must nest properly and an object's values must follow key(); that
// is asserted. Text is escaped; bytes that are not UTF-8 become U+FFFD.
class Writer {
 public:
  enum class Style : uint8_t { compact, indented };

  explicit Writer(std::string& out, Style style = Style::compact) : out_(out), style_(style) {}

  Writer& begin_object() { return begin('{', true); }
  Writer& end_object() { return end('}', true); }
  Writer& begin_array() { return begin('[', false); }
  Writer& end_array() { return end(']', false); }
  Writer& key(std::string_view name);
  Writer& string(std::string_view value);
  Writer& integer(int64_t value);
  Writer& uinteger(uint64_t value);
  Writer& boolean(bool value);
  Writer& null();
  // A value that is JSON already.
  Writer& raw(std::string_view json);

  // key() and a value in one call.
  Writer& member(std::string_view name, std::string_view value) { return key(name).string(value); }
  Writer& member(std::string_view name, const char* value) { return key(name).string(value); }
  Writer& member(std::string_view name, bool value) { return key(name).boolean(value); }
  Writer& member(std::string_view name, int64_t value) { return key(name).integer(value); }
  Writer& member(std::string_view name, uint64_t value) { return key(name).uinteger(value); }
  Writer& member(std::string_view name, int value) { return key(name).integer(value); }
  Writer& member(std::string_view name, unsigned value) { return key(name).uinteger(value); }

 private:
  struct Level {
    bool is_object;
    bool has_items;
  };
  Writer& begin(char bracket, bool is_object);
  Writer& end(char bracket, bool is_object);
  void before_value();
  void new_line(std::size_t depth);

  std::string& out_;
  Style style_;
  std::vector<Level> levels_;
  bool has_key_ = false;
};

// Appends a quoted and escaped JSON string.
void append_quoted(std::string& out, std::string_view text);

}  // namespace tmesh::json
