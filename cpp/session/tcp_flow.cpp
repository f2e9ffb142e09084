#include "cpp/session/tcp_flow.hpp"

#include <utility>

#include "core/base/pool.h"

namespace tmesh::session {
namespace {

constexpr int kSocket = 0;
constexpr int kStream = 1;

}  // namespace

template <class Socket>
SocketFlow<Socket>::SocketFlow(Socket socket, tmesh_stream* stream, Done done)
    : socket_(std::move(socket)), stream_(stream), done_(done) {
  socket_.set_handler(*this);
}

template <class Socket>
SocketFlow<Socket>::~SocketFlow() {
  if (is_started_ && !is_done_) tmesh_splice_cancel(&splice_);
  tmesh_stream_release(stream_);
  // After a regular end the last bytes may still be on their way to the kernel.
  socket_.close(is_done_ && tmesh_is_ok(status_));
}

template <class Socket>
void SocketFlow<Socket>::start() {
  tmesh_splice_init(&splice_, socket_.end(), tmesh_stream_end(stream_), this, &SocketFlow::on_splice_done);
  is_started_ = true;
  tmesh_stream_attach(stream_, this, &SocketFlow::on_stream_event);
  socket_.read(TMESH_BLOCK_BYTES);
  if (!tmesh_is_ok(status_)) return tmesh_splice_broken(&splice_, kSocket, status_);
  tmesh_splice_start(&splice_);
}

template <class Socket>
void SocketFlow<Socket>::tell(FlowMoment moment) {
  if (!watch_) return;
  const Watch watcher = watch_;
  if (moment == FlowMoment::first_sent) watch_ = {};
  watcher(moment);
}

template <class Socket>
void SocketFlow<Socket>::on_readable() {
  if (!is_started_) return;
  if (!std::exchange(has_read_, true)) tell(FlowMoment::first_read);
  tmesh_splice_readable(&splice_, kSocket);
}

template <class Socket>
void SocketFlow<Socket>::on_eof() {
  // Before start() the socket itself remembers it.
  if (is_started_) tmesh_splice_eof(&splice_, kSocket);
}

template <class Socket>
void SocketFlow<Socket>::on_written(std::size_t n, bool is_all) {
  if (is_started_) tmesh_splice_written(&splice_, kSocket, n, is_all);
}

template <class Socket>
void SocketFlow<Socket>::on_broken(tmesh_status why) {
  if (is_started_) return tmesh_splice_broken(&splice_, kSocket, why);
  status_ = why;
}

template <class Socket>
void SocketFlow<Socket>::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<SocketFlow*>(user);
  const bool is_sent = (events & TMESH_STREAM_EV_WRITTEN) != 0 && stream->written_bytes > 0;
  if (is_sent && self->has_read_) self->tell(FlowMoment::first_sent);
  tmesh_splice_stream_event(&self->splice_, kStream, stream, events);
}

template <class Socket>
void SocketFlow<Socket>::on_splice_done(void* ctx, tmesh_splice*, tmesh_status why, int) {
  auto* self = static_cast<SocketFlow*>(ctx);
  self->is_done_ = true;
  self->status_ = why;
  self->done_(why);
}

template class SocketFlow<net::Tcp>;
template class SocketFlow<net::TlsSocket>;

}  // namespace tmesh::session
