// A byte stream over TCP, optionally inside TLS, as a C++ owner of a tmesh_transport.
//
// Move-only. Destroying it (or close()) ends the connection; the memory goes when the
// loop has closed its handles, and after that no callback reaches the handler. A
// handler may destroy the Transport from inside any of its callbacks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"
#include "cpp/net/tls_context.hpp"

struct tmesh_transport;
struct tmesh_tls;

namespace tmesh::net {

// All calls come from the loop, none from inside a call to the Transport.
class TransportHandler {
 public:
  // The TLS handshake ended (plain: right after open). Not OK: TLS, TLS_VERIFY, TIMEOUT, IO.
  virtual void on_ready(tmesh_status status) = 0;
  // All of it must be taken: the memory is the loop's shared read buffer.
  virtual void on_data(std::span<uint8_t> data) = 0;
  virtual void on_eof() = 0;
  virtual void on_written() = 0;
  // CLOSED, IO, TLS: reading and writing are over.
  virtual void on_error(tmesh_status status) = 0;

 protected:
  ~TransportHandler() = default;
};

class Transport {
 public:
  Transport() = default;
  Transport(Transport&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Transport& operator=(Transport&& other) noexcept;
  ~Transport() { close(false); }

  // Take fd over, also on failure (NO_MEMORY, IO). tls may be null: plain. Reading
  // starts with read(true). The handler must live until the Transport is closed or
  // has another handler.
  static Result<Transport> accept(Loop& loop, int fd, const TlsContext* tls, TransportHandler& handler);
  // server_name: SNI and the name the certificate must have.
  static Result<Transport> connect(Loop& loop, int fd, const TlsContext* tls, const char* server_name,
                                   TransportHandler& handler);

  explicit operator bool() const { return node_ != nullptr; }
  // Null: events are dropped until there is another one.
  void set_handler(TransportHandler* handler);
  void read(bool on);
  // The buffer stays the caller's until on_written. STATE: one write is pending;
  // CLOSED: after an error.
  [[nodiscard]] tmesh_status write(std::span<const uint8_t> data);
  // done = true: everything went at once, no on_written follows.
  [[nodiscard]] tmesh_status try_write(std::span<const uint8_t> data, bool* done);
  // For an answer that a peer may write in pieces: see tmesh_transport_ack_at_once().
  void ack_at_once();
  // Empties the owner. is_graceful: close_notify and FIN after the pending write, whose
  // buffer must then live on until the loop is closed or one second passed.
  void close(bool is_graceful);

  uint64_t bytes_in() const;   // on the wire
  uint64_t bytes_out() const;  // on the wire
  uint64_t last_read_us() const;
  // Facts about the TLS connection (core/wire/tls.h); null when plain. Borrowed.
  const tmesh_tls* tls() const;

 private:
  struct Node;
  friend struct TransportGlue;
  friend struct LinkGlue;
  friend class Link;
  explicit Transport(Node* node) : node_(node) {}
  static Result<Transport> open(Loop& loop, int fd, const TlsContext* tls, bool is_server,
                                const char* server_name, TransportHandler& handler);
  // For Link: the C object, which release() gives away and free_released() ends.
  tmesh_transport* raw();
  tmesh_transport* release();
  static void free_released(tmesh_transport* transport);

  Node* node_ = nullptr;
};

}  // namespace tmesh::net
