// What a file holds, in a few bytes, and where a change of it would show.
//
// Blocking, for worker threads. Pure otherwise; safe from every thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace tmesh {

// A file with more is not one that a person or an installer maintains; it counts as not there.
inline constexpr std::size_t kPrintedBytesMax = 4U << 20;

// Hashes of contents by path, under a key of the process's own; kNoPrint where there was
// nothing to read. Two contents have the same hash only by chance of one in 2^64.
using FilePrints = std::map<std::string, uint64_t>;
inline constexpr uint64_t kNoPrint = 0;
uint64_t print_of(std::string_view content);
// Only regular files are read: a pipe can be read only once, and waits for its writer.
FilePrints print_files(std::span<const std::string> paths);

// The folders in which a change of one of the files shows: by symbolic links a path leads
// through several (a mounted volume swaps a link to a whole folder). `names` are the entries
// that matter there.
struct FilePlaces {
  // Which folder a path means now: it may be another one under the same path later.
  struct Identity {
    uint64_t device = 0, inode = 0;  // both 0: there is none
    bool operator==(const Identity&) const = default;
  };
  std::map<std::string, Identity> folders;
  std::set<std::string> names;
};
FilePlaces find_places(std::span<const std::string> paths);

}  // namespace tmesh
