// What the parsers of requests and responses share: fields out of llhttp's callbacks, and
// the one reading of where a message ends. Internal to this folder; no I/O.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "cpp/http/message.hpp"

namespace tmesh::http {

// Collects the fields of one head. Every byte of start lines, fields and trailers is
// charged; a call that returns false passed a limit, and the message must be refused.
class FieldReader {
 public:
  // Of the memory a field costs besides its bytes.
  static constexpr std::size_t kFieldOverheadBytes = sizeof(Header);

  FieldReader(std::size_t max_bytes, std::size_t max_count) : max_bytes_(max_bytes), max_count_(max_count) {}

  bool charge(std::size_t n) {
    charged_bytes_ += n;
    return charged_bytes_ <= max_bytes_;
  }
  // Fields that follow are trailers: counted and dropped.
  void end_head() { is_after_head_ = true; }

  bool on_name(Headers& headers, const char* at, std::size_t n) {
    if (!charge(n)) return false;
    if (is_after_head_) return true;
    if (headers.size() == 0 || has_value_) {
      if (headers.size() == max_count_) return false;
      headers.add({}, {});
      has_value_ = false;
      held_bytes_ += kFieldOverheadBytes;
    }
    headers.back().name.append(at, n);
    held_bytes_ += n;
    return true;
  }
  bool on_value(Headers& headers, const char* at, std::size_t n) {
    if (!charge(n)) return false;
    if (is_after_head_) return true;
    headers.back().value.append(at, n);
    held_bytes_ += n;
    return true;
  }
  bool on_value_complete(Headers& headers) {
    if (!charge(4)) return false;  // ": " and the line end
    if (is_after_head_) return true;
    has_value_ = true;
    std::string& value = headers.back().value;
    const std::size_t last = value.find_last_not_of(" \t");
    value.resize(last == std::string::npos ? 0 : last + 1);
    return true;
  }
  // For another head; what was charged stays.
  void begin_head() { has_value_ = is_after_head_ = false, held_bytes_ = 0; }
  void reset() {
    begin_head();
    charged_bytes_ = 0;
  }
  // Memory that the collected fields take.
  std::size_t held_bytes() const { return held_bytes_; }

 private:
  const std::size_t max_bytes_;
  const std::size_t max_count_;
  std::size_t charged_bytes_ = 0;
  std::size_t held_bytes_ = 0;
  bool has_value_ = false;  // the last field has got its value
  bool is_after_head_ = false;
};

enum class Framing : uint8_t {
  none,    // neither Content-Length nor Transfer-Encoding
  length,  // one Content-Length, a number
  chunked,
  malformed,  // two readings, or none
  unknown,    // a transfer coding that nobody here knows
};

// RFC 9112 section 6: where the message ends must have exactly one reading.
inline Framing framing_of(const Headers& headers, bool is_http_1_1) {
  const std::size_t lengths = headers.count("content-length");
  const std::size_t encodings = headers.count("transfer-encoding");
  if (lengths > 1 || (lengths == 1 && encodings > 0)) return Framing::malformed;
  if (encodings > 0) {
    if (!is_http_1_1 || encodings > 1) return Framing::malformed;
    const bool is_chunked = equals_ignoring_case(*headers.find("transfer-encoding"), "chunked");
    return is_chunked ? Framing::chunked : Framing::unknown;
  }
  if (lengths == 0) return Framing::none;
  const std::string& text = *headers.find("content-length");
  const bool is_number =
      !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return is_number ? Framing::length : Framing::malformed;
}

}  // namespace tmesh::http
