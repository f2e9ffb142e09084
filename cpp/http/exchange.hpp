// One request and the right to answer it.
//
// A handler answers at once with Exchange::respond, or takes a Deferred and answers
// later. A request that was neither answered nor deferred, and a Deferred that is
// destroyed without an answer, is answered with 500 and the connection closes. All on
// the loop thread.
#pragma once

#include <cstdint>
#include <vector>

#include "cpp/base/delegate.hpp"
#include "cpp/http/message.hpp"
#include "cpp/net/peer.hpp"
#include "cpp/net/transport.hpp"

namespace tmesh::http {

class Connection;

// What is left of a connection after "101 Switching Protocols" was written.
struct Upgraded {
  net::Transport transport;    // not reading; set a handler or open a Link on it at once
  std::vector<uint8_t> early;  // bytes of the new protocol that came behind the request
  net::Peer peer;
};

// The right to answer later. Move-only. It is also the Ticket of its own on_abort:
// once it is destroyed or has answered, on_abort does not run.
class Deferred {
 public:
  Deferred() = default;
  Deferred(Deferred&& other) noexcept;
  Deferred& operator=(Deferred&& other) noexcept;
  ~Deferred();

  // False when the peer is gone or an answer was given; then request() may not be used.
  bool active() const { return connection_ != nullptr; }
  const Request& request() const;

  // Ignored when not active.
  void respond(const Response& response);
  // For a request with is_upgrade (asserted): writes a 101 with these fields, which
  // must contain Upgrade (Connection is added). on_upgraded runs once from the loop,
  // never inside this call, after the 101 was written; if the peer goes before that,
  // on_abort runs instead. Keep the Deferred until then: destroying it drops the
  // connection. False when not active or when the peer is found gone: nothing follows.
  bool upgrade(const Headers& fields, Delegate<void(Upgraded)> on_upgraded);

 private:
  friend class Connection;
  friend class Exchange;
  explicit Deferred(Connection* connection);
  void detach();
  Connection* connection_ = nullptr;  // they know each other: either may go first
};

// Valid during on_request only.
class Exchange {
 public:
  const Request& request() const;
  const net::Peer& peer() const;
  bool is_tls() const;
  void respond(const Response& response);
  // on_abort runs when the peer is gone before the answer (a reset, an error, a server
  // that closes). A peer that only finished sending is not gone: it still gets its answer,
  // unless it asked for an upgrade.
  [[nodiscard]] Deferred defer(Delegate<void()> on_abort);

 private:
  friend class Connection;
  explicit Exchange(Connection& connection) : connection_(connection) {}
  Connection& connection_;
};

class Handler {
 public:
  virtual void on_request(Exchange& exchange) = 0;

 protected:
  ~Handler() = default;
};

}  // namespace tmesh::http
