#include "cpp/config/value.hpp"

#include <cstddef>

#include "core/base/check.h"
#include "cpp/base/nearest.hpp"
#include "cpp/base/parse.hpp"
#include "cpp/config/problems.hpp"

namespace tmesh::config {
namespace {

constexpr std::size_t kTextBytesMax = 4096;  // paths are the longest texts (PATH_MAX)

std::vector<std::string_view> choices_of(const Key& key) {
  std::vector<std::string_view> out;
  for (std::string_view rest = key.choices; !rest.empty();) {
    const std::size_t bar = rest.find('|');
    out.push_back(rest.substr(0, bar));
    rest = bar == std::string_view::npos ? std::string_view() : rest.substr(bar + 1);
  }
  return out;
}

std::string check_choice(const Key& key, std::string_view text) {
  const std::vector<std::string_view> choices = choices_of(key);
  std::string message = "must be one of ";
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (choices[i] == text) return "";
    if (i > 0) message += ", ";
    message += choices[i];
  }
  return with_proposal(std::move(message), nearest(text, choices));
}

std::string amount_text(const Key& key, uint64_t value) {
  return key.type == Type::duration ? format_duration(value) : std::to_string(value);
}

std::string check_number(const Key& key, std::string_view text) {
  const Result<uint64_t> value = key.type == Type::count   ? parse_uint(text)
                                 : key.type == Type::bytes ? parse_size_bytes(text)
                                                           : parse_duration_us(text);
  const bool is_huge = !value && value.error().code == TMESH_E_TOO_LARGE;
  if (!value && !is_huge) return value.error().text;
  if (!is_huge && *value >= key.min && *value <= key.max) return "";
  return "must be " + range_text(key);
}

}  // namespace

std::string range_text(const Key& key) {
  const bool has_range = key.type == Type::count || key.type == Type::bytes || key.type == Type::duration;
  if (!has_range || (key.min == 0 && key.max == UINT64_MAX)) return "";
  std::string out = key.min == key.max
                        ? amount_text(key, key.min)
                        : "from " + amount_text(key, key.min) + " to " + amount_text(key, key.max);
  if (key.type == Type::bytes) out += " bytes";
  return out;
}

std::string check_value(const Key& key, std::string_view text) {
  switch (key.type) {
    case Type::boolean: {
      const Result<bool> value = parse_bool(text);
      return value ? "" : value.error().text;
    }
    case Type::count:
    case Type::bytes:
    case Type::duration:
      return check_number(key, text);
    case Type::rate: {
      const Result<Rate> value = parse_rate(text);
      return value ? "" : value.error().text;
    }
    case Type::choice:
      return check_choice(key, text);
    case Type::text:
    case Type::list: {
      if (text.size() > kTextBytesMax) return "must have at most 4096 bytes";
      if (text.find('\0') != std::string_view::npos) return "must not contain a NUL character";
      const char* reason = key.check == nullptr ? nullptr : key.check(text);
      return reason == nullptr ? "" : reason;
    }
    case Type::objects:
    case Type::tree:
      break;
  }
  return "cannot be given as a single value";
}

uint64_t number_of(const Key& key, std::string_view text) {
  const Result<uint64_t> value = key.type == Type::count   ? parse_uint(text)
                                 : key.type == Type::bytes ? parse_size_bytes(text)
                                                           : parse_duration_us(text);
  TMESH_ASSERT(value.has_value());
  return *value;
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view item = trim(text.substr(0, comma));
    if (!item.empty()) out.emplace_back(item);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  }
  return out;
}

Result<Rate> parse_rate(std::string_view text) {
  constexpr const char* reason = "must be a count and a time, such as 256 in 10s";
  constexpr uint64_t count_max = 1000000;
  constexpr uint64_t interval_min_us = 1000000;
  constexpr uint64_t interval_max_us = 3600000000;
  constexpr std::string_view between = " in ";
  const std::size_t at = text.find(between);
  if (at == std::string_view::npos) return fail(TMESH_E_INVALID, reason);
  const Result<uint64_t> count = parse_uint(trim(text.substr(0, at)));
  const Result<uint64_t> interval_us = parse_duration_us(trim(text.substr(at + between.size())));
  if (!count || !interval_us) return fail(TMESH_E_INVALID, reason);
  if (*count < 1 || *count > count_max || *interval_us < interval_min_us || *interval_us > interval_max_us) {
    return fail(TMESH_E_INVALID, "must be from 1 to 1000000 in 1s to 1h");
  }
  return Rate{*count, *interval_us};
}

}  // namespace tmesh::config
