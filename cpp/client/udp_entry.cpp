#include "cpp/client/udp_entry.hpp"

#include <utility>

#include "cpp/client/stream_entry.hpp"

namespace tmesh::client {

// A socket that receives datagrams does not die as a listener can: nobody is told.
UdpEntry::UdpEntry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken)
    : loop_(deps.loop),
      tunnel_(tunnel),
      opening_(opening_settings_of(deps, tunnel)),
      associations_({deps.loop, deps.opener, deps.validator, opening_, stats_, tunnel.target_host,
                     tunnel.target_port, deps.udp_idle_timeout_us,
                     UdpAssociationsParts::Reply::bind<&UdpEntry::reply>(this)}) {}

Result<void> UdpEntry::listen() {
  auto socket = net::Udp::bind(loop_, tunnel_.listen.host, tunnel_.listen.port, *this);
  if (!socket) return std::unexpected(socket.error());
  socket_ = std::move(*socket);
  return {};
}

void UdpEntry::stop_listening() {
  socket_ = net::Udp{};
  associations_.finish();
}

void UdpEntry::on_datagram(std::span<const uint8_t> data, const net::UdpAddress& from) {
  associations_.on_datagram(from, data);
}

tmesh_status UdpEntry::reply(const net::UdpAddress& to, std::span<const uint8_t> data) {
  return socket_.send_to(to, data);
}

}  // namespace tmesh::client
