// A TCP target for the measuring programs, cheap enough to share cores with what is measured.
//
//   bench_target            prints its port, serves until it is killed
//
// A connection says one line; what follows depends on it:
//   G <n>   answers n bytes; may be said again
//   E       echoes from here on
//   S       answers one byte and swallows the rest
// Bulk answers are sent from page cache (sendfile), so they cost no copy here.

#include <sys/mman.h>
#include <sys/sendfile.h>

#include <utility>

#include "tests/bench/bench_net.hpp"

namespace tmesh::bench {
namespace {

constexpr std::size_t kPatternBytes = 1u << 20;
constexpr std::size_t kReadBytes = 1u << 16;
// Short answers are one write; only long ones are worth a sendfile.
constexpr uint64_t kSmallBytes = 16384;
// What one connection may send before the others get their turn.
constexpr std::size_t kTurnBytes = 256u << 10;

enum class Mode : uint8_t { lines, echo, swallow };

struct Connection {
  bool is_open = false;
  bool is_busy = false;  // stands in busy_
  Mode mode = Mode::lines;
  bool is_writable = true;
  bool has_ended = false;  // the peer half-closed; we close once everything is answered
  uint64_t owed_bytes = 0;
  std::string line;
  std::string echo;
};

class Target {
 public:
  Target() : listener_(listen_and_tell()), epoll_(epoll_create1(EPOLL_CLOEXEC)), buffer_(kTurnBytes) {
    pattern_.assign(kSmallBytes, 'x');
    memory_ = memfd_create("pattern", MFD_CLOEXEC);
    if (epoll_ < 0 || memory_ < 0) die("start: %s", strerror(errno));
    for (std::size_t at = 0; at < kPatternBytes; at += pattern_.size()) {
      if (write(memory_, pattern_.data(), pattern_.size()) != static_cast<ssize_t>(pattern_.size())) {
        die("memfd: %s", strerror(errno));
      }
    }
    epoll_event e{.events = EPOLLIN, .data = {.fd = listener_}};
    epoll_ctl(epoll_, EPOLL_CTL_ADD, listener_, &e);
  }

  [[noreturn]] void run() {
    epoll_event events[256];
    std::vector<int> turn;
    for (;;) {
      const int n = epoll_wait(epoll_, events, 256, busy_.empty() ? -1 : 0);
      for (int i = 0; i < n; i++) {
        if (events[i].data.fd == listener_) {
          accept_all();
        } else {
          on_event(events[i].data.fd, events[i].events);
        }
      }
      turn.swap(busy_);
      for (int fd : turn) {
        if (!at(fd).is_busy) continue;  // closed since
        at(fd).is_busy = false;
        answer(fd);
      }
      turn.clear();
    }
  }

 private:
  Connection& at(int fd) { return connections_[static_cast<std::size_t>(fd)]; }

  void accept_all() {
    for (;;) {
      const int fd = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) return;
      no_delay(fd);
      if (static_cast<std::size_t>(fd) >= connections_.size()) {
        connections_.resize(static_cast<std::size_t>(fd) * 2 + 64);
      }
      at(fd) = Connection{};
      at(fd).is_open = true;
      epoll_event e{.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data = {.fd = fd}};
      epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e);
    }
  }

  void on_event(int fd, uint32_t events) {
    if (!at(fd).is_open) return;
    if (events & EPOLLOUT) at(fd).is_writable = true;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) read_all(fd);
    if (at(fd).is_open) answer(fd);
  }

  void read_all(int fd) {
    for (;;) {
      // With MSG_TRUNC, TCP drops what it would have copied (tcp(7)).
      const bool is_swallowed = at(fd).mode == Mode::swallow;
      const ssize_t n =
          recv(fd, buffer_.data(), is_swallowed ? buffer_.size() : kReadBytes, is_swallowed ? MSG_TRUNC : 0);
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return drop(fd);
      if (n == 0) {
        at(fd).has_ended = true;
        return;
      }
      if (!is_swallowed) take(at(fd), std::string_view(buffer_.data(), static_cast<std::size_t>(n)));
    }
  }

  void take(Connection& c, std::string_view bytes) {
    if (c.mode == Mode::echo) {
      c.echo.append(bytes);
      return;
    }
    c.line.append(bytes);
    for (std::size_t end; c.mode == Mode::lines && (end = c.line.find('\n')) != std::string::npos;) {
      const std::string line = c.line.substr(0, end);
      c.line.erase(0, end + 1);
      if (line.starts_with('G')) c.owed_bytes += strtoull(line.c_str() + 1, nullptr, 10);
      if (line.starts_with('S')) {
        c.owed_bytes += 1;
        c.mode = Mode::swallow;
      }
      if (line.starts_with('E')) {
        c.echo.swap(c.line);
        c.mode = Mode::echo;
      }
    }
  }

  // Sends as far as the socket and the turn allow.
  void answer(int fd) {
    Connection& c = at(fd);
    for (std::size_t turn = 0; c.is_writable && (c.owed_bytes > 0 || !c.echo.empty());) {
      if (turn >= kTurnBytes) {
        if (!std::exchange(c.is_busy, true)) busy_.push_back(fd);
        return;
      }
      ssize_t n;
      if (!c.echo.empty()) {
        n = write(fd, c.echo.data(), c.echo.size());
      } else if (c.owed_bytes <= kSmallBytes) {
        n = write(fd, pattern_.data(), c.owed_bytes);
      } else {
        off_t from = 0;
        n = sendfile(fd, memory_, &from, std::min<uint64_t>(c.owed_bytes, kTurnBytes));
      }
      if (n < 0 && errno != EAGAIN) return drop(fd);
      if (n < 0) {
        c.is_writable = false;
      } else if (!c.echo.empty()) {
        c.echo.erase(0, static_cast<std::size_t>(n));
      } else {
        c.owed_bytes -= static_cast<uint64_t>(n);
      }
      turn += n > 0 ? static_cast<std::size_t>(n) : 0;
    }
    if (c.has_ended && c.owed_bytes == 0 && c.echo.empty()) drop(fd);
  }

  void drop(int fd) {
    close(fd);
    at(fd) = Connection{};
  }

  int listener_, epoll_, memory_ = -1;
  std::string pattern_;
  std::vector<char> buffer_;
  std::vector<Connection> connections_;
  std::vector<int> busy_;  // used up their turn and could send more
};

}  // namespace
}  // namespace tmesh::bench

int main() {
  tmesh::bench::prepare_process();
  tmesh::bench::Target target;
  target.run();
}
