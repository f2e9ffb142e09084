// Small whole files: configuration, secrets, identities. Blocking; for start-up and
// administration, never on the loop thread while traffic flows.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"

namespace tmesh {

// A fixed phrase for an errno of open, read or write ("no such file"); never the
// system's own text.
const char* file_error_text(int error_number);

// What to do with a file that is none: a pipe or a terminal waits for its writer, for ever
// perhaps, and what was read from it is gone.
enum class Pipes : uint8_t { read, refuse };

// The whole regular file (or pipe). TOO_LARGE beyond max_bytes, IO otherwise, both
// with a phrase of the kind above.
Result<std::string> read_file(const std::string& path, std::size_t max_bytes, Pipes pipes = Pipes::read);

// Whether a file can be opened for reading and is no directory. IO with the reason.
Result<void> check_readable(const std::string& path);

// Whether users other than the owner have any permission on the file; false when
// it cannot be examined.
bool is_open_to_others(const std::string& path);

// Writes a new file with `mode` (0600 for anything with a secret) so that a reader
// sees the old content or the new one, never half: a temporary file in the same
// folder, fsync, rename. IO otherwise; nothing is left behind then.
Result<void> write_file(const std::string& path, std::string_view data, unsigned mode);

}  // namespace tmesh
