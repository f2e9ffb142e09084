#include "cpp/net/link.hpp"

#include "core/loop/link.h"

namespace tmesh::net {

struct Link::Node {
  tmesh_link c{};
  tmesh_transport* transport = nullptr;  // memory only; the C link closes it
  LinkHandler* handler = nullptr;
  // The C link can close by itself after it went down, so the memory goes with the
  // later of the two.
  bool has_owner = true;
  bool is_closed = false;
};

struct LinkGlue {
  static LinkHandler* handler(void* ctx) { return static_cast<Link::Node*>(ctx)->handler; }

  static void destroy(Link::Node* node) {
    Transport::free_released(node->transport);
    delete node;
  }
  static void on_down(void* ctx, tmesh_status why) {
    if (LinkHandler* h = handler(ctx)) h->on_down(why);
  }
  static void on_closed(void* ctx) {
    auto* node = static_cast<Link::Node*>(ctx);
    node->is_closed = true;
    if (!node->has_owner) destroy(node);
  }
  static void on_open(void* ctx, tmesh_stream* stream, const tmesh_open_stream* open) {
    // Without a handler nobody attaches, and the mux refuses the stream.
    if (LinkHandler* h = handler(ctx)) h->on_open(stream, *open);
  }
  static tmesh_status on_control(void* ctx, const tmesh_frame_header* header, const uint8_t* payload,
                                 size_t len_bytes) {
    LinkHandler* h = handler(ctx);
    return h == nullptr ? tmesh_ok() : h->on_control(*header, {payload, len_bytes});
  }
  static void on_pong(void* ctx, const uint8_t* payload, size_t len_bytes) {
    if (LinkHandler* h = handler(ctx)) h->on_pong({payload, len_bytes});
  }
  static void on_goaway(void* ctx) {
    if (LinkHandler* h = handler(ctx)) h->on_goaway();
  }
  static constexpr tmesh_link_events kLinkEvents = {on_down, on_closed};
  // on_dirty is the link's own.
  static constexpr tmesh_mux_events kMuxEvents = {on_open, on_control, on_pong, on_goaway, nullptr};
};

Result<Link> Link::open(Loop& loop, Transport transport, bool is_client, const tmesh_mux_config& config,
                        LinkHandler& handler, std::span<const uint8_t> early) {
  auto* node = new Node;
  node->handler = &handler;
  tmesh_mux_config filled = config;
  filled.events = &LinkGlue::kMuxEvents;
  filled.events_ctx = node;
  if (filled.pool == nullptr) filled.pool = loop.pool();
  tmesh_status st = tmesh_link_open(&node->c, transport.raw(), is_client, &filled, &LinkGlue::kLinkEvents,
                                    node, early.data(), early.size());
  if (!tmesh_is_ok(st)) {
    delete node;
    return tmesh::fail(static_cast<tmesh_code>(st.code), "the link cannot be set up");
  }
  node->transport = transport.release();
  return Link(node);
}

Link& Link::operator=(Link&& other) noexcept {
  if (this != &other) {
    close();
    node_ = std::exchange(other.node_, nullptr);
  }
  return *this;
}

tmesh_mux* Link::mux() {
  return tmesh_link_mux(&node_->c);
}

void Link::ws_ping() {
  tmesh_link_ws_ping(&node_->c);
}

uint64_t Link::last_read_us() const {
  return tmesh_link_last_read_us(&node_->c);
}

uint64_t Link::bytes_in() const {
  return node_->transport->stats.bytes_in;
}

uint64_t Link::bytes_out() const {
  return node_->transport->stats.bytes_out;
}

const tmesh_tls* Link::tls() const {
  return node_->transport->tls;
}

void Link::kick() {
  tmesh_link_kick(&node_->c);
}

void Link::fail(tmesh_status why) {
  tmesh_link_fail(&node_->c, why);
}

void Link::close() {
  if (node_ == nullptr) return;
  Node* node = std::exchange(node_, nullptr);
  node->handler = nullptr;
  node->has_owner = false;
  if (node->is_closed) {
    LinkGlue::destroy(node);
  } else {
    tmesh_link_close(&node->c);
  }
}

}  // namespace tmesh::net
