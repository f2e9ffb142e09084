// Unpredictable bytes from the operating system.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tmesh {

// Fills the span. Ends the process when the system has no randomness to give:
// there is no safe way to go on.
void random_bytes(std::span<uint8_t> out);

// `byte_count` random bytes (at most 64) as lower-case hex or base64url.
std::string random_hex(std::size_t byte_count);
std::string random_base64url(std::size_t byte_count);

}  // namespace tmesh
