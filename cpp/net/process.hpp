// Settings of the whole process that networking needs at start. Call before threads
// are made.
#pragma once

#include <cstddef>

namespace tmesh::net {

// A write to a socket whose peer is gone becomes an error code instead of the end of
// the process.
void ignore_sigpipe();

// Raises the soft limit of open files to the hard one (capped at 1,048,576, since some
// systems answer "infinite") and returns the limit that holds now.
std::size_t raise_open_file_limit();
// The soft limit that holds now.
std::size_t open_file_limit();

}  // namespace tmesh::net
