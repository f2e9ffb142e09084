#include "cpp/base/json_check.hpp"

#include <cstdint>

#include "core/base/check.h"
#include "cpp/base/utf8.hpp"

namespace tmesh::json {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_hex(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

class Checker {
 public:
  Checker(std::string_view text, std::size_t depth_max) : text_(text), depth_max_(depth_max) {}

  Result<void> run() {
    if (!utf8_valid(text_)) return fail(TMESH_E_INVALID, "JSON is not valid UTF-8");
    while (true) {
      if (!value()) return error_;
      // Behind a value: close what ends here, then a comma or the end of the text.
      while (true) {
        blanks();
        if (depth_ == 0) {
          if (at_ != text_.size()) return fail(TMESH_E_INVALID, "JSON has bytes behind the value");
          return {};
        }
        if (take(',')) {
          blanks();
          if (in_object() && !member_name()) return error_;
          break;
        }
        if (!take(in_object() ? '}' : ']')) return fail(TMESH_E_INVALID, "JSON lacks a comma or a bracket");
        --depth_;
        kinds_ >>= 1;
      }
    }
  }

 private:
  // One value, up to and including the brackets it opens: on return either a scalar
  // or an empty container has been read.
  bool value() {
    while (true) {
      blanks();
      if (at_ == text_.size()) return refuse(TMESH_E_INVALID, "JSON ends too early");
      const char c = text_[at_];
      if (c == '"') return string();
      if (c == '-' || is_digit(c)) return number();
      if (c != '{' && c != '[') return word();
      if (depth_ == depth_max_) return refuse(TMESH_E_TOO_LARGE, "JSON is nested too deeply");
      const bool is_object = c == '{';
      kinds_ = (kinds_ << 1) | (is_object ? 1 : 0);
      ++depth_;
      ++at_;
      blanks();
      if (take(is_object ? '}' : ']')) {
        --depth_;
        kinds_ >>= 1;
        return true;
      }
      if (is_object && !member_name()) return false;
    }
  }

  bool member_name() {
    if (at_ == text_.size() || text_[at_] != '"') return refuse(TMESH_E_INVALID, "JSON lacks a member name");
    if (!string()) return false;
    blanks();
    return take(':') || refuse(TMESH_E_INVALID, "JSON lacks a colon");
  }

  bool string() {
    ++at_;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) {
        return refuse(TMESH_E_INVALID, "JSON string has a control character");
      }
      if (c == '\\' && !escape()) return false;
    }
    return refuse(TMESH_E_INVALID, "JSON string has no end");
  }

  bool escape() {
    constexpr std::string_view simple = "\"\\/bfnrt";
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c != '\0' && simple.find(c) != std::string_view::npos) {
      ++at_;
      return true;
    }
    uint32_t unit = 0;
    if (!code_unit(&unit)) return refuse(TMESH_E_INVALID, "JSON string has a bad escape");
    if (unit == 0) return refuse(TMESH_E_INVALID, "JSON string holds \\u0000");
    if (unit >= 0xDC00 && unit <= 0xDFFF)
      return refuse(TMESH_E_INVALID, "JSON string has half a surrogate pair");
    if (unit < 0xD800 || unit > 0xDBFF) return true;
    uint32_t low = 0;
    if (!take('\\') || !code_unit(&low) || low < 0xDC00 || low > 0xDFFF) {
      return refuse(TMESH_E_INVALID, "JSON string has half a surrogate pair");
    }
    return true;
  }

  // "uXXXX"
  bool code_unit(uint32_t* unit) {
    if (text_.size() - at_ < 5 || text_[at_] != 'u') return false;
    *unit = 0;
    for (int i = 1; i <= 4; ++i) {
      const char c = text_[at_ + static_cast<std::size_t>(i)];
      if (!is_hex(c)) return false;
      *unit = *unit * 16 + static_cast<uint32_t>(is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    at_ += 5;
    return true;
  }

  bool number() {
    take('-');
    if (take('0')) {
      // nothing may follow a leading zero but a fraction or an exponent
    } else if (!digits()) {
      return refuse(TMESH_E_INVALID, "JSON number is malformed");
    }
    if (take('.') && !digits()) return refuse(TMESH_E_INVALID, "JSON number is malformed");
    if (take('e') || take('E')) {
      if (!take('+')) take('-');
      if (!digits()) return refuse(TMESH_E_INVALID, "JSON number is malformed");
    }
    if (at_ < text_.size() && is_digit(text_[at_]))
      return refuse(TMESH_E_INVALID, "JSON number is malformed");
    return true;
  }

  bool digits() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > start;
  }

  bool word() {
    for (const std::string_view w : {"true", "false", "null"}) {
      if (text_.substr(at_).starts_with(w)) {
        at_ += w.size();
        return true;
      }
    }
    return refuse(TMESH_E_INVALID, "JSON has an unknown word");
  }

  void blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }

  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  bool in_object() const { return (kinds_ & 1) != 0; }

  bool refuse(tmesh_code code, const char* text) {
    error_ = fail(code, text);
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  std::size_t depth_max_;
  uint64_t kinds_ = 0;  // the newest open bracket is bit 0: 1 = object
  Result<void> error_;
};

}  // namespace

Result<void> check_text(std::string_view text, std::size_t depth_max) {
  TMESH_ASSERT(depth_max <= 64);
  return Checker(text, depth_max).run();
}

}  // namespace tmesh::json
