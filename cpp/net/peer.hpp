// Who is at the other end of an accepted socket. A value; no socket types.
#pragma once

#include <cstdint>
#include <string>

#include "cpp/base/address.hpp"

struct sockaddr;

namespace tmesh::net {

struct Peer {
  IpAddress ip;  // IPv4-mapped addresses are IPv4; family 0: a Unix socket
  uint16_t port = 0;

  // Without the port, for limits per address and audit records; "local" for a Unix socket.
  std::string text() const;
};

Peer peer_from(const sockaddr* address);

// The address that a connected socket has on this machine; no host on a Unix socket.
HostPort local_address(int fd);

}  // namespace tmesh::net
