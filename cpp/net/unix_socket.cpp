#include "cpp/net/unix_socket.hpp"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "cpp/base/parse.hpp"
#include "cpp/net/descriptor.hpp"

namespace tmesh::net {
namespace {

std::unexpected<Error> listen_failure(int error) {
  switch (error) {
    case EADDRINUSE:
      return fail(TMESH_E_REFUSED, "another process listens on this socket");
    case EACCES:
    case EPERM:
    case EROFS:
      return fail(TMESH_E_POLICY, "no permission to make the socket here");
    case ENOENT:
    case ENOTDIR:
      return fail(TMESH_E_INVALID, "the folder of the socket does not exist");
    default:
      return fail(TMESH_E_IO, "cannot listen on the socket");
  }
}

// Nobody listens there: the process that made it is gone.
bool is_stale(const sockaddr_un& address) {
  struct stat found{};
  if (::lstat(address.sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  // Of another kind than what we look for, so that a live listener answers "not mine" instead
  // of taking a connection (for which an entry would open a stream).
  const Descriptor probe(::socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (probe.get() < 0) return false;
  return ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
         errno == ECONNREFUSED;
}

int bind_to(int fd, const sockaddr_un& address) {
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
}

// Held until the socket listens: between another program's look at a stale file and its removal
// nobody puts a live one there. A program that does so has it for microseconds; but whoever may
// read the folder can lock it, so the wait is short and what comes of it is no condition.
constexpr int kLockTries = 50;
constexpr timespec kLockWait{0, 2'000'000};

void lock(int folder) {
  for (int tries = 0; ::flock(folder, LOCK_EX | LOCK_NB) != 0 && tries < kLockTries; tries++)
    ::nanosleep(&kLockWait, nullptr);
}

struct Owner {
  uid_t user = static_cast<uid_t>(-1);  // chown(2): leave as it is
  gid_t group = static_cast<gid_t>(-1);
};

// The longest passwd or group record looked at; a group may have many members.
constexpr std::size_t kRecordMax_bytes = 262'144;

// uid_t and gid_t are 32 bits wide; the largest one means "none".
std::optional<uint32_t> parse_id(const std::string& text) {
  const Result<uint64_t> number = parse_uint(text);
  if (!number || *number >= UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*number);
}

std::optional<uid_t> find_user(const std::string& name) {
  if (const auto number = parse_id(name)) return number;
  std::vector<char> text(kRecordMax_bytes);
  passwd record{};
  passwd* found = nullptr;
  if (::getpwnam_r(name.c_str(), &record, text.data(), text.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->pw_uid;
}

std::optional<gid_t> find_group(const std::string& name) {
  if (const auto number = parse_id(name)) return number;
  std::vector<char> text(kRecordMax_bytes);
  group record{};
  group* found = nullptr;
  if (::getgrnam_r(name.c_str(), &record, text.data(), text.size(), &found) != 0 || found == nullptr)
    return std::nullopt;
  return found->gr_gid;
}

Result<Owner> find_owner(const std::string& text) {
  Owner owner;
  if (text.empty()) return owner;
  const std::size_t colon = text.find(':');
  const auto user = find_user(text.substr(0, colon));
  if (!user) return fail(TMESH_E_INVALID, "there is no such user");
  owner.user = *user;
  if (colon == std::string::npos) return owner;
  const auto group = find_group(text.substr(colon + 1));
  if (!group) return fail(TMESH_E_INVALID, "there is no such group");
  owner.group = *group;
  return owner;
}

// Before anybody can connect, which is when it listens.
bool give(const char* path, const Owner& owner, mode_t mode) {
  const bool is_own = owner.user == static_cast<uid_t>(-1) && owner.group == static_cast<gid_t>(-1);
  // Neither follows a link that somebody, the new owner for one, put in its place.
  return (is_own || ::lchown(path, owner.user, owner.group) == 0) &&
         ::fchmodat(AT_FDCWD, path, mode, AT_SYMLINK_NOFOLLOW) == 0;
}

}  // namespace

Result<int> listen_unix(const UnixSocketPlace& place) {
  const std::string& path = place.path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path)
    return fail(TMESH_E_INVALID, "the path of a socket has at most 107 bytes");
  std::memcpy(address.sun_path, path.data(), path.size());
  const Result<Owner> owner = find_owner(place.owner);
  if (!owner) return std::unexpected(owner.error());
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (fd.get() < 0) return fail(TMESH_E_IO, "cannot make a socket");

  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const Descriptor folder_fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder_fd.get() < 0) return listen_failure(errno);
  lock(folder_fd.get());
  int error = bind_to(fd.get(), address);
  if (error == EADDRINUSE && is_stale(address) && ::unlink(address.sun_path) == 0)
    error = bind_to(fd.get(), address);
  if (error != 0) return listen_failure(error);
  if (!give(address.sun_path, *owner, place.mode) || ::listen(fd.get(), SOMAXCONN) != 0) {
    error = errno;
    (void)::unlink(address.sun_path);
    return listen_failure(error);
  }
  return fd.release();
}

UnixSocketFile::UnixSocketFile(std::string path) : path_(std::move(path)) {
  struct stat made{};
  if (::lstat(path_.c_str(), &made) != 0) {
    path_.clear();
    return;
  }
  device_ = made.st_dev;
  inode_ = made.st_ino;
}

UnixSocketFile::UnixSocketFile(UnixSocketFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), device_(other.device_), inode_(other.inode_) {}

UnixSocketFile& UnixSocketFile::operator=(UnixSocketFile&& other) noexcept {
  if (this != &other) {
    remove();
    path_ = std::exchange(other.path_, {});
    device_ = other.device_;
    inode_ = other.inode_;
  }
  return *this;
}

void UnixSocketFile::remove() {
  const std::string path = std::exchange(path_, {});
  struct stat found{};
  if (path.empty() || ::lstat(path.c_str(), &found) != 0) return;
  if (found.st_dev == device_ && found.st_ino == inode_) (void)::unlink(path.c_str());
}

std::optional<uid_t> peer_user(int fd) {
#ifdef SO_PEERCRED
  ucred peer{};
  socklen_t len = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || len != sizeof peer) return std::nullopt;
  return peer.uid;
#else
  uid_t user = 0;
  gid_t group = 0;
  if (::getpeereid(fd, &user, &group) != 0) return std::nullopt;
  return user;
#endif
}

}  // namespace tmesh::net
