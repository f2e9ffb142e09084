#include "cpp/client/opening.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/proto/limits.h"
#include "cpp/base/log.hpp"

namespace tmesh::client {

Opening::Opening(StreamOpener& opener, OpenValidator* validator, Timers& timers, OpeningSettings& settings,
                 Done done)
    : opener_(opener), validator_(validator), timers_(timers), settings_(settings), done_(done) {}

Opening::~Opening() {
  silence_.cancel();
  drop(stream_);
  drop(hedge_);
}

void Opening::drop(tmesh_stream*& stream) {
  if (stream != nullptr) tmesh_stream_release(std::exchange(stream, nullptr));
}

void Opening::attach(tmesh_stream* stream) {
  tmesh_stream_attach(stream, this, &Opening::on_stream_event);
}

void Opening::leave_race(tmesh_stream* loser) {
  if (loser == stream_) {
    std::swap(stream_, hedge_);
    is_on_second_ = true;
  }
  drop(hedge_);
}

OpenRequest Opening::request() const {
  OpenRequest out;
  out.agent_id = settings_.agent_id;
  out.protocol = protocol_;
  out.host = host_;
  out.port = port_;
  out.is_target_https = is_target_https_;
  out.host_header = host_header_;
  out.tls_server_name = tls_server_name_;
  return out;
}

void Opening::start(const OpenRequest& request, const ShownLogin& login) {
  protocol_ = request.protocol;
  host_ = request.host;
  port_ = request.port;
  is_target_https_ = request.is_target_https;
  host_header_ = request.host_header;
  tls_server_name_ = request.tls_server_name;
  if (settings_.auth_url.empty()) return open();
  // An open that nobody was asked about is the last thing to happen by mistake.
  TMESH_ASSERT(validator_ != nullptr);
  ValidationRequest question;
  question.url = settings_.auth_url;
  question.protocol = settings_.protocol_name;
  question.agent_id = settings_.agent_id;
  question.target_host = host_;
  question.target_port = port_;
  question.username = login.username;
  question.password = login.password;
  phase_ = Phase::validating;
  step_ = validator_->validate(question, Delegate<void(bool)>::bind<&Opening::on_validated>(this));
  if (!step_.active()) open();
}

void Opening::on_validated(bool is_allowed) {
  step_.release();
  if (!is_allowed) return refuse(TMESH_STAGE_AUTHORIZATION, TMESH_OPEN_FORBIDDEN, false);
  open();
}

void Opening::open() {
  timeout_.cancel();
  auto opened = opener_.open(request(), allows_strict_);
  if (!opened) {
    if (opened.error().code != TMESH_E_CLOSED) {
      return refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_INTERNAL_ERROR, false);
    }
    // No ready link is "agent unavailable"; the rest are limits of our own.
    if (!wait_for_link()) refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
    return;
  }
  begin(*opened);
}

void Opening::begin(const OpenedStream& opened) {
  phase_ = Phase::opening;
  stream_ = opened.stream;
  is_on_second_ = false;
  early_written_bytes_ = 0;
  attach(stream_);
  if (!opened.is_strict) return succeed();
  if (!write_early()) return refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_INTERNAL_ERROR, true);
  // One that is repeated has what is left of its time.
  if (!timeout_.active()) {
    timeout_ = timers_.after(settings_.open_timeout_us, Delegate<void()>::bind<&Opening::on_timeout>(this));
  }
  // The target may see early bytes: it must not see them twice.
  if (early_written_bytes_ > 0) return;
  silence_ =
      opener_.await_silence(settings_.agent_id, *stream_, Delegate<void()>::bind<&Opening::on_silence>(this));
}

// A server that restarts sends its links away; what is opened until the next one is there
// shall not fail for it (LESSONS P-E11).
bool Opening::wait_for_link() {
  if (std::exchange(was_waiting_, true)) return false;
  step_ = opener_.await_link(settings_.agent_id, Delegate<void()>::bind<&Opening::on_link>(this));
  if (!step_.active()) return false;
  phase_ = Phase::waiting;
  timeout_ = timers_.after(settings_.link_wait_us, Delegate<void()>::bind<&Opening::on_link_timeout>(this));
  return true;
}

void Opening::on_link() {
  step_.release();
  open();
}

// A link that was only silent for a while may have come back; nobody is woken for that.
void Opening::on_link_timeout() {
  step_.cancel();
  open();
}

void Opening::on_timeout() {
  silence_.cancel();
  opener_.open_timed_out(settings_.agent_id, *stream_);
  if (hedge_ != nullptr) opener_.open_timed_out(settings_.agent_id, *hedge_);
  refuse(TMESH_STAGE_RELAY, TMESH_OPEN_TIMEOUT, true);
}

void Opening::on_silence() {
  silence_.release();
  auto opened = opener_.open(request(), true, stream_->mux);
  if (!opened) return;
  hedge_ = opened->stream;
  // One that cannot be answered is no hedge.
  if (!opened->is_strict) return drop(hedge_);
  attach(hedge_);
  is_hedged_ = true;
}

void Opening::on_stream_event(void* user, tmesh_stream* stream, unsigned events) {
  auto* self = static_cast<Opening*>(user);
  if ((events & TMESH_STREAM_EV_OVER) != 0) return self->on_over(stream);
  if ((events & TMESH_STREAM_EV_RESULT) != 0) self->on_result(stream, stream->result);
}

// The link went, or the server reset the stream: instead of an answer, or with it.
void Opening::on_over(tmesh_stream* stream) {
  if (hedge_ != nullptr) return leave_race(stream);
  if (stream->over.scope != TMESH_SCOPE_SESSION)
    return refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR, false);
  if (!repeat()) refuse(TMESH_STAGE_SELECTION, TMESH_OPEN_AGENT_OFFLINE, true);
}

// Its link went before any answer: as harmless as a hedge, and under the same condition. Once, in
// case it was this open that ended the link.
bool Opening::repeat() {
  if (early_written_bytes_ > 0 || std::exchange(was_repeated_, true)) return false;
  const auto opened = opener_.open(request(), allows_strict_);
  if (!opened) return false;
  log::debug("open_repeated", {{"entry", settings_.entry}, {"reason", "link_down"}});
  silence_.cancel();
  drop(stream_);
  is_hedged_ = false;
  begin(*opened);
  return true;
}

void Opening::on_result(tmesh_stream* stream, const tmesh_open_result& result) {
  silence_.cancel();
  if (hedge_ != nullptr) {
    // Where another try may do better, the one that runs is waited for.
    const bool is_last_word =
        result.accepted || !result.retryable || result.code == TMESH_OPEN_UNSUPPORTED_CAPABILITY;
    tmesh_stream* const other = stream == stream_ ? hedge_ : stream_;
    leave_race(is_last_word ? other : stream);
    if (!is_last_word) return;
  }
  if (std::exchange(is_hedged_, false)) opener_.hedge_ended(settings_.agent_id, is_on_second_);
  if (result.accepted) return succeed();
  if (result.code == TMESH_OPEN_UNSUPPORTED_CAPABILITY && std::exchange(allows_strict_, false)) {
    // Requirement B4: once more, on a new stream, without STRICT_OPEN.
    drop(stream_);
    const auto level = std::exchange(settings_.is_legacy_logged, true) ? log::Level::debug : log::Level::info;
    log::write(level, "open_repeated", {{"entry", settings_.entry}, {"open_mode", "legacy"}});
    return open();
  }
  const tmesh_open_result copy = result;
  refuse(copy);
}

void Opening::succeed() {
  timeout_.cancel();
  if (!write_early() || early_written_bytes_ < early_.size()) {
    return refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_INTERNAL_ERROR, true);
  }
  phase_ = Phase::done;
  early_ = {};
  // Its next owner shall hear of everything, even of its end.
  tmesh_stream_detach(stream_);
  done_(tmesh_open_accept());
}

void Opening::refuse(tmesh_open_stage stage, tmesh_open_code code, bool is_retryable) {
  refuse(tmesh_open_refuse(stage, code, is_retryable));
}

void Opening::refuse(const tmesh_open_result& result) {
  timeout_.cancel();
  silence_.cancel();
  step_.cancel();
  drop(stream_);
  drop(hedge_);
  phase_ = Phase::done;
  log::debug("open_refused", {{"entry", settings_.entry},
                              {"stage", tmesh_open_stage_name(result.stage)},
                              {"code", tmesh_open_code_name(result.code)}});
  done_(result);
}

std::size_t Opening::early_room() const {
  return phase_ == Phase::done ? 0 : TMESH_EARLY_DATA_MAX_BYTES - early_.size();
}

std::size_t Opening::send_early(std::span<const uint8_t> data) {
  const std::size_t taken = std::min(data.size(), early_room());
  early_.insert(early_.end(), data.begin(), data.begin() + static_cast<std::ptrdiff_t>(taken));
  // Without memory now, they go with the answer.
  if (stream_ != nullptr) (void)write_early();
  if (early_written_bytes_ > 0) silence_.cancel();
  return taken;
}

bool Opening::write_early() {
  const std::size_t rest = early_.size() - early_written_bytes_;
  // While the open is not answered, room is what early data allows: none without it, and
  // none once two links race for the answer.
  if (rest == 0 || hedge_ != nullptr || tmesh_stream_out_room(stream_) == 0) return true;
  const std::size_t n = tmesh_stream_write(stream_, early_.data() + early_written_bytes_, rest);
  early_written_bytes_ += n;
  return n > 0;
}

tmesh_stream* Opening::take() {
  return std::exchange(stream_, nullptr);
}

}  // namespace tmesh::client
