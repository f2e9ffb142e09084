#include "cpp/base/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <utility>

#include "cpp/base/redact.hpp"

namespace tmesh {
namespace {

// Closes on every way out.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }
  int close() { return ::close(std::exchange(fd_, -1)); }

 private:
  int fd_;
};

bool write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace

const char* file_error_text(int error_number) {
  switch (error_number) {
    case ENOENT:
      return "no such file or folder";
    case EACCES:
    case EPERM:
      return "permission denied";
    case EISDIR:
      return "is a folder, not a file";
    case ENOTDIR:
      return "a part of the path is not a folder";
    case ENAMETOOLONG:
      return "the path is too long";
    case ELOOP:
      return "too many symbolic links";
    case EROFS:
      return "the file system is read-only";
    case ENOSPC:
    case EDQUOT:
      return "no space left";
    case EMFILE:
    case ENFILE:
      return "too many open files";
    case EEXIST:
      return "exists already";
    default:
      return "cannot be read or written";
  }
}

Result<std::string> read_file(const std::string& path, std::size_t max_bytes, Pipes pipes) {
  const int no_wait = pipes == Pipes::refuse ? O_NONBLOCK | O_NOCTTY : 0;
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | no_wait));
  if (fd.get() < 0) return fail(TMESH_E_IO, file_error_text(errno));
  struct stat st = {};
  if (pipes == Pipes::refuse && ::fstat(fd.get(), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
    return fail(TMESH_E_IO, "is a pipe or a device, which can be read only once");
  std::string data;
  char block[16384];
  Result<std::string> out;
  while (true) {
    const ssize_t n = ::read(fd.get(), block, sizeof block);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      out = fail(TMESH_E_IO, file_error_text(errno));
      break;
    }
    if (n == 0) {
      out = std::move(data);
      break;
    }
    if (data.size() + static_cast<std::size_t>(n) > max_bytes) {
      out = fail(TMESH_E_TOO_LARGE, "the file is too large");
      break;
    }
    data.append(block, static_cast<std::size_t>(n));
  }
  secure_wipe(block, sizeof block);  // the file may hold a secret
  return out;
}

Result<void> check_readable(const std::string& path) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0) return fail(TMESH_E_IO, file_error_text(errno));
  struct stat st = {};
  if (::fstat(fd.get(), &st) != 0) return fail(TMESH_E_IO, file_error_text(errno));
  if (S_ISDIR(st.st_mode)) return fail(TMESH_E_IO, file_error_text(EISDIR));
  return {};
}

bool is_open_to_others(const std::string& path) {
  struct stat st = {};
  return ::stat(path.c_str(), &st) == 0 && (st.st_mode & 077) != 0;
}

Result<void> write_file(const std::string& path, std::string_view data, unsigned mode) {
  std::string temporary = path + ".tmp-XXXXXX";
  Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (fd.get() < 0) return fail(TMESH_E_IO, file_error_text(errno));
  const bool is_written = ::fchmod(fd.get(), static_cast<mode_t>(mode)) == 0 && write_all(fd.get(), data) &&
                          ::fsync(fd.get()) == 0 && fd.close() == 0 &&
                          ::rename(temporary.c_str(), path.c_str()) == 0;
  if (is_written) return {};
  const int error_number = errno;
  ::unlink(temporary.c_str());
  return fail(TMESH_E_IO, file_error_text(error_number));
}

}  // namespace tmesh
