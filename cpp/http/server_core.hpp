// What a server's connections share; private to this folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpp/base/ticket.hpp"
#include "cpp/http/address_limit.hpp"
#include "cpp/http/server.hpp"
#include "cpp/net/listener.hpp"

namespace tmesh::http {

class Connection;

class ServerCore {
 public:
  ServerCore(net::Loop& loop, Handler& handler, ServerOptions options, const net::TlsContext* tls);
  ~ServerCore();

  void on_accept(int fd, const net::Peer& peer);
  void on_broken(tmesh_status why);
  void drain();
  void close();

  // A connection is over or was handed on: its place is free at once, its memory goes
  // in the next iteration, because it may be on the stack.
  void retire(Connection& connection);
  // The bytes a connection holds changed; false when the total is over the limit for a
  // connection of that size.
  bool account(std::size_t before_bytes, std::size_t after_bytes);
  // The Date field's value.
  const std::string& date();
  std::size_t connection_count() const { return connections_.size(); }
  std::size_t buffered_bytes() const { return buffered_bytes_; }

  net::Loop& loop;
  Handler& handler;
  const ServerOptions options;
  const net::TlsContext* const tls;
  net::Listener listener;
  ServerStats stats;
  bool is_draining = false;

 private:
  void reap();

  std::size_t max_connections_;
  AddressLimit address_limit_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::unique_ptr<Connection>> retired_;
  Ticket reap_;
  std::size_t buffered_bytes_ = 0;
  int64_t date_s_ = -1;
  std::string date_;
};

}  // namespace tmesh::http
