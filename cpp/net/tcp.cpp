#include "cpp/net/tcp.hpp"

#include "core/loop/tcp.h"

namespace tmesh::net {

struct Tcp::Node {
  tmesh_tcp c{};
  TcpHandler* handler = nullptr;
  // A splice can close the C object while the owner still holds the node, so the
  // memory goes with the later of the two.
  bool has_owner = true;
  bool is_closed = false;
};

struct TcpGlue {
  static TcpHandler* handler(void* ctx) { return static_cast<Tcp::Node*>(ctx)->handler; }
  static void on_readable(void* ctx) {
    if (TcpHandler* h = handler(ctx)) h->on_readable();
  }
  static void on_eof(void* ctx) {
    if (TcpHandler* h = handler(ctx)) h->on_eof();
  }
  static void on_written(void* ctx, size_t n, bool is_all) {
    if (TcpHandler* h = handler(ctx)) h->on_written(n, is_all);
  }
  static void on_broken(void* ctx, tmesh_status why) {
    if (TcpHandler* h = handler(ctx)) h->on_broken(why);
  }
  static void on_closed(void* ctx) {
    auto* node = static_cast<Tcp::Node*>(ctx);
    node->is_closed = true;
    if (!node->has_owner) delete node;
  }
  static constexpr tmesh_tcp_events kEvents = {on_readable, on_eof, on_written, on_broken, on_closed};
};

Result<Tcp> Tcp::open(Loop& loop, int fd, TcpHandler& handler) {
  auto* node = new Node;
  node->handler = &handler;
  tmesh_status st = tmesh_tcp_open(&node->c, loop.raw(), fd, &TcpGlue::kEvents, node);
  if (!tmesh_is_ok(st)) {
    delete node;
    return fail(static_cast<tmesh_code>(st.code), "the connection cannot be set up");
  }
  return Tcp(node);
}

Tcp Tcp::open_prepared(Loop& loop, int fd, TcpHandler& handler) {
  auto* node = new Node;
  node->handler = &handler;
  tmesh_tcp_open_prepared(&node->c, loop.raw(), fd, &TcpGlue::kEvents, node);
  return Tcp(node);
}

Tcp& Tcp::operator=(Tcp&& other) noexcept {
  if (this != &other) {
    close(false);
    node_ = std::exchange(other.node_, nullptr);
  }
  return *this;
}

void Tcp::set_handler(TcpHandler& handler) {
  node_->handler = &handler;
}

void Tcp::read(std::size_t in_max_bytes) {
  tmesh_tcp_read(&node_->c, in_max_bytes);
}

tmesh_chunkq* Tcp::in() {
  return &node_->c.in;
}

tmesh_status Tcp::send(std::span<const uint8_t> data) {
  return tmesh_tcp_send(&node_->c, data.data(), data.size());
}

void Tcp::finish() {
  tmesh_tcp_finish(&node_->c);
}

void Tcp::close(bool is_graceful) {
  if (node_ == nullptr) return;
  Node* node = std::exchange(node_, nullptr);
  node->handler = nullptr;
  node->has_owner = false;
  if (node->is_closed) {
    delete node;
  } else {
    tmesh_tcp_close(&node->c, is_graceful);
  }
}

tmesh_end Tcp::end() {
  return tmesh_tcp_end(&node_->c);
}

}  // namespace tmesh::net
