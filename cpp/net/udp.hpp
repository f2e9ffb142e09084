// A UDP socket: connected to one target, or bound for whoever sends.
//
// Move-only. Destroying it closes the socket, after that no callback reaches the handler;
// a handler may destroy it inside any callback. Receiving allocates nothing: all sockets of a
// thread share one buffer, which is valid during the callback. Of what the kernel does
// not take at once one datagram is kept; the queue behind it is the caller's. Errors are events and
// end nothing: an ICMP "port unreachable" is told, and the next datagram goes out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::net {

// The largest payload a UDP datagram can have over IPv4 is 65,507 bytes, over IPv6 65,527.
inline constexpr std::size_t kDatagramBufferBytes = 65'536;

// Room of this thread for putting a datagram together before it is sent: valid until the next use,
// and never what on_datagram() shows.
std::span<uint8_t, kDatagramBufferBytes> datagram_scratch();

// Where a datagram came from, as the kernel spells it (with the scope of a link-local address).
struct UdpAddress {
  std::array<uint8_t, 28> bytes{};  // a sockaddr_in or sockaddr_in6
  uint8_t len = 0;

  friend bool operator==(const UdpAddress&, const UdpAddress&) = default;
};

struct UdpAddressHash {
  std::size_t operator()(const UdpAddress& address) const;
};

class UdpHandler {
 public:
  // data is valid until the call returns; empty datagrams are told too.
  virtual void on_datagram(std::span<const uint8_t> data, const UdpAddress& from) = 0;
  // After a send that said AGAIN, and perhaps without one.
  virtual void on_writable() = 0;
  // REFUSED, NET_UNREACHABLE, HOST_UNREACHABLE, IO: what became of something sent before.
  virtual void on_error(tmesh_status why) = 0;

 protected:
  ~UdpHandler() = default;
};

class Udp {
 public:
  Udp();
  Udp(Udp&& other) noexcept;
  Udp& operator=(Udp&& other) noexcept;
  ~Udp();

  // Takes a socket over, also on failure (NO_MEMORY, IO), and receives from now on.
  static Result<Udp> adopt(Loop& loop, int fd, UdpHandler& handler);
  // host and port as net::Listener::open() has them; the same errors.
  static Result<Udp> bind(Loop& loop, const std::string& host, uint16_t port, UdpHandler& handler);

  explicit operator bool() const { return node_ != nullptr; }
  uint16_t port() const;

  // To the one it is connected to. OK: the kernel has it or gets it next. AGAIN: not taken,
  // on_writable() follows. Otherwise it is lost: REFUSED and the like may be the answer to an
  // earlier datagram, TOO_LARGE is about this one.
  [[nodiscard]] tmesh_status send(std::span<const uint8_t> data);
  [[nodiscard]] tmesh_status send_to(const UdpAddress& to, std::span<const uint8_t> data);

 private:
  struct Node;
  friend struct UdpGlue;
  explicit Udp(std::unique_ptr<Node> node);
  std::unique_ptr<Node> node_;
};

}  // namespace tmesh::net
