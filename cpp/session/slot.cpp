#include "cpp/session/slot.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "cpp/base/log.hpp"

namespace tmesh::session {
namespace {

// One bad answer during a server's restart must not pin a client to legacy.
constexpr uint64_t kRenegotiateAfter_us = 300'000'000;
constexpr uint64_t kSweepEvery_us = 1'000'000;

}  // namespace

Slot::Slot(net::Loop& loop, Timers& timers, Dialer& dialer, const ServerEndpoint& endpoint, bool has_offer,
           uint32_t offered, uint32_t number, SlotRole& role)
    : loop_(loop),
      timers_(timers),
      has_offer_(has_offer),
      number_(number),
      role_(role),
      reconnector_(loop, timers, dialer, endpoint, has_offer, offered, *this) {}

Slot::~Slot() {
  if (current_ != nullptr) role_.on_session_over(*current_);
  for (const auto& session : draining_) role_.on_session_over(*session);
}

void Slot::drain(bool tells_peer) {
  is_stopping_ = true;
  is_rotating_ = false;
  reconnector_.stop();
  renegotiate_.cancel();
  if (current_ != nullptr && tells_peer) stop_opens(*current_);
}

void Slot::resume() {
  // An agent has told its server, which does not take it back.
  TMESH_ASSERT(has_offer_);
  if (!std::exchange(is_stopping_, false)) return;
  if (current_ != nullptr) current_->resume_opens();
  plan_renegotiation();
  reconnector_.resume(current_ != nullptr);
}

Session* Slot::session_of(const tmesh_mux* mux) {
  if (current_ != nullptr && current_->mux() == mux) return current_.get();
  for (const auto& session : draining_) {
    if (session->mux() == mux) return session.get();
  }
  return nullptr;
}

bool Slot::has_streams() {
  if (current_ != nullptr && current_->has_streams()) return true;
  return std::ranges::any_of(draining_, [](const auto& session) { return session->has_streams(); });
}

void Slot::rotate(const char* reason) {
  replace(reason, true);
}

void Slot::replace(const char* reason, bool is_used_up) {
  if (current_ == nullptr || is_rotating_ || is_stopping_) return;
  log::info("link_rotating", {{"slot", number_}, {"reason", reason}});
  is_rotating_ = true;
  reconnector_.renew(is_used_up);
}

// A second link beside it: what comes back to life meanwhile goes on until then.
void Slot::on_suspect(Session& session) {
  log::warn("link_suspect", {{"slot", number_}, {"streams", session.live_streams_count()}});
  if (&session == current_.get()) replace("suspect", false);
}

void Slot::doubt(const tmesh_mux* mux) {
  if (current_ != nullptr && current_->mux() == mux) current_->doubt();
}

void Slot::on_connected(Connected connected) {
  const tmesh_subprotocol chosen = connected.subprotocol;
  auto session = Session::open(loop_, std::move(connected.transport), true, role_.mux_config(chosen),
                               role_.life(), *this, connected.early);
  if (!session) {
    log::warn("link_failed", {{"slot", number_}, {"reason", tmesh_code_name(session.error().code)}});
    return reconnector_.link_ended();
  }
  if (current_ != nullptr) put_aside("rotated");
  current_ = std::move(*session);
  has_failed_ = false;
  links_count_++;
  up_since_us_ = timers_.now_us();
  subprotocol_ = chosen;
  connect_times_ = connected.times;
  log::info("link_up", {{"slot", number_}, {"sub_protocol", tmesh_subprotocol_name(chosen)}});
  plan_renegotiation();
  role_.on_session(*current_, chosen);
}

void Slot::plan_renegotiation() {
  if (!has_offer_ || current_ == nullptr || subprotocol_ != TMESH_SUBPROTOCOL_NONE) return;
  renegotiate_ = timers_.after(kRenegotiateAfter_us, Delegate<void()>::bind<&Slot::on_renegotiate>(this));
}

void Slot::on_connect_failed(const ConnectFailure& failure, uint64_t retry_us) {
  is_rotating_ = false;
  connect_times_ = failure.times;
  last_failure_ = {failure.stage, tmesh_code_name(failure.status.code), failure.text, failure.http_status,
                   timers_.now_us()};
  // The first of a series is a warning; the rest would only repeat it.
  const auto level = has_failed_ ? log::Level::debug : log::Level::warn;
  log::write(level, "connect_failed",
             {{"slot", number_},
              {"stage", failure.stage},
              {"reason", failure.text},
              {"http_status", failure.http_status},
              {"retry_us", retry_us}});
  // A refused offer: the attempt goes on without one.
  if (retry_us == 0) return;
  has_failed_ = true;
  role_.on_attempt_failed();
}

void Slot::on_open(Session& session, tmesh_stream* stream, const tmesh_open_stream& open) {
  role_.on_open(session, stream, open);
}

tmesh_status Slot::on_control(Session& session, const tmesh_frame_header& header,
                              std::span<const uint8_t> payload) {
  return role_.on_control(session, header, payload);
}

void Slot::on_goaway(Session& session) {
  if (&session != current_.get()) return;
  put_aside("goaway");
  reconnector_.renew(false);
}

void Slot::put_aside(const char* reason) {
  log::info("link_draining",
            {{"slot", number_}, {"reason", reason}, {"streams", current_->live_streams_count()}});
  renegotiate_.cancel();
  is_rotating_ = false;
  stop_opens(*current_);
  draining_.push_back(std::move(current_));
  if (draining_.size() > kDrainingMax) {
    Session& oldest = *draining_.front();
    log::warn("link_drain_cut", {{"slot", number_}, {"streams", oldest.live_streams_count()}});
    role_.on_session_over(oldest);
    draining_.pop_front();
  }
  if (!sweep_.active()) sweep_ = timers_.after(kSweepEvery_us, Delegate<void()>::bind<&Slot::sweep>(this));
}

// On a client's link only the client opens, and what deployed servers make of a GOAWAY
// from that side is unknown. An agent's server has to be told.
void Slot::stop_opens(Session& session) {
  if (has_offer_) {
    session.stop_opens();
  } else {
    session.goaway();
  }
}

void Slot::sweep() {
  draining_.remove_if([&](const auto& session) {
    if (session->has_streams()) return false;
    role_.on_session_over(*session);
    return true;
  });
  sweep_ = draining_.empty() ? Ticket()
                             : timers_.after(kSweepEvery_us, Delegate<void()>::bind<&Slot::sweep>(this));
}

void Slot::on_down(Session& session, tmesh_status why) {
  role_.on_session_over(session);
  if (why.code == TMESH_E_WINDOW_EXCEEDED) log_storm();
  if (&session != current_.get()) {
    draining_.remove_if([&](const auto& s) { return s.get() == &session; });
    return;
  }
  log::warn("link_down", {{"slot", number_}, {"reason", tmesh_code_name(why.code)}});
  renegotiate_.cancel();
  is_rotating_ = false;
  current_.reset();
  last_failure_ = {"link", tmesh_code_name(why.code), "", 0, timers_.now_us()};
  reconnector_.link_ended();
}

void Slot::log_storm() {
  const uint64_t now_us = timers_.now_us();
  if (storm_logged_us_ != 0 && now_us - storm_logged_us_ < kStormLogEvery_us) return;
  storm_logged_us_ = now_us;
  log::warn("window_violation_storm", {{"slot", number_}});
}

void Slot::on_worn_out(Session& session) {
  if (&session == current_.get()) rotate("tls_records");
}

SlotStatus Slot::status() const {
  SlotStatus status;
  status.number = number_;
  status.links_count = links_count_;
  status.connect_times = connect_times_;
  status.last_failure = last_failure_;
  status.draining_count = draining_.size();
  for (const auto& session : draining_) status.draining_streams_count += session->live_streams_count();
  if (current_ != nullptr) {
    status.subprotocol = subprotocol_;
    status.up_since_us = up_since_us_;
    status.rtt_us = current_->smoothed_rtt_us();
    status.streams_count = current_->live_streams_count();
    status.state = current_->is_suspect() ? SlotStatus::State::suspect : SlotStatus::State::up;
  }
  if (is_stopping_) status.state = SlotStatus::State::draining;
  return status;
}

const char* slot_state_name(SlotStatus::State state) {
  static constexpr const char* names[] = {"connecting", "up", "suspect", "draining"};
  return names[static_cast<std::size_t>(state)];
}

}  // namespace tmesh::session
