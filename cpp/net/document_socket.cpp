#include "cpp/net/document_socket.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <list>
#include <utility>

#include "core/loop/loop.h"
#include "cpp/net/handle.hpp"
#include "cpp/net/unix_socket.hpp"

namespace tmesh::net {
namespace {

// When there is no descriptor for a newcomer, or the table of the loop is full.
constexpr uint64_t kRest_us = 1'000'000;

}  // namespace

struct DocumentSocket::Impl {
  struct Connection {
    Connection(Impl& owner_impl, int descriptor) : owner(owner_impl), fd(descriptor) {}
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;
    ~Connection() {
      poll.reset();
      ::close(fd);
    }
    void on_timeout() { owner.remove(*this); }

    Impl& owner;
    const int fd;
    std::string document;
    std::size_t sent_bytes = 0;
    Ticket timeout;
    Handle<uv_poll_t> poll;
    std::list<std::unique_ptr<Connection>>::iterator place;
  };

  Impl(Loop& the_loop, int descriptor, const std::string& path, Document the_document,
       uint64_t the_timeout_us)
      : loop(the_loop), fd(descriptor), file(path), document(the_document), timeout_us(the_timeout_us) {}
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;
  ~Impl() {
    connections.clear();
    poll.reset();
    ::close(fd);
  }

  int watch(Handle<uv_poll_t>& handle, int descriptor, void* owner, int events, uv_poll_cb callback) {
    const int rc = handle.open(&loop.raw()->uv, [descriptor](uv_loop_t* uv, uv_poll_t* made) {
      return uv_poll_init(uv, made, descriptor);
    });
    if (rc != 0) return rc;
    handle.set_owner(owner);
    return uv_poll_start(handle.get(), events, callback);
  }
  bool listen() {
    const auto on_readable = [](uv_poll_t* uv, int, int) {
      if (auto* self = Handle<uv_poll_t>::owner_of<Impl>(uv)) self->accept();
    };
    if (watch(poll, fd, this, UV_READABLE, on_readable) != 0) return false;
    uv_unref(reinterpret_cast<uv_handle_t*>(poll.get()));  // no reason for the program to go on
    return true;
  }
  void listen_again() {
    rest.release();
    if (!listen()) rest_a_while();
  }
  void rest_a_while() {
    poll.reset();
    rest = loop.after(kRest_us, Delegate<void()>::bind<&Impl::listen_again>(this));
  }

  void accept() {
    for (std::size_t n = 0; n < kConnectionsMax; n++) {
      const int accepted = ::accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (accepted < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) rest_a_while();
        return;
      }
      answer(accepted);
    }
  }

  void answer(int accepted) {
    auto made = std::make_unique<Connection>(*this, accepted);
    const auto user = peer_user(accepted);
    if (!user || (*user != ::geteuid() && *user != 0)) return;
    if (connections.size() >= kConnectionsMax) return;
    made->document = document();
    connections.push_back(std::move(made));
    Connection& connection = *connections.back();
    connection.place = std::prev(connections.end());
    if (!write(connection)) return remove(connection);
    const auto on_writable = [](uv_poll_t* uv, int, int) {
      auto* self = Handle<uv_poll_t>::owner_of<Connection>(uv);
      if (self != nullptr && !self->owner.write(*self)) self->owner.remove(*self);
    };
    if (watch(connection.poll, accepted, &connection, UV_WRITABLE, on_writable) != 0)
      return remove(connection);
    connection.timeout = loop.after(timeout_us, Delegate<void()>::bind<&Connection::on_timeout>(&connection));
  }

  // False when nothing is left to do: all is written, or the other side is gone.
  static bool write(Connection& connection) {
    while (connection.sent_bytes < connection.document.size()) {
      const ssize_t n = ::send(connection.fd, connection.document.data() + connection.sent_bytes,
                               connection.document.size() - connection.sent_bytes, MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
      connection.sent_bytes += static_cast<std::size_t>(n);
    }
    return false;
  }

  void remove(Connection& connection) { connections.erase(connection.place); }

  Loop& loop;
  const int fd;
  UnixSocketFile file;
  const Document document;
  const uint64_t timeout_us;
  Ticket rest;
  std::list<std::unique_ptr<Connection>> connections;
  Handle<uv_poll_t> poll;
};

Result<std::unique_ptr<DocumentSocket>> DocumentSocket::open(Loop& loop, const std::string& path,
                                                             Document document, uint64_t timeout_us) {
  const Result<int> fd = listen_unix(path, 0600);
  if (!fd) return std::unexpected(fd.error());
  auto impl = std::make_unique<Impl>(loop, *fd, path, document, timeout_us);
  if (!impl->listen()) return fail(TMESH_E_IO, "cannot watch the socket");
  return std::unique_ptr<DocumentSocket>(new DocumentSocket(std::move(impl)));
}

DocumentSocket::DocumentSocket(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

DocumentSocket::~DocumentSocket() = default;

const std::string& DocumentSocket::path() const {
  return impl_->file.path();
}

std::size_t DocumentSocket::connections_count() const {
  return impl_->connections.size();
}

}  // namespace tmesh::net
