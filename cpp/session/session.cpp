#include "cpp/session/session.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/cursor.h"
#include "core/wire/tls.h"

namespace tmesh::session {
namespace {

constexpr uint64_t kNever = UINT64_MAX;

std::array<uint8_t, 8> encode_id(uint64_t id) {
  std::array<uint8_t, 8> out;
  tmesh_writer w = tmesh_writer_init(out.data(), out.size());
  tmesh_writer_u32(&w, static_cast<uint32_t>(id >> 32));
  tmesh_writer_u32(&w, static_cast<uint32_t>(id));
  return out;
}

uint64_t decode_id(std::span<const uint8_t> payload) {
  tmesh_reader r = tmesh_reader_init(payload.data(), payload.size());
  const uint64_t high = tmesh_reader_u32(&r);
  return (high << 32) | tmesh_reader_u32(&r);
}

}  // namespace

Session::Session(net::Loop& loop, const SessionLife& life, SessionHandler& handler)
    : timers_(loop), life_(life), handler_(handler), ping_due_us_(loop.now_us() + life.ping_interval_us) {}

Result<std::unique_ptr<Session>> Session::open(net::Loop& loop, net::Transport transport, bool is_client,
                                               const tmesh_mux_config& config, const SessionLife& life,
                                               SessionHandler& handler, std::span<const uint8_t> early) {
  std::unique_ptr<Session> session(new Session(loop, life, handler));
  auto link = net::Link::open(loop, std::move(transport), is_client, config, *session, early);
  if (!link) return std::unexpected(link.error());
  session->link_ = std::move(*link);
  session->arm();
  return session;
}

Session::~Session() = default;

void Session::send(uint8_t frame_type, std::span<const uint8_t> payload) {
  if (!is_up_) return;
  const tmesh_status st = tmesh_mux_control(link_.mux(), frame_type, payload.data(), payload.size());
  if (!tmesh_is_ok(st)) {
    link_.fail(st);
    return;
  }
  link_.kick();
}

void Session::goaway() {
  if (is_draining_ || !is_up_) return;
  send(TMESH_FRAME_GOAWAY, {});
  is_draining_ = true;
}

void Session::arm() {
  const uint64_t now = timers_.now_us();
  const uint64_t read = link_.last_read_us();
  uint64_t due = kNever;
  if (life_.ping_interval_us != 0) due = std::min(due, ping_due_us_);
  if (life_.silence_ping_us != 0) {
    // Pinged already: nothing tells of a byte that ends this silence, so look again.
    due = std::min(due, (silence_pinged_us_ == read ? now : read) + life_.silence_ping_us);
  }
  if (life_.silence_dead_us != 0) due = std::min(due, read + life_.silence_dead_us);
  if (due == kNever) return;
  timer_ = timers_.after(due > now ? due - now : 0, Delegate<void()>::bind<&Session::on_timer>(this));
}

void Session::on_timer() {
  const uint64_t now = timers_.now_us();
  const uint64_t read = link_.last_read_us();
  const uint64_t silent_us = now > read ? now - read : 0;
  if (life_.silence_dead_us != 0 && silent_us >= life_.silence_dead_us) {
    link_.fail(tmesh_err_session(TMESH_E_TIMEOUT));
    return;
  }
  if (life_.silence_ping_us != 0 && silent_us >= life_.silence_ping_us && silence_pinged_us_ != read) {
    silence_pinged_us_ = read;
    link_.ws_ping();
  }
  if (life_.ping_interval_us != 0 && now >= ping_due_us_) send_ping(now);
  tmesh_mux_reset_stalled(link_.mux(), now, TMESH_STALLED_LIMIT_US);
  if (link_.tls() != nullptr && tmesh_tls_records(link_.tls()) > TMESH_TLS_RECORDS_MAX)
    handler_.on_worn_out(*this);
  arm();
}

void Session::send_ping(uint64_t now_us) {
  // From now, not from the last due time: after a suspend one PING is enough.
  ping_due_us_ = now_us + life_.ping_interval_us;
  ping_id_++;
  ping_sent_us_ = now_us;
  send(TMESH_FRAME_PING, encode_id(ping_id_));
}

void Session::on_pong(std::span<const uint8_t> payload) {
  if (ping_sent_us_ == 0 || payload.size() != 8 || decode_id(payload) != ping_id_) return;
  rtt_us_ = std::max<uint64_t>(timers_.now_us() - std::exchange(ping_sent_us_, 0), 1);
  smoothed_rtt_us_ = smoothed_rtt_us_ == 0 ? rtt_us_ : (smoothed_rtt_us_ * 7 + rtt_us_) / 8;
}

void Session::on_down(tmesh_status why) {
  is_up_ = false;
  timer_.cancel();
  handler_.on_down(*this, why);
}

void Session::on_open(tmesh_stream* stream, const tmesh_open_stream& open) {
  handler_.on_open(*this, stream, open);
}

tmesh_status Session::on_control(const tmesh_frame_header& header, std::span<const uint8_t> payload) {
  return handler_.on_control(*this, header, payload);
}

void Session::on_goaway() {
  is_draining_ = true;
  handler_.on_goaway(*this);
}

}  // namespace tmesh::session
