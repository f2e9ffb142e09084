#include "cpp/agent/udp_target.hpp"

#include <utility>

#include "core/mux/datagram.h"

namespace tmesh::agent {

UdpTarget::UdpTarget(Timers& timers, tmesh_stream* stream, Done done, uint64_t& total_dropped_count)
    : timers_(timers),
      stream_(stream),
      done_(done),
      moved_us_(timers.now_us()),
      total_dropped_count_(total_dropped_count) {}

UdpTarget::~UdpTarget() {
  if (has_stream_) tmesh_stream_release(stream_);
}

Result<std::unique_ptr<UdpTarget>> UdpTarget::create(net::Loop& loop, Timers& timers, int fd,
                                                     tmesh_stream* stream, Done done,
                                                     uint64_t& total_dropped_count) {
  std::unique_ptr<UdpTarget> target(new UdpTarget(timers, stream, done, total_dropped_count));
  auto socket = net::Udp::adopt(loop, fd, *target);
  if (!socket) return std::unexpected(socket.error());
  target->socket_ = std::move(*socket);
  target->has_stream_ = true;
  tmesh_stream_attach(stream, target.get(), &on_stream_event);
  target->arm(kIdle_us);
  return target;
}

void UdpTarget::on_datagram(std::span<const uint8_t> data, const net::UdpAddress&) {
  received_count_++;
  moved_us_ = timers_.now_us();
  if (!tmesh_is_ok(tmesh_stream_send_datagram(stream_, data.data(), data.size()))) drop();
}

void UdpTarget::on_error(tmesh_status) {
  drop();
}

void UdpTarget::drop() {
  dropped_count_++;
  total_dropped_count_++;
}

void UdpTarget::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<UdpTarget*>(user);
  if ((events & TMESH_STREAM_EV_OVER) != 0) return self->done_();
  if (tmesh_stream_is_done(stream) && tmesh_stream_all_written(stream)) return self->done_();
  self->pump();
}

// From the stream to the socket.
void UdpTarget::pump() {
  const auto room = net::datagram_scratch();
  std::size_t len = 0;
  for (std::size_t n = 0; tmesh_stream_peek_datagram(stream_, room.data(), room.size(), &len); n++) {
    if (n == kTurnMax) {
      turn_ = timers_.after(0, Delegate<void()>::bind<&UdpTarget::pump>(this));
      return;
    }
    const tmesh_status st = socket_.send(room.first(len));
    if (st.code == TMESH_E_AGAIN) return;
    if (tmesh_is_ok(st)) {
      sent_count_++;
    } else {
      drop();
    }
    tmesh_stream_take_datagram(stream_);
    moved_us_ = timers_.now_us();
  }
  if (stream_->in_eof) tmesh_stream_finish(stream_);
}

void UdpTarget::arm(uint64_t delay_us) {
  idle_ = timers_.after(delay_us, Delegate<void()>::bind<&UdpTarget::on_idle>(this));
}

void UdpTarget::on_idle() {
  const uint64_t silent_us = timers_.now_us() - moved_us_;
  if (silent_us < kIdle_us) return arm(kIdle_us - silent_us);
  done_();
}

}  // namespace tmesh::agent
