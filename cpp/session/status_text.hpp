// A status document (status_report.hpp) for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh::session {

// Two tables under a line about the program. INVALID: no such document.
Result<std::string> status_text(std::string_view document);

// "<1ms", "12.3ms", "4.1s"; "-" for 0.
std::string short_time(uint64_t us);
// "12s", "3m20s", "2h05m", "9d04h".
std::string short_age(int64_t seconds);

}  // namespace tmesh::session
