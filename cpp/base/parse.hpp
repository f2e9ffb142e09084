// Text to numbers, durations and sizes. Strict: the whole text, no white space, no
// locale, every overflow noticed. Pure; errors carry a static reason that does not
// repeat the input (it may be a secret that stands in the wrong place).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh {

// Decimal digits only. INVALID ("not a whole number", "must not be negative") or
// TOO_LARGE when it does not fit.
Result<uint64_t> parse_uint(std::string_view text);

// true/false, and the spellings Go's ParseBool takes (1 0 t f T F TRUE FALSE True False).
Result<bool> parse_bool(std::string_view text);

// Longest duration accepted, as in Go: 2^63-1 nanoseconds, about 292 years.
inline constexpr uint64_t kDurationMax_us = 9223372036854775;

// Go syntax: "100ms", "5s", "1m30s", "1.5h"; units ns us µs ms s m h; "0" needs no
// unit. Result in microseconds, rounded down; a positive duration below one
// microsecond is refused. INVALID, or TOO_LARGE above kDurationMax_us.
Result<uint64_t> parse_duration_us(std::string_view text);
// The shortest of the same syntax that parses back: 90000000 -> "1m30s", 0 -> "0s".
std::string format_duration(uint64_t us);

// Digits with an optional unit: B, K/KB/KiB (1024), M/MB/MiB, G/GB/GiB; letters in
// either case. INVALID or TOO_LARGE.
Result<uint64_t> parse_size_bytes(std::string_view text);

// ASCII only; no locale.
std::string ascii_lower(std::string_view text);
std::string ascii_upper(std::string_view text);
std::string_view trim(std::string_view text);  // spaces, tabs, CR, LF at both ends
// Whether the text holds a white-space or control character.
bool has_space_or_control(std::string_view text);

}  // namespace tmesh
