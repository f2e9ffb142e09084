// Files of Unix sockets: made so that nobody can take one over by accident, and who is at
// the other end. Blocking, but only on the file system; for start-up.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "cpp/base/result.hpp"

namespace tmesh::net {

// Where a listening Unix socket is to be, and whose.
struct UnixSocketPlace {
  std::string path;
  mode_t mode = 0600;
  std::string owner;  // "user" or "user:group", names or numbers; empty = who runs us
};

// A listening socket at `path` (at most 107 bytes), non-blocking and close-on-exec, which
// the caller owns. The file has `mode` and `owner` from the moment on at which anybody can
// connect. A socket file that no process listens on is replaced (a program that was killed leaves one);
// two programs that start at the same time do not replace each other's. REFUSED: a live
// process listens there, or the file is no socket; POLICY: permission denied; INVALID: the
// path is too long, its folder does not exist, or there is no such user or group; IO. The text
// says the same in words.
Result<int> listen_unix(const UnixSocketPlace& place);
inline Result<int> listen_unix(const std::string& path, mode_t mode) {
  return listen_unix({path, mode, {}});
}

// The file of a socket that listen_unix made: remembers which one it was, so that the end of
// one program does not remove what a later one put in its place.
class UnixSocketFile {
 public:
  UnixSocketFile() = default;
  explicit UnixSocketFile(std::string path);
  UnixSocketFile(UnixSocketFile&& other) noexcept;
  UnixSocketFile& operator=(UnixSocketFile&& other) noexcept;
  ~UnixSocketFile() { remove(); }

  void remove();
  const std::string& path() const { return path_; }

 private:
  std::string path_;  // empty: none
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

// The user at the other end of a connected Unix socket; nullopt when the system does not say.
std::optional<uid_t> peer_user(int fd);

}  // namespace tmesh::net
