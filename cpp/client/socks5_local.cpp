#include "cpp/client/socks5_local.hpp"

#include <array>
#include <utility>

#include "core/base/chunkq.h"
#include "cpp/base/log.hpp"

namespace tmesh::client {
namespace {

// A handshake is at most a few hundred bytes; what follows it is early data of the
// browser, of which this much waits while the open is under way.
constexpr std::size_t kOpeningReadMax_bytes = 16'384;

}  // namespace

Socks5Local::Socks5Local(Socks5Entry& entry)
    : entry_(entry),
      handshake_(
          std::make_unique<Socks5Handshake>(entry.options_.has_login ? &entry.options_.login : nullptr)) {}

Socks5Local::~Socks5Local() {
  drop_stream();
}

bool Socks5Local::start(int fd) {
  auto tcp = net::Tcp::open(entry_.loop_, fd, *this);
  if (!tcp) return false;
  tcp_ = std::move(*tcp);
  timeout_ = entry_.loop_.after(entry_.options_.handshake_timeout_us,
                                Delegate<void()>::bind<&Socks5Local::on_timeout>(this));
  tcp_.read(kOpeningReadMax_bytes);
  return true;
}

void Socks5Local::on_readable() {
  // In `opening` the bytes wait in the socket's queue for the flow.
  while (phase_ == Phase::handshake) {
    tmesh_span span{};
    if (tmesh_chunkq_peek(tcp_.in(), &span, 1) == 0) return;
    const std::size_t used = handshake_->feed({span.data, span.len_bytes});
    tmesh_chunkq_consume(tcp_.in(), used);
    if (!send_reply()) return entry_.remove(*this);
    if (handshake_->state() == Socks5Handshake::State::failed) return end();
    if (handshake_->state() == Socks5Handshake::State::ready) return open();
  }
}

bool Socks5Local::send_reply() {
  const auto reply = handshake_->reply();
  if (reply.empty()) return true;
  const tmesh_status st = tcp_.send(reply);
  handshake_->reply_sent();
  return tmesh_is_ok(st);
}

void Socks5Local::open() {
  auto opened = entry_.opener_.open_tcp(entry_.options_.agent_id, handshake_->host(), handshake_->port(),
                                        allows_strict_);
  if (!opened) {
    if (opened.error().code != TMESH_E_CLOSED) return refuse(socks5_reply(TMESH_OPEN_INTERNAL_ERROR));
    // No ready link is "agent unavailable"; the rest are limits of our own.
    if (!wait_for_link()) refuse(socks5_reply(TMESH_OPEN_AGENT_OFFLINE));
    return;
  }
  phase_ = Phase::opening;
  stream_ = opened->stream;
  tmesh_stream_attach(stream_, this, &Socks5Local::on_stream_event);
  if (!opened->is_strict) return succeed();
  timeout_ = entry_.loop_.after(entry_.options_.open_timeout_us,
                                Delegate<void()>::bind<&Socks5Local::on_timeout>(this));
}

// A server that restarts sends its links away; what is opened until the next one is there
// shall not fail for it (LESSONS P-E11).
bool Socks5Local::wait_for_link() {
  if (std::exchange(was_waiting_, true)) return false;
  link_ = entry_.opener_.await_link(entry_.options_.agent_id,
                                    Delegate<void()>::bind<&Socks5Local::on_link>(this));
  if (!link_.active()) return false;
  phase_ = Phase::opening;
  timeout_ = entry_.loop_.after(entry_.options_.link_wait_us,
                                Delegate<void()>::bind<&Socks5Local::on_timeout>(this));
  return true;
}

void Socks5Local::on_link() {
  link_.release();
  timeout_.cancel();
  open();
}

void Socks5Local::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<Socks5Local*>(user);
  if ((events & TMESH_STREAM_EV_OVER) != 0) {
    // The link went, or the server reset the stream: instead of an answer, or with it.
    return self->refuse(stream->over.scope == TMESH_SCOPE_SESSION ? socks5_reply(TMESH_OPEN_AGENT_OFFLINE)
                                                                  : kReplyGeneralFailure);
  }
  if ((events & TMESH_STREAM_EV_RESULT) != 0) self->on_result(stream->result);
}

void Socks5Local::on_result(const tmesh_open_result& result) {
  if (result.accepted) return succeed();
  if (result.code == TMESH_OPEN_UNSUPPORTED_CAPABILITY && std::exchange(allows_strict_, false)) {
    // Requirement B4: once more, on a new stream, without STRICT_OPEN.
    drop_stream();
    const auto level = std::exchange(entry_.is_legacy_logged_, true) ? log::Level::debug : log::Level::info;
    log::write(level, "open_repeated", {{"entry", entry_.options_.name}, {"open_mode", "legacy"}});
    return open();
  }
  log::debug("open_refused", {{"entry", entry_.options_.name},
                              {"stage", tmesh_open_stage_name(result.stage)},
                              {"code", tmesh_open_code_name(result.code)}});
  refuse(socks5_reply(result.code));
}

void Socks5Local::succeed() {
  timeout_.cancel();
  if (!tmesh_is_ok(tcp_.send(Socks5Handshake::final_reply(kReplySucceeded)))) return entry_.remove(*this);
  phase_ = Phase::flowing;
  handshake_.reset();
  flow_.emplace(std::move(tcp_), std::exchange(stream_, nullptr),
                Delegate<void(tmesh_status)>::bind<&Socks5Local::on_flow_done>(this));
  flow_->start();
}

void Socks5Local::on_flow_done(tmesh_status why) {
  log::debug("flow_done", {{"entry", entry_.options_.name},
                           {"reason", tmesh_code_name(why.code)},
                           {"sent_bytes", flow_->sent_bytes()},
                           {"received_bytes", flow_->received_bytes()}});
  entry_.remove(*this);
}

void Socks5Local::refuse(Socks5Reply reply) {
  timeout_.cancel();
  link_.cancel();
  drop_stream();
  if (!tmesh_is_ok(tcp_.send(Socks5Handshake::final_reply(reply)))) return entry_.remove(*this);
  end();
}

void Socks5Local::end() {
  tcp_.close(true);
  entry_.remove(*this);
}

void Socks5Local::drop_stream() {
  if (stream_ != nullptr) tmesh_stream_release(std::exchange(stream_, nullptr));
}

void Socks5Local::on_timeout() {
  if (link_.active()) {
    // A link that was only silent for a while may have come back; nobody is woken for that.
    link_.cancel();
    return open();
  }
  if (phase_ == Phase::opening) {
    entry_.opener_.open_timed_out(entry_.options_.agent_id, *stream_);
    return refuse(socks5_reply(TMESH_OPEN_TIMEOUT));
  }
  log::debug("handshake_timeout", {{"entry", entry_.options_.name}});
  entry_.remove(*this);
}

void Socks5Local::on_eof() {
  // Half a handshake can never be completed; a client that has sent its request and
  // its data may already be done sending, which the flow finds in the socket.
  if (phase_ == Phase::handshake) end();
}

void Socks5Local::on_written(std::size_t, bool) {}

void Socks5Local::on_broken(tmesh_status) {
  entry_.remove(*this);
}

}  // namespace tmesh::client
