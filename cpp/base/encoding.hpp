// base64url without padding (RFC 4648 section 5) and lower-case hex.
// Pure functions; the results are new strings.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh {

std::string base64url_encode(std::span<const uint8_t> bytes);
// Strict: no padding, no white space, no standard-alphabet characters, and the
// unused bits of the last character are zero. INVALID otherwise.
Result<std::string> base64url_decode(std::string_view text);

// Standard alphabet with padding (RFC 4648 section 4), for HTTP Basic and WebSocket keys.
std::string base64_encode(std::span<const uint8_t> bytes);
Result<std::string> base64_decode(std::string_view text);

std::string hex_encode(std::span<const uint8_t> bytes);
// Accepts both cases. INVALID on an odd length or another character.
Result<std::string> hex_decode(std::string_view text);

// The bytes of a text, for the functions above.
inline std::span<const uint8_t> as_bytes(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

}  // namespace tmesh
