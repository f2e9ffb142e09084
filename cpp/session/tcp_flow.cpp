#include "cpp/session/tcp_flow.hpp"

#include <utility>

#include "core/base/pool.h"

namespace tmesh::session {
namespace {

constexpr int kSocket = 0;
constexpr int kStream = 1;

}  // namespace

TcpFlow::TcpFlow(net::Tcp tcp, tmesh_stream* stream, Done done)
    : tcp_(std::move(tcp)), stream_(stream), done_(done) {
  tcp_.set_handler(*this);
}

TcpFlow::~TcpFlow() {
  if (is_started_ && !is_done_) tmesh_splice_cancel(&splice_);
  tmesh_stream_release(stream_);
  // After a regular end the last bytes may still be on their way to the kernel.
  tcp_.close(is_done_ && tmesh_is_ok(status_));
}

void TcpFlow::start() {
  tmesh_splice_init(&splice_, tcp_.end(), tmesh_stream_end(stream_), this, &TcpFlow::on_splice_done);
  is_started_ = true;
  tmesh_stream_attach(stream_, this, &TcpFlow::on_stream_event);
  tcp_.read(TMESH_BLOCK_BYTES);
  if (!tmesh_is_ok(status_)) return tmesh_splice_broken(&splice_, kSocket, status_);
  tmesh_splice_start(&splice_);
}

void TcpFlow::on_readable() {
  if (is_started_) tmesh_splice_readable(&splice_, kSocket);
}

void TcpFlow::on_eof() {
  // Before start() the socket itself remembers it.
  if (is_started_) tmesh_splice_eof(&splice_, kSocket);
}

void TcpFlow::on_written(std::size_t n, bool is_all) {
  if (is_started_) tmesh_splice_written(&splice_, kSocket, n, is_all);
}

void TcpFlow::on_broken(tmesh_status why) {
  if (is_started_) return tmesh_splice_broken(&splice_, kSocket, why);
  status_ = why;
}

void TcpFlow::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<TcpFlow*>(user);
  tmesh_splice_stream_event(&self->splice_, kStream, stream, events);
}

void TcpFlow::on_splice_done(void* ctx, tmesh_splice*, tmesh_status why, int) {
  auto* self = static_cast<TcpFlow*>(ctx);
  self->is_done_ = true;
  self->status_ = why;
  self->done_(why);
}

}  // namespace tmesh::session
