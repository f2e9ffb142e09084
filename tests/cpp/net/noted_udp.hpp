// A UDP socket whose events a test looks at afterwards.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <span>
#include <string>
#include <vector>

#include "cpp/net/udp.hpp"

namespace tmesh::net {

struct Received {
  std::string data;
  UdpAddress from;
};

struct NotedUdp : UdpHandler {
  void on_datagram(std::span<const uint8_t> data, const UdpAddress& from) override {
    received.push_back({{reinterpret_cast<const char*>(data.data()), data.size()}, from});
    if (destroyed_by_datagram != nullptr) *destroyed_by_datagram = Udp{};
  }
  void on_writable() override { writable_count++; }
  void on_error(tmesh_status why) override {
    errors.push_back(why.code);
    if (destroyed_by_error != nullptr) *destroyed_by_error = Udp{};
  }

  std::vector<Received> received;
  std::vector<unsigned> errors;
  unsigned writable_count = 0;
  Udp* destroyed_by_datagram = nullptr;
  Udp* destroyed_by_error = nullptr;
};

inline std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string pattern(std::size_t n) {
  std::string out(n, '\0');
  for (std::size_t i = 0; i < n; i++) out[i] = static_cast<char>(i * 31 + i / 253);
  return out;
}

// Two datagram sockets that are connected to each other, of a kind that takes only a few datagrams
// that nobody reads; the loopback network drops them instead.
struct NarrowPair {
  NarrowPair() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
    const int least = 1;  // the kernel makes some thousand bytes of it
    ::setsockopt(fds[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
  }
  ~NarrowPair() { ::close(fds[1]); }
  NarrowPair(const NarrowPair&) = delete;
  NarrowPair& operator=(const NarrowPair&) = delete;
  // What waits to be read at the far end.
  std::vector<std::string> read() {
    std::vector<std::string> out;
    char data[100];
    for (ssize_t n; (n = ::recv(fds[1], data, sizeof data, 0)) >= 0;)
      out.emplace_back(data, static_cast<std::size_t>(n));
    return out;
  }
  int fds[2]{};  // the first is given away
};

// As a dial makes it.
inline int connected_udp(uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
  return fd;
}

}  // namespace tmesh::net
