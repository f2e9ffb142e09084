#include "cpp/client/entry.hpp"

#include "cpp/client/http_entry.hpp"
#include "cpp/client/socks5_entry.hpp"
#include "cpp/client/tcp_entry.hpp"
#include "cpp/client/udp_entry.hpp"

namespace tmesh::client {

std::unique_ptr<Entry> make_entry(const EntryDeps& deps, const config::Tunnel& tunnel, Entry::Broken broken) {
  switch (tunnel.protocol) {
    case config::Tunnel::Protocol::udp:
      return std::make_unique<UdpEntry>(deps, tunnel, broken);
    case config::Tunnel::Protocol::tcp:
      return std::make_unique<TcpEntry>(deps, tunnel, broken);
    case config::Tunnel::Protocol::socks5:
      return std::make_unique<Socks5Entry>(deps, tunnel, broken);
    case config::Tunnel::Protocol::http:
    case config::Tunnel::Protocol::http_proxy:
      return std::make_unique<HttpEntry>(deps, tunnel, broken);
  }
  return nullptr;
}

}  // namespace tmesh::client
