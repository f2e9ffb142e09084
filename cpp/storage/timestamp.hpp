// Database timestamps: UTC text, RFC 3339 with up to 9 fractional digits, trailing
// zeros trimmed, suffix Z ("2026-01-02T03:04:05.5Z", at most 30 characters).
//
// In memory a time is `int64_t` microseconds since 1970, which covers the years 1
// to 9999 that the text can hold. Time is always handed in: whoever needs "now" has
// a WallClock. Wall time is for expiry and records only, never for timeouts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "cpp/base/delegate.hpp"

namespace tmesh::storage {

// Returns microseconds since 1970-01-01T00:00:00Z.
using WallClock = Delegate<int64_t()>;

// The machine's clock.
WallClock system_clock();

// Times outside the years 1 to 9999 are moved to the nearest one inside.
std::string format_timestamp(int64_t unix_us);

// Digits beyond the sixth fractional one are dropped. Anything but the form above
// (another zone, a missing part, a day that does not exist, a leap second) is nullopt.
std::optional<int64_t> parse_timestamp(std::string_view text);

}  // namespace tmesh::storage
