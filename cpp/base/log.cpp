#include "cpp/base/log.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "cpp/base/utf8.hpp"

namespace tmesh::log {
namespace {

std::atomic<Level> current_level{Level::info};
std::atomic<Format> current_format{Format::text};
std::atomic<int> current_fd{STDERR_FILENO};

constexpr std::array<std::string_view, 4> kLevelNames = {"error", "warn", "info", "debug"};
constexpr std::array<std::string_view, 2> kFormatNames = {"text", "json"};

constexpr std::string_view kTruncatedText = " truncated=true";
constexpr std::string_view kTruncatedJson = ",\"truncated\":true";
// What must still fit behind the last field: the longer mark, "}" and the newline.
constexpr std::size_t kTailBytes = kTruncatedJson.size() + 2;

// Appends within a limit; remembers that something did not fit.
class Out {
 public:
  Out(char* data, std::size_t limit) : data_(data), limit_(limit) {}

  void put(std::string_view text) {
    if (text.size() > limit_ - size_) {
      is_full_ = true;
      return;
    }
    if (!text.empty()) std::memcpy(data_ + size_, text.data(), text.size());
    size_ += text.size();
  }
  void put(char c) { put(std::string_view(&c, 1)); }
  void hex(const char* prefix, uint32_t value, int digits) {
    char text[16];
    std::snprintf(text, sizeof text, "%s%0*x", prefix, digits, value);
    put(std::string_view(text));
  }

  std::size_t size() const { return size_; }
  bool is_full() const { return is_full_; }
  void rewind(std::size_t size) {
    size_ = size;
    is_full_ = false;
  }
  void raise_limit(std::size_t limit) { limit_ = limit; }

 private:
  char* data_;
  std::size_t limit_;
  std::size_t size_ = 0;
  bool is_full_ = false;
};

// C0, DEL and C1: a terminal may act on any of them.
bool is_control(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F);
}

bool is_bare(std::string_view value) {
  if (value.empty()) return false;
  for (const char c : value) {
    if (c <= ' ' || c > '~' || c == '"' || c == '=' || c == '\\') return false;
  }
  return true;
}

void put_quoted(Out& out, std::string_view value, Format format) {
  const bool is_json = format == Format::json;
  out.put('"');
  for (std::size_t at = 0; at < value.size();) {
    const Utf8Char c = utf8_next(value, at);
    if (c.size_bytes == 0) {
      if (is_json) {
        out.put("\\ufffd");
      } else {
        out.hex("\\x", static_cast<unsigned char>(value[at]), 2);
      }
      at += 1;
      continue;
    }
    if (c.code_point == '"' || c.code_point == '\\') {
      out.put('\\');
      out.put(static_cast<char>(c.code_point));
    } else if (c.code_point == '\n') {
      out.put("\\n");
    } else if (c.code_point == '\t') {
      out.put("\\t");
    } else if (c.code_point == '\r') {
      out.put("\\r");
    } else if (is_control(c.code_point)) {
      out.hex("\\u", c.code_point, 4);
    } else {
      out.put(value.substr(at, c.size_bytes));
    }
    at += c.size_bytes;
  }
  out.put('"');
}

void put_text(Out& out, std::string_view value, Format format) {
  std::string_view kept = value;
  bool is_cut = false;
  if (kept.size() > kValueBytesMax) {
    std::size_t end = kValueBytesMax;
    // Step back over continuation bytes so that the cut does not split a character.
    while (end > kValueBytesMax - 4 && (static_cast<unsigned char>(kept[end]) & 0xC0) == 0x80) --end;
    kept = kept.substr(0, end);
    is_cut = true;
  }
  if (format == Format::text && !is_cut && is_bare(kept)) {
    out.put(kept);
    return;
  }
  put_quoted(out, kept, format);
  if (is_cut) {
    if (out.is_full()) return;
    // The mark goes inside the quotes.
    out.rewind(out.size() - 1);
    out.put("...\"");
  }
}

void put_field(Out& out, const Field& field, Format format) {
  if (format == Format::json) {
    out.put(',');
    put_quoted(out, field.key(), format);
    out.put(':');
  } else {
    out.put(' ');
    out.put(field.key());
    out.put('=');
  }
  char number[24];
  switch (field.kind()) {
    case Field::Kind::text:
      put_text(out, field.text(), format);
      return;
    case Field::Kind::boolean:
      out.put(field.uint() != 0 ? "true" : "false");
      return;
    case Field::Kind::sint:
      std::snprintf(number, sizeof number, "%lld", static_cast<long long>(field.sint()));
      break;
    case Field::Kind::uint:
      std::snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(field.uint()));
      break;
  }
  out.put(std::string_view(number));
}

void put_time(Out& out, int64_t unix_us) {
  int64_t seconds = unix_us / 1000000;
  int64_t fraction_us = unix_us % 1000000;
  if (fraction_us < 0) {
    fraction_us += 1000000;
    seconds -= 1;
  }
  const std::time_t when = static_cast<std::time_t>(seconds);
  std::tm utc = {};
  gmtime_r(&when, &utc);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(fraction_us));
  out.put(std::string_view(text));
}

void write_all(int fd, const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t n = ::write(fd, data, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      return;  // nobody is left to tell
    }
    data += n;
    size -= static_cast<std::size_t>(n);
  }
}

}  // namespace

void configure(Level level, Format format) {
  current_level.store(level, std::memory_order_relaxed);
  current_format.store(format, std::memory_order_relaxed);
}

void set_level(Level level) {
  current_level.store(level, std::memory_order_relaxed);
}

void set_fd(int fd) {
  current_fd.store(fd, std::memory_order_relaxed);
}

bool enabled(Level level) {
  return level <= current_level.load(std::memory_order_relaxed);
}

void write(Level level, std::string_view event, Fields fields) {
  if (!enabled(level)) return;
  const int saved = errno;  // logging between a failed call and the look at errno must be harmless
  std::timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t unix_us = static_cast<int64_t>(now.tv_sec) * 1000000 + now.tv_nsec / 1000;
  std::array<char, kLineBytesMax> line;
  const std::size_t size =
      render(line, current_format.load(std::memory_order_relaxed), unix_us, level, event, fields);
  write_all(current_fd.load(std::memory_order_relaxed), line.data(), size);
  errno = saved;
}

std::string_view level_name(Level level) {
  return kLevelNames[static_cast<std::size_t>(level)];
}

std::optional<Level> level_from(std::string_view name) {
  for (std::size_t i = 0; i < kLevelNames.size(); ++i) {
    if (kLevelNames[i] == name) return static_cast<Level>(i);
  }
  return std::nullopt;
}

std::string_view format_name(Format format) {
  return kFormatNames[static_cast<std::size_t>(format)];
}

std::optional<Format> format_from(std::string_view name) {
  for (std::size_t i = 0; i < kFormatNames.size(); ++i) {
    if (kFormatNames[i] == name) return static_cast<Format>(i);
  }
  return std::nullopt;
}

std::size_t render(std::span<char, kLineBytesMax> out_span, Format format, int64_t unix_us, Level level,
                   std::string_view event, Fields fields) {
  const bool is_json = format == Format::json;
  Out out(out_span.data(), kLineBytesMax - kTailBytes);
  if (is_json) {
    out.put("{\"ts\":\"");
    put_time(out, unix_us);
    out.put("\",\"level\":\"");
    out.put(level_name(level));
    out.put("\",\"event\":");
  } else {
    put_time(out, unix_us);
    out.put(' ');
    out.put(level_name(level));
    out.put(' ');
  }
  put_text(out, event, format);
  bool is_truncated = false;
  for (const Field& field : fields) {
    const std::size_t before = out.size();
    put_field(out, field, format);
    if (out.is_full()) {
      out.rewind(before);
      is_truncated = true;
    }
  }
  out.raise_limit(kLineBytesMax);
  if (is_truncated) out.put(is_json ? kTruncatedJson : kTruncatedText);
  if (is_json) out.put('}');
  out.put('\n');
  return out.size();
}

}  // namespace tmesh::log
