// A listening TCP or Unix socket. Move-only; destroying it closes the socket and after
// that no callback runs.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/peer.hpp"
#include "cpp/net/unix_socket.hpp"

namespace tmesh::net {

// What REFUSED, POLICY, INVALID and IO mean when a local address cannot be used.
const char* listen_error_text(unsigned code);

struct ListenerEvents {
  // The callee owns fd (non-blocking, close-on-exec). May destroy the Listener.
  Delegate<void(int fd, const Peer& peer)> on_accept;
  // The socket is dead: the entry does not work any more (LESSONS R22). May destroy
  // the Listener.
  Delegate<void(tmesh_status why)> on_broken;
};

class Listener {
 public:
  Listener() = default;
  Listener(Listener&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Listener& operator=(Listener&& other) noexcept;
  ~Listener() { close(); }

  // host: an IPv4 or IPv6 literal, "" or "*" for every local address, "localhost" for
  // 127.0.0.1; port 0 = any. REFUSED: in use; POLICY: permission denied; INVALID: not
  // an address of this machine; IO otherwise. The text says the same in words.
  static Result<Listener> open(Loop& loop, const std::string& host, uint16_t port,
                               const ListenerEvents& events);

  // On a Unix socket: the rules and errors of listen_unix. The file goes with the listener,
  // unless it is no longer the one that was made here.
  static Result<Listener> open_unix(Loop& loop, const UnixSocketPlace& place, const ListenerEvents& events);

  // What it accepts is ready for Tcp::open_prepared().
  void prepare_tcp();
  void close();
  explicit operator bool() const { return node_ != nullptr; }
  uint16_t port() const;  // 0 on a Unix socket
  uint64_t accepted_count() const;
  // Newcomers that were closed because no descriptor was left for them.
  uint64_t refused_count() const;

 private:
  struct Node;
  friend struct ListenerGlue;
  explicit Listener(Node* node) : node_(node) {}
  Node* node_ = nullptr;
};

}  // namespace tmesh::net
