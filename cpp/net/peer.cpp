#include "cpp/net/peer.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

namespace tmesh::net {

std::string Peer::text() const {
  return ip.family == 0 ? "local" : format_ip(ip);
}

Peer peer_from(const sockaddr* address) {
  Peer peer;
  if (address != nullptr && address->sa_family == AF_INET) {
    const auto* in = reinterpret_cast<const sockaddr_in*>(address);
    peer.ip = ip_from_bytes(reinterpret_cast<const uint8_t*>(&in->sin_addr), true);
    peer.port = ntohs(in->sin_port);
  } else if (address != nullptr && address->sa_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(address);
    peer.ip = ip_from_bytes(reinterpret_cast<const uint8_t*>(&in6->sin6_addr), false);
    peer.port = ntohs(in6->sin6_port);
  }
  return peer;
}

HostPort local_address(int fd) {
  sockaddr_storage address{};
  socklen_t len = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &len) != 0) return {};
  const Peer own = peer_from(reinterpret_cast<const sockaddr*>(&address));
  return own.ip.family == 0 ? HostPort{} : HostPort{format_ip(own.ip), own.port};
}

}  // namespace tmesh::net
