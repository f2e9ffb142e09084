#include "cpp/agent/target_stream.hpp"

#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh::agent {

TargetStream::TargetStream(net::Loop& loop, tmesh_stream* stream, Ticket claim, Over over)
    : claim_(std::move(claim)), loop_(loop), stream_(stream), over_(over) {
  tmesh_stream_attach(stream_, this, &on_stream_event);
}

TargetStream::~TargetStream() {
  dial_.cancel();
  if (stream_ != nullptr) tmesh_stream_release(stream_);
}

void TargetStream::start(DialExecutor& executor, const tmesh_open_stream& open) {
  executor_ = &executor;
  // "http" is a TCP stream to the agent; TLS towards the target comes with managed routes.
  const bool is_dialable = open.protocol == TMESH_OPEN_TCP || open.protocol == TMESH_OPEN_HTTP;
  if (!is_dialable || open.is_target_https) {
    return refuse(tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_UNSUPPORTED_CAPABILITY, false));
  }
  auto dial = executor.submit(open.target_host, open.target_port,
                              DialExecutor::Done::bind<&TargetStream::on_dialed>(this));
  if (!dial) return refuse(tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true));
  dial_ = std::move(*dial);
}

void TargetStream::on_dialed(const DialOutcome& outcome) {
  dial_.release();
  if (!outcome.result.accepted) return refuse(outcome.result);
  auto tcp = net::Tcp::open(loop_, outcome.fd, silent_);
  if (!tcp) return refuse(tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_INTERNAL_ERROR, true));
  tmesh_stream* const stream = std::exchange(stream_, nullptr);
  flow_.emplace(std::move(*tcp), stream, session::TcpFlow::Done::bind<&TargetStream::on_flow_done>(this));
  tmesh_stream_answer(stream, &outcome.result);
  flow_->start();
}

void TargetStream::refuse(const tmesh_open_result& result) {
  log::debug("open_refused",
             {{"stage", tmesh_open_stage_name(result.stage)}, {"code", tmesh_open_code_name(result.code)}});
  tmesh_stream_answer(stream_, &result);
  over_(*this);
}

void TargetStream::on_flow_done(tmesh_status why) {
  log::debug("flow_done", {{"reason", tmesh_code_name(why.code)},
                           {"sent_bytes", flow_->sent_bytes()},
                           {"received_bytes", flow_->received_bytes()}});
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
