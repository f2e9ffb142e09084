#include "cpp/base/parse.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tmesh {
namespace {

constexpr uint64_t kDurationMax_ns = 9223372036854775807ULL;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

struct Unit {
  std::string_view name;
  uint64_t factor;
};

constexpr std::array<Unit, 8> kDurationUnits = {{{"ns", 1},
                                                 {"us", 1000},
                                                 {"\xC2\xB5s", 1000},
                                                 {"\xCE\xBCs", 1000},
                                                 {"ms", 1000000},
                                                 {"s", 1000000000},
                                                 {"m", 60000000000},
                                                 {"h", 3600000000000}}};

constexpr std::array<Unit, 10> kSizeUnits = {{{"b", 1},
                                              {"k", 1ULL << 10},
                                              {"kb", 1ULL << 10},
                                              {"kib", 1ULL << 10},
                                              {"m", 1ULL << 20},
                                              {"mb", 1ULL << 20},
                                              {"mib", 1ULL << 20},
                                              {"g", 1ULL << 30},
                                              {"gb", 1ULL << 30},
                                              {"gib", 1ULL << 30}}};

// Digits at the front of *text into *value; false when they do not fit.
bool take_digits(std::string_view* text, uint64_t* value, std::size_t* count) {
  *value = 0;
  *count = 0;
  while (!text->empty() && is_digit(text->front())) {
    if (__builtin_mul_overflow(*value, 10, value)) return false;
    if (__builtin_add_overflow(*value, static_cast<uint64_t>(text->front() - '0'), value)) return false;
    text->remove_prefix(1);
    ++*count;
  }
  return true;
}

// The digits behind a point as nanoseconds of one unit; digits beyond what matters are dropped.
uint64_t take_fraction_ns(std::string_view* text, uint64_t factor_ns, std::size_t digit_count) {
  unsigned __int128 value = 0;
  uint64_t scale = 1;
  for (std::size_t i = 0; i < digit_count; ++i) {
    if (i < 15) {  // an hour is 3.6e12 ns: 15 digits are exact enough
      value = value * 10 + static_cast<unsigned>((*text)[i] - '0');
      scale *= 10;
    }
  }
  return static_cast<uint64_t>(value * factor_ns / scale);
}

void append_number(std::string& out, uint64_t value, std::string_view unit) {
  if (value == 0) return;
  out += std::to_string(value);
  out += unit;
}

}  // namespace

Result<uint64_t> parse_uint(std::string_view text) {
  uint64_t value = 0;
  std::size_t count = 0;
  std::string_view rest = text;
  if (rest.starts_with('-') && rest.size() > 1 && is_digit(rest[1])) {
    return fail(TMESH_E_INVALID, "must not be negative");
  }
  if (!take_digits(&rest, &value, &count)) return fail(TMESH_E_TOO_LARGE, "is too large");
  if (count == 0 || !rest.empty()) return fail(TMESH_E_INVALID, "must be a whole number");
  return value;
}

Result<bool> parse_bool(std::string_view text) {
  constexpr std::array<std::string_view, 6> yes = {"true", "True", "TRUE", "t", "T", "1"};
  constexpr std::array<std::string_view, 6> no = {"false", "False", "FALSE", "f", "F", "0"};
  if (std::find(yes.begin(), yes.end(), text) != yes.end()) return true;
  if (std::find(no.begin(), no.end(), text) != no.end()) return false;
  return fail(TMESH_E_INVALID, "must be true or false");
}

Result<uint64_t> parse_duration_us(std::string_view text) {
  constexpr const char* syntax = "must be a duration such as 100ms, 5s or 1m30s";
  std::string_view rest = text;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.starts_with('-')) return fail(TMESH_E_INVALID, "must not be negative");
  if (rest == "0") return 0;
  if (rest.empty()) return fail(TMESH_E_INVALID, syntax);
  uint64_t total_ns = 0;
  while (!rest.empty()) {
    uint64_t whole = 0;
    std::size_t whole_count = 0;
    if (!take_digits(&rest, &whole, &whole_count)) return fail(TMESH_E_TOO_LARGE, "is too long a time");
    std::string_view fraction;
    if (rest.starts_with('.')) {
      rest.remove_prefix(1);
      std::size_t n = 0;
      while (n < rest.size() && is_digit(rest[n])) ++n;
      fraction = rest.substr(0, n);
      rest.remove_prefix(n);
    }
    if (whole_count == 0 && fraction.empty()) return fail(TMESH_E_INVALID, syntax);
    std::size_t unit_size = 0;
    while (unit_size < rest.size() && !is_digit(rest[unit_size]) && rest[unit_size] != '.') ++unit_size;
    const std::string_view unit_name = rest.substr(0, unit_size);
    rest.remove_prefix(unit_size);
    const auto unit = std::find_if(kDurationUnits.begin(), kDurationUnits.end(),
                                   [&](const Unit& u) { return u.name == unit_name; });
    if (unit == kDurationUnits.end()) {
      return fail(TMESH_E_INVALID, unit_name.empty() ? "needs a unit, as in 100ms, 5s or 1m30s" : syntax);
    }
    uint64_t part_ns = 0;
    if (__builtin_mul_overflow(whole, unit->factor, &part_ns) ||
        __builtin_add_overflow(part_ns, take_fraction_ns(&fraction, unit->factor, fraction.size()),
                               &part_ns) ||
        __builtin_add_overflow(total_ns, part_ns, &total_ns) || total_ns > kDurationMax_ns) {
      return fail(TMESH_E_TOO_LARGE, "is too long a time");
    }
  }
  if (total_ns > 0 && total_ns < 1000) return fail(TMESH_E_INVALID, "is shorter than a microsecond");
  return total_ns / 1000;
}

std::string format_duration(uint64_t us) {
  if (us == 0) return "0s";
  std::string out;
  const uint64_t seconds = us / 1000000;
  const uint64_t rest_us = us % 1000000;
  append_number(out, seconds / 3600, "h");
  append_number(out, seconds / 60 % 60, "m");
  append_number(out, seconds % 60, "s");
  if (rest_us % 1000 == 0) {
    append_number(out, rest_us / 1000, "ms");
  } else {
    append_number(out, rest_us, "us");
  }
  return out;
}

Result<uint64_t> parse_size_bytes(std::string_view text) {
  uint64_t value = 0;
  std::size_t count = 0;
  std::string_view rest = text;
  if (rest.starts_with('-') && rest.size() > 1 && is_digit(rest[1])) {
    return fail(TMESH_E_INVALID, "must not be negative");
  }
  if (!take_digits(&rest, &value, &count)) return fail(TMESH_E_TOO_LARGE, "is too large");
  if (count == 0) return fail(TMESH_E_INVALID, "must be a number of bytes");
  if (rest.empty()) return value;
  const std::string unit_name = ascii_lower(rest);
  for (const Unit& unit : kSizeUnits) {
    if (unit.name != unit_name) continue;
    if (__builtin_mul_overflow(value, unit.factor, &value)) return fail(TMESH_E_TOO_LARGE, "is too large");
    return value;
  }
  return fail(TMESH_E_INVALID, "must be a number of bytes, with KiB, MiB or GiB if wanted");
}

std::string ascii_lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string ascii_upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

bool has_space_or_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte <= 0x20 || byte == 0x7F;
  });
}

}  // namespace tmesh
