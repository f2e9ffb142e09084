// The grammar check that runs before cJSON (private to this folder).
#pragma once

#include <cstddef>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh::json {

// Whether the text is one RFC 8259 value with nothing but white space around it, at
// most depth_max levels of brackets, valid UTF-8 and no \u0000. INVALID or TOO_LARGE
// (depth). Linear time, constant memory: the kinds of open brackets are bits of one
// 64-bit word, so depth_max is at most 64.
Result<void> check_text(std::string_view text, std::size_t depth_max);

}  // namespace tmesh::json
