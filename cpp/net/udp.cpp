#include "cpp/net/udp.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string_view>
#include <utility>
#include <vector>

#include "core/loop/bind.h"
#include "core/loop/loop.h"
#include "core/loop/socket.h"
#include "cpp/net/handle.hpp"
#include "cpp/net/listener.hpp"

namespace tmesh::net {

struct Udp::Node {
  Handle<uv_udp_t> handle;
  UdpHandler* handler = nullptr;
};

namespace {

static_assert(sizeof(sockaddr_in6) == sizeof(UdpAddress::bytes));

UdpAddress address_of(const sockaddr* from) {
  UdpAddress out;
  const bool is_v4 = from->sa_family == AF_INET;
  out.len = static_cast<uint8_t>(is_v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  std::memcpy(out.bytes.data(), from, out.len);
  // The kernel leaves the padding as it is; the same sender must compare equal.
  if (is_v4)
    std::memset(out.bytes.data() + offsetof(sockaddr_in, sin_zero), 0, sizeof(sockaddr_in::sin_zero));
  return out;
}

sockaddr_storage sockaddr_of(const UdpAddress& address) {
  sockaddr_storage out{};
  std::memcpy(&out, address.bytes.data(), address.len);
  return out;
}

// One is enough: libuv asks for it right before each recvmsg(2) and hands it back right after.
uint8_t* receive_buffer() {
  thread_local std::array<uint8_t, kDatagramBufferBytes> buffer;
  return buffer.data();
}

// What the kernel did not take; freed when it was sent or the socket is closed.
struct Waiting {
  uv_udp_send_t request{};
  std::vector<uint8_t> data;
};

// uv_udp_open() makes the port one that others may take as well, and get what is sent to it.
void keep_port(int fd) {
  const int off = 0;
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &off, sizeof off);
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &off, sizeof off);
}

tmesh_status status_of(int uv_error) {
  return uv_error == UV_EMSGSIZE ? tmesh_err_stream(TMESH_E_TOO_LARGE)
                                 : tmesh_err_stream(tmesh_code_from_uv(uv_error));
}

}  // namespace

struct UdpGlue {
  static Udp::Node* node_of(uv_udp_t* uv) { return Handle<uv_udp_t>::owner_of<Udp::Node>(uv); }

  static void on_alloc(uv_handle_t*, size_t, uv_buf_t* buffer) {
    *buffer = uv_buf_init(reinterpret_cast<char*>(receive_buffer()), kDatagramBufferBytes);
  }
  static void on_received(uv_udp_t* uv, ssize_t n, const uv_buf_t* buffer, const sockaddr* from, unsigned) {
    Udp::Node* const node = node_of(uv);
    if (node == nullptr) return;
    if (n < 0) return node->handler->on_error(status_of(static_cast<int>(n)));
    if (from == nullptr) return;  // nothing more for now
    node->handler->on_datagram({reinterpret_cast<const uint8_t*>(buffer->base), static_cast<std::size_t>(n)},
                               address_of(from));
  }
  static void on_sent(uv_udp_send_t* request, int rc) {
    Udp::Node* const node = node_of(request->handle);
    delete static_cast<Waiting*>(request->data);
    if (node == nullptr) return;
    // It may be gone after either.
    if (rc != 0 && rc != UV_ECANCELED) {
      uv_udp_t* const uv = node->handle.get();
      node->handler->on_error(status_of(rc));
      if (node_of(uv) == nullptr) return;
    }
    node->handler->on_writable();
  }

  static tmesh_status send(Udp::Node& node, const sockaddr* to, std::span<const uint8_t> data) {
    uv_udp_t* const uv = node.handle.get();
    // libuv does not write to it.
    auto* const base = reinterpret_cast<char*>(const_cast<uint8_t*>(data.data()));
    uv_buf_t buffer = uv_buf_init(base, static_cast<unsigned>(data.size()));
    if (uv_udp_get_send_queue_count(uv) > 0) return tmesh_err_stream(TMESH_E_AGAIN);
    const int rc = uv_udp_try_send(uv, &buffer, 1, to);
    if (rc >= 0) return tmesh_ok();
    if (rc != UV_EAGAIN) return status_of(rc);
    auto waiting = std::make_unique<Waiting>();
    waiting->request.data = waiting.get();
    waiting->data.assign(data.begin(), data.end());
    buffer = uv_buf_init(reinterpret_cast<char*>(waiting->data.data()), static_cast<unsigned>(data.size()));
    const int queued = uv_udp_send(&waiting->request, uv, &buffer, 1, to, on_sent);
    if (queued != 0) return status_of(queued);
    (void)waiting.release();  // NOLINT(bugprone-unused-return-value): on_sent has it
    return tmesh_ok();
  }

  static Result<Udp> start(std::unique_ptr<Udp::Node> node, UdpHandler& handler) {
    node->handler = &handler;
    node->handle.set_owner(node.get());
    if (uv_udp_recv_start(node->handle.get(), on_alloc, on_received) != 0) {
      return fail(TMESH_E_IO, "cannot receive");
    }
    return Udp(std::move(node));
  }
};

std::span<uint8_t, kDatagramBufferBytes> datagram_scratch() {
  thread_local std::array<uint8_t, kDatagramBufferBytes> buffer;
  return buffer;
}

std::size_t UdpAddressHash::operator()(const UdpAddress& address) const {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(address.bytes.data()), address.len});
}

Udp::Udp() = default;
Udp::Udp(std::unique_ptr<Node> node) : node_(std::move(node)) {}
Udp::Udp(Udp&& other) noexcept = default;
Udp& Udp::operator=(Udp&& other) noexcept = default;
Udp::~Udp() = default;

Result<Udp> Udp::adopt(Loop& loop, int fd, UdpHandler& handler) {
  auto node = std::make_unique<Node>();
  if (node->handle.open(&loop.raw()->uv, uv_udp_init) != 0 || uv_udp_open(node->handle.get(), fd) != 0) {
    close(fd);
    return fail(TMESH_E_IO, "cannot take the socket over");
  }
  keep_port(fd);
  return UdpGlue::start(std::move(node), handler);
}

Result<Udp> Udp::bind(Loop& loop, const std::string& host, uint16_t port, UdpHandler& handler) {
  tmesh_status why = tmesh_ok();
  const char* const literal = host == "localhost" ? "127.0.0.1" : host.c_str();
  const int fd = tmesh_bind(literal, port, SOCK_DGRAM, &why);
  if (fd < 0) return fail(static_cast<tmesh_code>(why.code), listen_error_text(why.code));
  return adopt(loop, fd, handler);
}

uint16_t Udp::port() const {
  uv_os_fd_t fd = -1;
  if (node_ == nullptr || uv_fileno(reinterpret_cast<uv_handle_t*>(node_->handle.get()), &fd) != 0) return 0;
  return tmesh_bound_port(fd);
}

tmesh_status Udp::send(std::span<const uint8_t> data) {
  return UdpGlue::send(*node_, nullptr, data);
}

tmesh_status Udp::send_to(const UdpAddress& to, std::span<const uint8_t> data) {
  const sockaddr_storage address = sockaddr_of(to);
  return UdpGlue::send(*node_, reinterpret_cast<const sockaddr*>(&address), data);
}

}  // namespace tmesh::net
