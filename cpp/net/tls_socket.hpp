// A TLS connection to a target as one end of a splice: what net::Tcp is without TLS.
//
// Decrypted bytes are copied into pool blocks (`in`), bytes to send are taken from blocks
// (`out`), so nothing is allocated per frame; the TLS layer has its 70 KiB from the start.
// When the splice cannot move what came, the socket rests, and TCP pushes back; `in` then
// holds less than a block and what one more read and one record gave, 112 KiB at most. A resting
// socket is deaf, so the kernel is asked now and then, as for tmesh_tcp.
//
// Half-close: with TLS 1.3 close_notify and FIN, and reading goes on. In TLS 1.2 the peer
// has to take close_notify for the end of both directions and drops its answer (RFC 5246
// section 7.2.1), so there the end is kept back until the close. An end of the peer without close_notify
// breaks the socket with RESET: what came before is delivered, but nobody takes it for
// complete.
//
// Move-only; the rules of net::Tcp hold for destruction and handler. One thread.
#pragma once

#include <cstddef>
#include <utility>

#include "core/mux/splice.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/tcp.hpp"
#include "cpp/net/tls_context.hpp"

namespace tmesh::net {

class TlsSocket {
 public:
  // OK: bytes may flow. Otherwise TLS, TLS_VERIFY, CLOSED (stream scope) or another failure
  // of the connection, and only destruction is useful. Once, from the loop.
  using Ready = Delegate<void(tmesh_status)>;

  TlsSocket() = default;
  TlsSocket(TlsSocket&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  TlsSocket& operator=(TlsSocket&& other) noexcept;
  ~TlsSocket() { close(false); }

  // Takes fd over, also on failure (NO_MEMORY, IO, INVALID: the name cannot be checked), and
  // begins the handshake, whose time the caller bounds. server_name: a DNS name or an IP
  // literal, which the certificate must have. tls lives until this returned.
  static Result<TlsSocket> connect(Loop& loop, int fd, const TlsContext& tls, const char* server_name,
                                   Ready ready);

  explicit operator bool() const { return node_ != nullptr; }
  // As of net::Tcp. Without a handler nothing is read.
  void set_handler(TcpHandler& handler);
  void read(std::size_t in_max_bytes);
  tmesh_chunkq* in();
  // is_graceful: close_notify and FIN, behind a write under way, and up to a second for the
  // peer's end; otherwise at once.
  void close(bool is_graceful);
  tmesh_end end();

 private:
  struct Node;
  friend struct TlsSocketGlue;
  explicit TlsSocket(Node* node) : node_(node) {}
  Node* node_ = nullptr;
};

}  // namespace tmesh::net
