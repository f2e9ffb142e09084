// What the measuring programs share: sockets on loopback, a clock, options, percentiles.
//
// Header only, single thread, IPv4 loopback. A measuring program has nobody to recover
// for: what cannot work ends it with one line on stderr and exit code 1.
#pragma once

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tmesh::bench {

[[noreturn, gnu::format(printf, 1, 2)]] inline void die(const char* format, ...) {
  va_list args;
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
  exit(1);
}

inline uint64_t clock_ns(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(t.tv_nsec);
}
inline uint64_t now_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}
inline uint64_t cpu_ns() {
  return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

// Ends no process by SIGPIPE and opens as many files as the machine lets it.
inline void prepare_process() {
  signal(SIGPIPE, SIG_IGN);
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

inline sockaddr_in loopback(int port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<uint16_t>(port));
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return a;
}

inline void set_int(int fd, int level, int name, int value) {
  setsockopt(fd, level, name, &value, sizeof value);
}
inline void no_delay(int fd) {
  set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
}

// A non-blocking listener on a port of the kernel's choice, which it prints: whoever
// started the program reads it there. receive_bytes > 0 keeps what it accepts small.
inline int listen_and_tell(int receive_bytes = 0) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket: %s", strerror(errno));
  if (receive_bytes > 0) set_int(fd, SOL_SOCKET, SO_RCVBUF, receive_bytes);
  sockaddr_in a = loopback(0);
  socklen_t size = sizeof a;
  if (bind(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0 || listen(fd, 65535) != 0 ||
      getsockname(fd, reinterpret_cast<sockaddr*>(&a), &size) != 0) {
    die("listen: %s", strerror(errno));
  }
  printf("%d\n", ntohs(a.sin_port));
  fflush(stdout);
  return fd;
}

// A connect in progress, or -1 with errno.
inline int start_connect(int port, int receive_bytes = 0) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (receive_bytes > 0) set_int(fd, SOL_SOCKET, SO_RCVBUF, receive_bytes);
  no_delay(fd);
  sockaddr_in a = loopback(port);
  if (connect(fd, reinterpret_cast<sockaddr*>(&a), sizeof a) != 0 && errno != EINPROGRESS) {
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

// "--name value" pairs behind the mode; an unknown name is a mistake of the caller.
class Options {
 public:
  Options(int count, char** arguments, int first) {
    for (int i = first; i + 1 < count; i += 2) pairs_.push_back({arguments[i], arguments[i + 1]});
    if ((count - first) % 2 != 0) die("%s: no value", arguments[count - 1]);
  }
  std::string text(std::string_view name, std::string_view otherwise = {}) {
    for (Pair& p : pairs_) {
      if (p.name == name) {
        p.is_used = true;
        return p.value;
      }
    }
    return std::string(otherwise);
  }
  double number(std::string_view name, double otherwise) {
    const std::string value = text(name);
    return value.empty() ? otherwise : strtod(value.c_str(), nullptr);
  }
  int integer(std::string_view name, int otherwise) { return static_cast<int>(number(name, otherwise)); }
  void end() const {
    for (const Pair& p : pairs_) {
      if (!p.is_used) die("%s: unknown option", p.name.c_str());
    }
  }

 private:
  struct Pair {
    std::string name, value;
    bool is_used = false;
  };
  std::vector<Pair> pairs_;
};

// "name": {"n": .., "p50": .., "p95": .., "p99": .., "max": ..} in milliseconds; sorts.
inline void print_percentiles(const char* name, std::vector<uint64_t>& times_ns) {
  std::sort(times_ns.begin(), times_ns.end());
  const std::size_t n = times_ns.size();
  const auto at = [&](double q) {
    if (n == 0) return 0.0;
    return static_cast<double>(
               times_ns[std::min(n - 1, static_cast<std::size_t>(q * static_cast<double>(n)))]) /
           1e6;
  };
  printf("\"%s\": {\"n\": %zu, \"p50\": %.4f, \"p95\": %.4f, \"p99\": %.4f, \"max\": %.4f}", name, n,
         at(0.50), at(0.95), at(0.99), at(1.0));
}

}  // namespace tmesh::bench
