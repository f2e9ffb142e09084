#include "cpp/session/session.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/cursor.h"
#include "core/proto/capability.h"
#include "core/wire/tls.h"

namespace tmesh::session {
namespace {

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
    : timers_(loop), handler_(handler), liveness_(life, loop.now_us()) {}

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

Liveness::Seen Session::seen() const {
  return {link_.last_read_us(), link_.bytes_in(), link_.bytes_out(), smoothed_rtt_us_};
}

void Session::expect_answer() {
  if (!is_up_) return;
  liveness_.expect_answer(timers_.now_us(), seen());
  arm();
}

void Session::doubt() {
  if (!is_up_) return;
  liveness_.doubt(timers_.now_us(), seen());
  arm();
}

void Session::measure_rtt() {
  if (!is_up_) return;
  liveness_.ping_now(timers_.now_us(), kMeasureEvery_us);
  arm();
}

void Session::use_extensions(uint32_t named_by_both, bool peer_is_ours) {
  if (std::exchange(is_extended_, true)) return;
  tmesh_mux_config& config = mux()->config;
  config.peer_is_ours = peer_is_ours;
  config.has_early_data = config.has_open_result && (named_by_both & TMESH_CAP_EARLY_DATA) != 0;
  config.has_window_growth = config.has_flow_control && (named_by_both & TMESH_CAP_WINDOW_GROWTH) != 0;
  if (config.has_window_growth) measure_rtt();
}

void Session::arm() {
  const uint64_t due_us = liveness_.due_us();
  if (due_us == timer_due_us_ || due_us == Liveness::kNever) return;
  timer_due_us_ = due_us;
  const uint64_t now_us = timers_.now_us();
  timer_ =
      timers_.after(due_us > now_us ? due_us - now_us : 0, Delegate<void()>::bind<&Session::on_timer>(this));
}

void Session::on_timer() {
  timer_.release();
  timer_due_us_ = Liveness::kNever;
  const uint64_t now_us = timers_.now_us();
  const Liveness::Verdict verdict = liveness_.judge(now_us, seen());
  if (verdict.is_dead) return link_.fail(tmesh_err_session(TMESH_E_TIMEOUT));
  if (verdict.wants_probe) link_.ws_ping();
  if (verdict.wants_ping) send_ping(now_us, true);
  tmesh_mux_reset_stalled(link_.mux(), now_us, TMESH_STALLED_LIMIT_US);
  if (link_.tls() != nullptr && tmesh_tls_records(link_.tls()) > TMESH_TLS_RECORDS_MAX)
    handler_.on_worn_out(*this);
  if (verdict.is_suspect_now) handler_.on_suspect(*this);
  arm();
}

void Session::ping() {
  if (is_up_ && ping_sent_us_ == 0) send_ping(timers_.now_us(), false);
}

void Session::send_ping(uint64_t now_us, bool is_sample) {
  ping_id_++;
  ping_sent_us_ = now_us;
  is_ping_sample_ = is_sample;
  send(TMESH_FRAME_PING, encode_id(ping_id_));
}

void Session::on_pong(std::span<const uint8_t> payload) {
  if (ping_sent_us_ == 0 || payload.size() != 8 || decode_id(payload) != ping_id_) return;
  rtt_us_ = std::max<uint64_t>(timers_.now_us() - std::exchange(ping_sent_us_, 0), 1);
  smoothed_rtt_us_ = smoothed_rtt_us_ == 0 ? rtt_us_ : (smoothed_rtt_us_ * 7 + rtt_us_) / 8;
  // Samples are far apart: many PINGs of one burst of bulk must not make up the lowest.
  if (!is_ping_sample_) return;
  rtts_us_[rtt_next_++ % kRttSamples] = rtt_us_;
  tmesh_mux_set_rtt(link_.mux(), lowest_rtt_us());
}

uint64_t Session::lowest_rtt_us() const {
  uint64_t lowest_us = 0;
  for (const uint64_t rtt_us : rtts_us_) {
    if (rtt_us != 0 && (lowest_us == 0 || rtt_us < lowest_us)) lowest_us = rtt_us;
  }
  return lowest_us;
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
