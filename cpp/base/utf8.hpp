// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tmesh {

struct Utf8Char {
  uint32_t code_point = 0;
  std::size_t size_bytes = 0;  // 0: the bytes at this place are not UTF-8
};

// The character that starts at text[at]; at < text.size().
Utf8Char utf8_next(std::string_view text, std::size_t at);

// Whether the whole text is UTF-8. The empty text is.
[[nodiscard]] bool utf8_valid(std::string_view text);

}  // namespace tmesh
