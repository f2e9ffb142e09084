// Structured logging: one event, typed fields, one line.
//
//   log::warn("link_closed", {{"reason", "ws_text"}, {"streams", 3}, {"after_us", us}});
//
// text: `2026-01-02T03:04:05.000006Z warn link_closed reason=ws_text streams=3 after_us=12`
// json: `{"ts":"...","level":"warn","event":"link_closed","reason":"ws_text",...}`
//
// A line is built on the stack and leaves in a single write(2) of at most
// kLineBytesMax bytes (PIPE_BUF on Linux, so lines of several threads or
// processes on one pipe do not mix). A value longer than kValueBytesMax is cut;
// fields that do not fit are dropped and the line says truncated=true. Values are
// escaped: no control character, no invalid UTF-8, no second line can come out of
// a value. Allocates nothing. May be called from every thread at any time.
//
// Event and key names are snake_case literals of ours. Never log a secret, a
// target address, a body or a text of the operating system (requirements A7, G2);
// a Secret does not compile as a field.
#pragma once

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

namespace tmesh {

class Secret;

namespace log {

enum class Level : uint8_t { error, warn, info, debug };
enum class Format : uint8_t { text, json };

inline constexpr std::size_t kLineBytesMax = 4096;   // PIPE_BUF: the write stays atomic
inline constexpr std::size_t kValueBytesMax = 1024;  // one value cannot push the others out

// A key and a value; the strings are borrowed for the time of the call.
class Field {
 public:
  enum class Kind : uint8_t { text, sint, uint, boolean };

  Field(std::string_view key, std::string_view value) : key_(key), text_(value), kind_(Kind::text) {}
  Field(std::string_view key, const char* value)
      : Field(key, value == nullptr ? std::string_view("") : std::string_view(value)) {}
  Field(std::string_view key, bool value) : key_(key), uint_(value ? 1 : 0), kind_(Kind::boolean) {}
  template <std::signed_integral T>
  Field(std::string_view key, T value) : key_(key), sint_(value), kind_(Kind::sint) {}
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  Field(std::string_view key, T value) : key_(key), uint_(value), kind_(Kind::uint) {}
  Field(std::string_view key, const Secret& value) = delete;

  std::string_view key() const { return key_; }
  Kind kind() const { return kind_; }
  std::string_view text() const { return text_; }
  int64_t sint() const { return sint_; }
  uint64_t uint() const { return uint_; }

 private:
  std::string_view key_;
  std::string_view text_;
  int64_t sint_ = 0;
  uint64_t uint_ = 0;
  Kind kind_;
};

using Fields = std::initializer_list<Field>;

// Process-wide settings; the defaults are info and text. May change while others log.
void configure(Level level, Format format);
void set_level(Level level);
// Where lines go; 2 (stderr) unless a test changes it. The descriptor is borrowed.
void set_fd(int fd);

// Whether a line of this level would be written; to skip costly fields.
[[nodiscard]] bool enabled(Level level);

void write(Level level, std::string_view event, Fields fields = {});
inline void error(std::string_view event, Fields fields = {}) {
  write(Level::error, event, fields);
}
inline void warn(std::string_view event, Fields fields = {}) {
  write(Level::warn, event, fields);
}
inline void info(std::string_view event, Fields fields = {}) {
  write(Level::info, event, fields);
}
inline void debug(std::string_view event, Fields fields = {}) {
  write(Level::debug, event, fields);
}

// "error", "warn", "info", "debug"; and back (nullopt for anything else).
std::string_view level_name(Level level);
std::optional<Level> level_from(std::string_view name);
// "text", "json"; and back.
std::string_view format_name(Format format);
std::optional<Format> format_from(std::string_view name);

// The line itself, with its newline, for a given wall-clock time in microseconds
// since 1970. `out` holds kLineBytesMax bytes. Returns the bytes used. Pure.
std::size_t render(std::span<char, kLineBytesMax> out, Format format, int64_t unix_us, Level level,
                   std::string_view event, Fields fields);

}  // namespace log
}  // namespace tmesh
