// A TCP proxy before a database server that breaks connections at a chosen place. One
// thread; ends with the object.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <thread>

#include <gtest/gtest.h>

#include "cpp/base/address.hpp"

namespace tmesh::test {

class CutProxy {
 public:
  explicit CutProxy(HostPort server) : server_(std::move(server)) {
    listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 16), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~CutProxy() {
    is_ending_ = true;
    thread_.join();
    for (Pair& pair : pairs_) shut(pair);
    ::close(listener_);
  }
  CutProxy(const CutProxy&) = delete;
  CutProxy& operator=(const CutProxy&) = delete;

  uint16_t port() const { return port_; }
  int accepted() const { return accepted_; }

  // The server's next answer is waited for, dropped, and its connection cut.
  void cut_next_answer() { cuts_next_answer_ = true; }
  // Nothing passes any more, and nobody is told.
  void mute() { is_muted_ = true; }
  // New connections learn that the server speaks no TLS (it does).
  void hide_tls() { hides_tls_ = true; }

 private:
  struct Pair {
    int client = -1;
    int server = -1;
    bool is_greeted = false;
  };

  static void shut(const Pair& pair) {
    ::close(pair.client);
    ::close(pair.server);
  }

  void accept_one() {
    Pair pair;
    pair.client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    pair.server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_.port);
    ::inet_pton(AF_INET, server_.host.c_str(), &address.sin_addr);
    if (::connect(pair.server, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
      shut(pair);
      return;
    }
    pairs_.push_back(pair);
    ++accepted_;
  }

  // False: the connection is over.
  static bool pass(int from, int to, char* bytes, ssize_t size) {
    (void)from;
    return size > 0 && ::send(to, bytes, static_cast<size_t>(size), MSG_NOSIGNAL) == size;
  }

  bool from_server(Pair& pair) {
    char bytes[65536];
    const ssize_t size = ::recv(pair.server, bytes, sizeof bytes, 0);
    if (size > 0 && cuts_next_answer_.exchange(false)) return false;
    if (size > 0 && !pair.is_greeted) {
      pair.is_greeted = true;
      if (hides_tls_) clear_tls(bytes, static_cast<size_t>(size));
    }
    return pass(pair.server, pair.client, bytes, size);
  }
  static bool from_client(const Pair& pair) {
    char bytes[65536];
    return pass(pair.client, pair.server, bytes, ::recv(pair.client, bytes, sizeof bytes, 0));
  }

  // The greeting: 4 bytes of header, protocol, version with its NUL, thread (4), salt (8), 0,
  // then the capabilities, in whose second byte bit 3 is TLS.
  static void clear_tls(char* bytes, size_t size) {
    const size_t version = 5;
    const size_t flags = version + std::string_view(bytes + version, size - version).find('\0') + 1 + 13;
    bytes[flags + 1] = static_cast<char>(bytes[flags + 1] & ~0x08);
  }

  void run() {
    while (!is_ending_) {
      std::vector<pollfd> waits = {{listener_, POLLIN, 0}};
      for (const Pair& pair : pairs_) {
        waits.push_back({pair.client, POLLIN, 0});
        waits.push_back({pair.server, POLLIN, 0});
      }
      ::poll(waits.data(), waits.size(), 10);
      if (is_muted_) continue;
      size_t at = 1;
      for (auto pair = pairs_.begin(); pair != pairs_.end(); at += 2) {
        const bool lives = (waits[at].revents == 0 || from_client(*pair)) &&
                           (waits[at + 1].revents == 0 || from_server(*pair));
        if (!lives) shut(*pair);
        pair = lives ? std::next(pair) : pairs_.erase(pair);
      }
      if ((waits[0].revents & POLLIN) != 0) accept_one();
    }
  }

  HostPort server_;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::list<Pair> pairs_;
  std::atomic<int> accepted_ = 0;
  std::atomic<bool> is_ending_ = false, cuts_next_answer_ = false, is_muted_ = false, hides_tls_ = false;
  std::thread thread_;
};

}  // namespace tmesh::test
