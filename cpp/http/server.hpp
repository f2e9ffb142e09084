// An HTTP/1.1 server on the loop: health, metrics, the administration API, and the door
// through which WebSockets come.
//
// Built against slow and huge requests (LESSONS R23): every phase of a connection has
// a deadline, every buffer a bound, and connections are limited in all and per address
// until they are upgraded. Requests of one connection are handled strictly one after
// the other, so pipelined answers keep their order. Answers carry no text of the
// system. Owns its listener and its connections; handler, TLS context and loop
// outlive it. It must not be destroyed from inside a handler. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cpp/base/address.hpp"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/http/exchange.hpp"
#include "cpp/http/request_parser.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::http {

struct ServerOptions {
  // From accepting (TLS handshake included), or from the first byte of a later request,
  // to the end of its head: 408. Silent connections are closed without an answer.
  uint64_t read_header_timeout_us = 10'000'000;
  uint64_t body_timeout_us = 30'000'000;   // the whole body: 408; also each 64 KiB of an answer
  uint64_t idle_timeout_us = 120'000'000;  // between two requests
  ParserLimits limits;
  // 0 = what RLIMIT_NOFILE leaves (derive_max_connections). Connections over it are
  // closed at once.
  std::size_t max_connections = 0;
  // Not yet upgraded connections of one address: above what a browser or an office
  // behind one address opens here, far below what would starve the others. 0 = no limit.
  std::size_t max_connections_per_address = 256;
  std::vector<Cidr> uncapped_networks;  // reverse proxies
  // All bytes of requests and answers in memory: a thousand idle megabyte requests must
  // not be possible. Beyond it requests get 503. The last quarter is for connections
  // that hold at most 16 KiB, so that a few huge requests cannot keep the handshakes of
  // everybody else out.
  std::size_t max_buffered_bytes = 64u << 20;
  // How many upgraded connections live: they count for max_connections. May be unset.
  Delegate<std::size_t()> upgraded_count;
  // The listening socket died (LESSONS R22). May be unset.
  Delegate<void(tmesh_status)> on_broken;
};

struct ServerStats {
  uint64_t accepted_count = 0;
  uint64_t over_limit_count = 0;          // closed: max_connections
  uint64_t over_address_limit_count = 0;  // closed: max_connections_per_address
  uint64_t request_count = 0;             // given to the handler
  uint64_t rejected_count = 0;            // answered without the handler: malformed, too large
  uint64_t timeout_count = 0;             // any deadline above
  uint64_t aborted_count = 0;             // the peer went before its answer
  uint64_t unanswered_count = 0;          // the handler's fault
  uint64_t upgraded_count = 0;
};

// What is left for connections of a limit of open files: three quarters, since links,
// databases and a listener need descriptors too, and at least 16.
std::size_t derive_max_connections(std::size_t open_file_limit);

class ServerCore;

class Server {
 public:
  // tls null = plain HTTP. The context may be reloaded while the server runs.
  Server(net::Loop& loop, Handler& handler, ServerOptions options, const net::TlsContext* tls = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Errors of net::Listener::open.
  Result<void> listen(const std::string& host, uint16_t port);
  uint16_t port() const;
  // Stops accepting and closes what is idle; other connections close behind their
  // answer.
  void drain();
  // Ends everything at once; Deferreds get their on_abort.
  void close();

  std::size_t connection_count() const;
  std::size_t buffered_bytes() const;
  const ServerStats& stats() const;

 private:
  std::unique_ptr<ServerCore> core_;
};

}  // namespace tmesh::http
