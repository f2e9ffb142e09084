#include "cpp/http/server.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cpp/http/connection.hpp"
#include "cpp/http/response_writer.hpp"
#include "cpp/http/server_core.hpp"
#include "cpp/net/process.hpp"

namespace tmesh::http {

namespace {
// What a handshake or a health check stays below.
constexpr std::size_t kSmallBytes = 16'384;
}  // namespace

std::size_t derive_max_connections(std::size_t open_file_limit) {
  return std::max<std::size_t>(16, open_file_limit - open_file_limit / 4);
}

ServerCore::ServerCore(net::Loop& loop_ref, Handler& handler_ref, ServerOptions options_value,
                       const net::TlsContext* tls_context)
    : loop(loop_ref),
      handler(handler_ref),
      options(std::move(options_value)),
      tls(tls_context),
      max_connections_(options.max_connections != 0 ? options.max_connections
                                                    : derive_max_connections(net::open_file_limit())),
      address_limit_(options.max_connections_per_address, options.uncapped_networks) {}

ServerCore::~ServerCore() = default;

void ServerCore::on_accept(int fd, const net::Peer& peer) {
  std::size_t upgraded = options.upgraded_count ? options.upgraded_count() : 0;
  if (connections_.size() + upgraded >= max_connections_) {
    ++stats.over_limit_count;
    ::close(fd);
    return;
  }
  if (!address_limit_.acquire(peer.ip)) {
    ++stats.over_address_limit_count;
    ::close(fd);
    return;
  }
  auto connection = std::make_unique<Connection>(*this, peer);
  if (!connection->start(fd)) {
    address_limit_.release(peer.ip);
    return;
  }
  ++stats.accepted_count;
  connection->index = connections_.size();
  connections_.push_back(std::move(connection));
}

void ServerCore::on_broken(tmesh_status why) {
  listener.close();
  if (options.on_broken) options.on_broken(why);
}

void ServerCore::drain() {
  is_draining = true;
  listener.close();
  for (std::size_t i = connections_.size(); i-- > 0;) connections_[i]->drain();
}

void ServerCore::close() {
  is_draining = true;
  listener.close();
  // An abort can make its owner end other exchanges, but none can begin here.
  while (!connections_.empty()) connections_.back()->close(false);
}

void ServerCore::retire(Connection& connection) {
  std::size_t index = connection.index;
  address_limit_.release(connection.peer().ip);
  std::unique_ptr<Connection> gone = std::move(connections_[index]);
  if (index + 1 != connections_.size()) {
    connections_[index] = std::move(connections_.back());
    connections_[index]->index = index;
  }
  connections_.pop_back();
  if (retired_.empty()) reap_ = loop.after(0, Delegate<void()>::bind<&ServerCore::reap>(this));
  retired_.push_back(std::move(gone));
}

void ServerCore::reap() {
  retired_.clear();
}

bool ServerCore::account(std::size_t before_bytes, std::size_t after_bytes) {
  buffered_bytes_ = buffered_bytes_ - before_bytes + after_bytes;
  std::size_t reserved_bytes = after_bytes <= kSmallBytes ? 0 : options.max_buffered_bytes / 4;
  return buffered_bytes_ <= options.max_buffered_bytes - reserved_bytes;
}

const std::string& ServerCore::date() {
  int64_t now_s = loop.wall_us() / 1'000'000;
  if (now_s != date_s_) {
    date_s_ = now_s;
    date_ = http_date(now_s);
  }
  return date_;
}

Server::Server(net::Loop& loop, Handler& handler, ServerOptions options, const net::TlsContext* tls)
    : core_(std::make_unique<ServerCore>(loop, handler, std::move(options), tls)) {}

Server::~Server() = default;

Result<void> Server::listen(const std::string& host, uint16_t port) {
  net::ListenerEvents events;
  events.on_accept = Delegate<void(int, const net::Peer&)>::bind<&ServerCore::on_accept>(core_.get());
  events.on_broken = Delegate<void(tmesh_status)>::bind<&ServerCore::on_broken>(core_.get());
  Result<net::Listener> listener = net::Listener::open(core_->loop, host, port, events);
  if (!listener) return std::unexpected(listener.error());
  core_->listener = std::move(*listener);
  return {};
}

uint16_t Server::port() const {
  return core_->listener ? core_->listener.port() : uint16_t{0};
}

void Server::drain() {
  core_->drain();
}

void Server::close() {
  core_->close();
}

std::size_t Server::connection_count() const {
  return core_->connection_count();
}

std::size_t Server::buffered_bytes() const {
  return core_->buffered_bytes();
}

const ServerStats& Server::stats() const {
  return core_->stats;
}

}  // namespace tmesh::http
