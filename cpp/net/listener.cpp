#include "cpp/net/listener.hpp"

#include "core/loop/listener.h"
#include "core/loop/tcp.h"

namespace tmesh::net {

struct Listener::Node {
  tmesh_listener c{};
  ListenerEvents events;
  UnixSocketFile file;
};

struct ListenerGlue {
  static void on_accept(void* ctx, int fd, const sockaddr* address) {
    static_cast<Listener::Node*>(ctx)->events.on_accept(fd, peer_from(address));
  }
  static void on_broken(void* ctx, tmesh_status why) {
    static_cast<Listener::Node*>(ctx)->events.on_broken(why);
  }
  static void on_closed(void* ctx) { delete static_cast<Listener::Node*>(ctx); }
  static constexpr tmesh_listener_events kEvents = {on_accept, on_broken, on_closed};
};

const char* listen_error_text(unsigned code) {
  switch (code) {
    case TMESH_E_REFUSED:
      return "the address is already in use";
    case TMESH_E_POLICY:
      return "no permission to listen on this port";
    case TMESH_E_INVALID:
      return "not an address of this machine";
    default:
      return "cannot listen";
  }
}

Result<Listener> Listener::open(Loop& loop, const std::string& host, uint16_t port,
                                const ListenerEvents& events) {
  auto* node = new Node;
  node->events = events;
  // The name stands for one address here, so that what a user wrote as local never
  // depends on a hosts file.
  const char* literal = host == "localhost" ? "127.0.0.1" : host.c_str();
  tmesh_status st = tmesh_listener_open(&node->c, loop.raw(), literal, port, &ListenerGlue::kEvents, node);
  if (!tmesh_is_ok(st)) {
    delete node;
    return fail(static_cast<tmesh_code>(st.code), listen_error_text(st.code));
  }
  return Listener(node);
}

Result<Listener> Listener::open_unix(Loop& loop, const UnixSocketPlace& place, const ListenerEvents& events) {
  const Result<int> fd = listen_unix(place);
  if (!fd) return std::unexpected(fd.error());
  auto* node = new Node;
  node->events = events;
  node->file = UnixSocketFile(place.path);
  const tmesh_status st = tmesh_listener_adopt(&node->c, loop.raw(), *fd, &ListenerGlue::kEvents, node);
  if (!tmesh_is_ok(st)) {
    delete node;
    return fail(static_cast<tmesh_code>(st.code), listen_error_text(st.code));
  }
  return Listener(node);
}

Listener& Listener::operator=(Listener&& other) noexcept {
  if (this != &other) {
    close();
    node_ = std::exchange(other.node_, nullptr);
  }
  return *this;
}

void Listener::prepare_tcp() {
  (void)tmesh_tcp_prepare(node_->c.fd);
}

void Listener::close() {
  if (node_ == nullptr) return;
  // Before the socket: as long as it is open, no other file can get its number.
  node_->file.remove();
  // From here on the C object calls nothing but on_closed, which frees the node.
  tmesh_listener_close(&std::exchange(node_, nullptr)->c);
}

uint16_t Listener::port() const {
  return tmesh_listener_port(&node_->c);
}

uint64_t Listener::accepted_count() const {
  return node_->c.accepted_count;
}

uint64_t Listener::refused_count() const {
  return node_->c.refused_count;
}

}  // namespace tmesh::net
