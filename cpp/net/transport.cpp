#include "cpp/net/transport.hpp"

#include <type_traits>

#include "core/loop/transport.h"

namespace tmesh::net {

struct Transport::Node {
  tmesh_transport c{};  // first: a released tmesh_transport* is its Node*
  TransportHandler* handler = nullptr;
};

struct TransportGlue {
  static TransportHandler* handler(void* ctx) { return static_cast<Transport::Node*>(ctx)->handler; }
  static void on_ready(void* ctx, tmesh_status st) {
    if (TransportHandler* h = handler(ctx)) h->on_ready(st);
  }
  static void on_data(void* ctx, uint8_t* data, size_t len_bytes) {
    if (TransportHandler* h = handler(ctx)) h->on_data({data, len_bytes});
  }
  static void on_eof(void* ctx) {
    if (TransportHandler* h = handler(ctx)) h->on_eof();
  }
  static void on_written(void* ctx) {
    if (TransportHandler* h = handler(ctx)) h->on_written();
  }
  static void on_error(void* ctx, tmesh_status st) {
    if (TransportHandler* h = handler(ctx)) h->on_error(st);
  }
  static void on_closed(void* ctx) { delete static_cast<Transport::Node*>(ctx); }
  static constexpr tmesh_transport_events kEvents = {on_ready,   on_data,  on_eof,
                                                     on_written, on_error, on_closed};
};

Result<Transport> Transport::accept(Loop& loop, int fd, const TlsContext* tls, TransportHandler& handler) {
  return open(loop, fd, tls, true, nullptr, handler);
}

Result<Transport> Transport::connect(Loop& loop, int fd, const TlsContext* tls, const char* server_name,
                                     TransportHandler& handler) {
  return open(loop, fd, tls, false, server_name, handler);
}

Result<Transport> Transport::open(Loop& loop, int fd, const TlsContext* tls, bool is_server,
                                  const char* server_name, TransportHandler& handler) {
  static_assert(std::is_standard_layout_v<Node>);
  auto* node = new Node;
  node->handler = &handler;
  tmesh_status st = tmesh_transport_open(&node->c, loop.raw(), fd, tls == nullptr ? nullptr : tls->raw(),
                                         is_server, server_name, &TransportGlue::kEvents, node);
  if (!tmesh_is_ok(st)) {
    delete node;
    return fail(static_cast<tmesh_code>(st.code), "the connection cannot be set up");
  }
  return Transport(node);
}

Transport& Transport::operator=(Transport&& other) noexcept {
  if (this != &other) {
    close(false);
    node_ = std::exchange(other.node_, nullptr);
  }
  return *this;
}

void Transport::set_handler(TransportHandler* handler) {
  node_->handler = handler;
}

void Transport::read(bool on) {
  tmesh_transport_read(&node_->c, on);
}

tmesh_status Transport::write(std::span<const uint8_t> data) {
  return tmesh_transport_write(&node_->c, data.data(), data.size());
}

tmesh_status Transport::try_write(std::span<const uint8_t> data, bool* done) {
  return tmesh_transport_try_write(&node_->c, data.data(), data.size(), done);
}

void Transport::ack_at_once() {
  tmesh_transport_ack_at_once(&node_->c);
}

void Transport::close(bool is_graceful) {
  if (node_ == nullptr) return;
  Node* node = std::exchange(node_, nullptr);
  node->handler = nullptr;
  tmesh_transport_close(&node->c, is_graceful);
}

uint64_t Transport::bytes_in() const {
  return node_->c.stats.bytes_in;
}

uint64_t Transport::bytes_out() const {
  return node_->c.stats.bytes_out;
}

uint64_t Transport::last_read_us() const {
  return node_->c.stats.last_read_us;
}

const tmesh_tls* Transport::tls() const {
  return node_->c.tls;
}

tmesh_transport* Transport::raw() {
  return &node_->c;
}

tmesh_transport* Transport::release() {
  Node* node = std::exchange(node_, nullptr);
  node->handler = nullptr;
  return &node->c;
}

void Transport::free_released(tmesh_transport* transport) {
  delete reinterpret_cast<Node*>(transport);
}

}  // namespace tmesh::net
