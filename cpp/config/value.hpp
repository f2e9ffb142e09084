// The text of one value against its row of the key table.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cpp/base/result.hpp"
#include "cpp/config/key_table.hpp"

namespace tmesh::config {

// Empty when the text is a value for the key (for lists: an item), else what is
// wrong, without the text itself: "must be from 1 to 65536".
std::string check_value(const Key& key, std::string_view text);

// A valid text of a count, bytes or duration (microseconds) as a number.
uint64_t number_of(const Key& key, std::string_view text);

// Texts between commas, trimmed; empty ones are left out.
std::vector<std::string> split_list(std::string_view text);

// "256 in 10s"
struct Rate {
  uint64_t count = 0;
  uint64_t interval_us = 0;
};
Result<Rate> parse_rate(std::string_view text);

// The allowed range in words ("from 1 to 65536"), empty when there is none.
std::string range_text(const Key& key);

}  // namespace tmesh::config
