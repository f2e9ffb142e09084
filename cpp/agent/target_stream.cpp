#include "cpp/agent/target_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "cpp/agent/dial_error.hpp"
#include "cpp/base/log.hpp"

namespace tmesh::agent {

TargetStream::TargetStream(const TargetContext& context, tmesh_stream* stream, Ticket claim, Over over)
    : claim_(std::move(claim)), context_(context), stream_(stream), over_(over) {
  tmesh_stream_attach(stream_, this, &on_stream_event);
}

TargetStream::~TargetStream() {
  dial_.cancel();
  if (stream_ != nullptr) tmesh_stream_release(stream_);
}

void TargetStream::start(DialExecutor& executor, const tmesh_open_stream& open) {
  executor_ = &executor;
  started_us_ = context_.timers.now_us();
  // "http" is a TCP stream to the agent, inside TLS when the target's scheme is https.
  is_datagram_ = open.protocol == TMESH_OPEN_UDP;
  const bool is_dialable =
      open.protocol == TMESH_OPEN_TCP || open.protocol == TMESH_OPEN_HTTP || is_datagram_;
  if (!is_dialable || (open.is_target_https && tls_context() == nullptr)) {
    return refuse(tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY, false));
  }
  if (open.is_target_https) {
    tls_ = std::make_unique<Tls>();
    tls_->server_name = open.tls_server_name[0] != '\0' ? open.tls_server_name : open.target_host;
  }
  auto dial = executor.submit(open.target_host, open.target_port,
                              DialExecutor::Done::bind<&TargetStream::on_dialed>(this), is_datagram_);
  if (!dial) return refuse(tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true));
  dial_ = std::move(*dial);
}

void TargetStream::on_dialed(const DialOutcome& outcome) {
  dial_.release();
  context_.samples.dial_waited(outcome.queue_us);
  if (!outcome.result.accepted) return refuse(outcome.result);
  if (is_datagram_) return start_datagrams(outcome.fd);
  if (tls_ != nullptr) return start_tls(outcome.fd);
  auto tcp = net::Tcp::open(context_.loop, outcome.fd, silent_);
  if (!tcp) return refuse(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_INTERNAL_ERROR, true));
  start_flow<session::TcpFlow>(std::move(*tcp));
}

// --- datagrams -----------------------------------------------------------------------

void TargetStream::start_datagrams(int fd) {
  auto made = UdpTarget::create(context_.loop, context_.timers, fd, stream_,
                                UdpTarget::Done::bind<&TargetStream::on_datagrams_done>(this),
                                context_.datagrams_dropped_count);
  if (!made) return refuse(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_INTERNAL_ERROR, true));
  datagrams_ = std::move(*made);
  context_.samples.open_ended(true, context_.timers.now_us() - started_us_);
  const tmesh_open_result accepted = tmesh_open_accept();
  tmesh_stream_answer(std::exchange(stream_, nullptr), &accepted);
  datagrams_->start();
}

void TargetStream::on_datagrams_done() {
  log::debug("datagrams_done", {{"sent", datagrams_->sent_count()},
                                {"received", datagrams_->received_count()},
                                {"dropped", datagrams_->dropped_count()}});
  over_(*this);
}

// --- TLS towards the target ----------------------------------------------------------

void TargetStream::start_tls(int fd) {
  const net::TlsContext* const context = tls_context();
  if (context == nullptr) {
    ::close(fd);
    return refuse(tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY, false));
  }
  auto tls = net::TlsSocket::connect(context_.loop, fd, *context, tls_->server_name.c_str(),
                                     net::TlsSocket::Ready::bind<&TargetStream::on_tls_ready>(this));
  if (!tls) return refuse(open_result_of(tls.error().code, false));
  tls_->socket = std::move(*tls);
  const uint64_t spent_us = context_.timers.now_us() - started_us_;
  const uint64_t limit_us = context_.settings.open_timeout_us;
  const uint64_t left_us = limit_us - std::min(limit_us, spent_us);
  tls_->deadline =
      context_.timers.after(left_us, Delegate<void()>::bind<&TargetStream::on_tls_deadline>(this));
}

void TargetStream::on_tls_ready(tmesh_status status) {
  tls_->deadline.cancel();
  if (tmesh_is_ok(status)) {
    net::TlsSocket socket = std::move(tls_->socket);
    tls_.reset();
    return start_flow<session::TlsFlow>(std::move(socket));
  }
  log::debug("target_tls_failed", {{"reason", tmesh_code_name(status.code)}});
  refuse(open_result_of(status.code, false));
}

void TargetStream::on_tls_deadline() {
  tls_->deadline.release();
  refuse(open_result_of(TMESH_E_TIMEOUT, false));
}

// --- the flow ------------------------------------------------------------------------

template <class Flow, class Socket>
void TargetStream::start_flow(Socket socket) {
  context_.samples.open_ended(true, context_.timers.now_us() - started_us_);
  tmesh_stream* const stream = std::exchange(stream_, nullptr);
  Flow& flow = flow_.emplace<Flow>(std::move(socket), stream,
                                   Flow::Done::template bind<&TargetStream::on_flow_done>(this));
  flow.watch(Flow::Watch::template bind<&TargetStream::on_moment>(this));
  const tmesh_open_result accepted = tmesh_open_accept();
  tmesh_stream_answer(stream, &accepted);
  flow.start();
}

void TargetStream::on_moment(session::FlowMoment moment) {
  const uint64_t now_us = context_.timers.now_us();
  if (moment == session::FlowMoment::first_read) {
    first_byte_us_ = now_us;
    context_.samples.first_byte(now_us - started_us_);
  } else {
    context_.samples.first_sent(now_us - first_byte_us_);
  }
}

void TargetStream::refuse(const tmesh_open_result& result) {
  log::debug("open_refused",
             {{"stage", tmesh_open_stage_name(result.stage)}, {"code", tmesh_open_code_name(result.code)}});
  // What is not allowed or not understood says nothing about links or targets.
  const bool is_failure = result.stage != TMESH_STAGE_POLICY && result.stage != TMESH_STAGE_PROTOCOL;
  if (is_failure) context_.samples.open_ended(false, 0);
  tmesh_stream_answer(stream_, &result);
  over_(*this);
}

void TargetStream::on_flow_done(tmesh_status why) {
  const auto tell = [why](const auto& flow) {
    if constexpr (requires { flow.sent_bytes(); }) {
      log::debug("flow_done", {{"reason", tmesh_code_name(why.code)},
                               {"sent_bytes", flow.sent_bytes()},
                               {"received_bytes", flow.received_bytes()}});
    }
  };
  std::visit(tell, flow_);
  over_(*this);
}

void TargetStream::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  // READABLE: bytes of a legacy peer wait in the stream until the target is connected.
  if ((events & TMESH_STREAM_EV_OVER) == 0) return;
  auto* self = static_cast<TargetStream*>(user);
  // With the link every other stream goes too: the slot that this dial frees must not
  // start one that nobody waits for.
  if (stream->over.scope == TMESH_SCOPE_SESSION) self->executor_->stop();
  self->over_(*self);
}

}  // namespace tmesh::agent
