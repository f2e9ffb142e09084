#include "cpp/net/process.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <csignal>

namespace tmesh::net {

namespace {
constexpr rlim_t kOpenFilesMax = 1'048'576;
}

void ignore_sigpipe() {
  std::signal(SIGPIPE, SIG_IGN);
}

std::size_t open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<std::size_t>(std::min(limit.rlim_cur, kOpenFilesMax));
}

std::size_t raise_open_file_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    rlim_t wanted = std::min(limit.rlim_max, kOpenFilesMax);
    if (limit.rlim_cur < wanted) {
      limit.rlim_cur = wanted;
      setrlimit(RLIMIT_NOFILE, &limit);  // a refusal leaves the old limit, which is then returned
    }
  }
  return open_file_limit();
}

}  // namespace tmesh::net
