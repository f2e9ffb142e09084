// A UDP entry: datagrams of every local source to the tunnel's target and back.
//
// One socket; who talks through it is in UdpAssociations. Boundaries are kept up to the largest
// datagram UDP has, 65,507 bytes; empty ones count. What finds no room is dropped and
// counted, as UDP does it.
#pragma once

#include "cpp/client/entry.hpp"
#include "cpp/client/udp_associations.hpp"
#include "cpp/net/udp.hpp"

namespace tmesh::client {

class UdpEntry final : public Entry, private net::UdpHandler {
 public:
  UdpEntry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken);

  Result<void> listen() override;
  // UDP has no flow that ends by itself, and without the socket no answer finds back: all
  // associations are closed.
  void stop_listening() override;
  uint16_t port() const override { return socket_.port(); }
  std::size_t locals_count() const override { return associations_.count(); }
  const EntryStats& stats() const override { return stats_; }
  uint64_t dropped_count() const override { return associations_.counts().dropped_count; }

 private:
  void on_datagram(std::span<const uint8_t> data, const net::UdpAddress& from) override;
  void on_writable() override { associations_.pump(); }
  // Of one datagram that was sent; the socket is none the worse for it.
  void on_error(tmesh_status) override {}
  tmesh_status reply(const net::UdpAddress& to, std::span<const uint8_t> data);

  net::Loop& loop_;
  const config::Tunnel tunnel_;
  OpeningSettings opening_;
  EntryStats stats_;
  net::Udp socket_;
  UdpAssociations associations_;
};

}  // namespace tmesh::client
