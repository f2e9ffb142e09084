// A loop per test whose clean close is checked, and a raw socket to speak to it with.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cpp/net/loop.hpp"

namespace tmesh::net {

class LoopTest : public ::testing::Test {
 protected:
  LoopTest() {
    auto made = Loop::create(4u << 20);
    if (made) loop_ = std::move(*made);
  }
  // Runs after the members of the test are gone.
  ~LoopTest() override { EXPECT_TRUE(loop_->close()) << "a handle was leaked"; }

  Loop& loop() { return *loop_; }

  // Runs the loop until the condition holds; false if it does not within guard_us. A process that
  // had no turn meanwhile has seen nothing of what came: so many turns must have passed, too.
  template <class Condition>
  bool run_until(Condition condition, uint64_t guard_us = 5'000'000) {
    const uint64_t end_us = loop_->now_us() + guard_us;
    for (uint64_t turns = 0; !condition(); turns++) {
      if (loop_->now_us() >= end_us && turns >= guard_us / 4'000) return false;
      // What a raw socket sees does not wake the loop.
      bool is_awake = false;
      Ticket tick = loop_->after(2'000, Delegate<void()>::free<&LoopTest::set_true>(&is_awake));
      loop_->run_once();
    }
    return true;
  }
  static void set_true(void* flag) { *static_cast<bool*>(flag) = true; }

 private:
  std::unique_ptr<Loop> loop_;
};

// A non-blocking client socket on 127.0.0.1.
class RawClient {
 public:
  explicit RawClient(uint16_t port) : RawClient(port, ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  RawClient(uint16_t port, int fd) : fd_(fd) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    ::fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  RawClient(RawClient&& other) noexcept
      : received(std::move(other.received)),
        is_eof(other.is_eof),
        is_reset(other.is_reset),
        fd_(std::exchange(other.fd_, -1)),
        is_connected_(other.is_connected_) {}
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  ~RawClient() { close(); }

  bool is_connected() const { return is_connected_; }
  int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  // Bytes the kernel took.
  std::size_t send(std::string_view text) {
    ssize_t n = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    return n < 0 ? 0 : static_cast<std::size_t>(n);
  }
  void finish() { ::shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void reset() {
    linger hard{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    close();
  }
  // Takes what arrived; for conditions of run_until.
  RawClient& pump() {
    char buffer[65536];
    while (fd_ >= 0 && !is_eof && !is_reset) {
      ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
      if (n > 0) {
        received.append(buffer, static_cast<std::size_t>(n));
        continue;
      }
      if (n == 0) is_eof = true;
      if (n < 0 && errno == ECONNRESET) is_reset = true;
      break;
    }
    return *this;
  }
  bool is_over() { return pump().is_eof || is_reset; }

  std::string received;
  bool is_eof = false;
  bool is_reset = false;

 private:
  int fd_ = -1;
  bool is_connected_ = false;
};

}  // namespace tmesh::net
