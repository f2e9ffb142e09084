// A plain TCP socket as one end of a splice (a client's entry, an agent's target), as
// a C++ owner of a tmesh_tcp.
//
// Move-only. Destroying it resets the connection unless it was closed gracefully
// before; after that no callback reaches the handler, and the memory goes when the
// loop has closed the handle. A handler may destroy the Tcp inside any callback. The
// splice that uses end() must be cancelled or done before the Tcp is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "core/mux/splice.h"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"

struct tmesh_tcp;

namespace tmesh::net {

// Events of the socket; while a splice runs, hand them to tmesh_splice_*.
class TcpHandler {
 public:
  virtual void on_readable() = 0;  // bytes wait in in()
  virtual void on_eof() = 0;
  virtual void on_written(std::size_t n, bool is_all) = 0;
  virtual void on_broken(tmesh_status why) = 0;  // IO, RESET

 protected:
  ~TcpHandler() = default;
};

class Tcp {
 public:
  Tcp() = default;
  Tcp(Tcp&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
  Tcp& operator=(Tcp&& other) noexcept;
  ~Tcp() { close(false); }

  // Takes fd over, also on failure (NO_MEMORY, IO).
  static Result<Tcp> open(Loop& loop, int fd, TcpHandler& handler);
  // The same for what a prepared Listener accepted.
  static Tcp open_prepared(Loop& loop, int fd, TcpHandler& handler);

  explicit operator bool() const { return node_ != nullptr; }
  void set_handler(TcpHandler& handler);
  // Reads while fewer than in_max_bytes wait in in().
  void read(std::size_t in_max_bytes);
  // Received bytes that nobody took yet; consume with tmesh_chunkq_*.
  tmesh_chunkq* in();
  // Sends a small message now or queues it. NO_MEMORY.
  [[nodiscard]] tmesh_status send(std::span<const uint8_t> data);
  // FIN behind what is queued.
  void finish();
  // Empties the owner. is_graceful: what is queued is written first (at most 5 s), then
  // FIN; otherwise RST.
  void close(bool is_graceful);
  // For tmesh_splice_init. An end that the splice aborted is closed; the owner is still
  // to be destroyed.
  tmesh_end end();

 private:
  struct Node;
  friend struct TcpGlue;
  explicit Tcp(Node* node) : node_(node) {}
  Node* node_ = nullptr;
};

}  // namespace tmesh::net
