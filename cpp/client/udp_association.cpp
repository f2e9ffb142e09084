#include "cpp/client/udp_association.hpp"

#include <algorithm>
#include <utility>

#include "core/mux/datagram.h"
#include "cpp/client/udp_associations.hpp"

namespace tmesh::client {

UdpAssociation::UdpAssociation(UdpAssociations& table, const net::UdpAddress& source)
    : table_(table), source_(source) {}

UdpAssociation::~UdpAssociation() {
  drop_kept();
  if (stream_ != nullptr) tmesh_stream_release(stream_);
}

void UdpAssociation::send(std::span<const uint8_t> data) {
  if (stream_ != nullptr) {
    const bool is_sent = tmesh_is_ok(tmesh_stream_send_datagram(stream_, data.data(), data.size()));
    if (!is_sent) table_.counts_.dropped_count++;
    return;
  }
  const bool is_resting = opening_ == nullptr && table_.parts_.timers.now_us() < rests_until_us_;
  if (is_resting || !keep(data)) {
    table_.counts_.dropped_count++;
    return;
  }
  if (opening_ == nullptr) open();
}

// --- the stream ----------------------------------------------------------------------

void UdpAssociation::open() {
  const UdpAssociationsParts& parts = table_.parts_;
  opening_ = std::make_unique<Opening>(parts.opener, parts.validator, parts.timers, parts.opening,
                                       Opening::Done::bind<&UdpAssociation::on_opened>(this));
  OpenRequest request;
  request.protocol = TMESH_OPEN_UDP;
  request.host = parts.target_host;
  request.port = parts.target_port;
  opening_->start(request);
}

void UdpAssociation::on_opened(const tmesh_open_result& result) {
  const std::unique_ptr<Opening> opening = std::move(opening_);
  if (!result.accepted) {
    table_.parts_.stats.refused_count++;
    drop_kept();
    return rest();
  }
  table_.parts_.stats.opens_count++;
  stream_ = opening->take();
  tmesh_stream_attach(stream_, this, &on_stream_event);
  send_kept();
}

void UdpAssociation::on_stream_event(void* user, tmesh_stream*, unsigned events) {
  auto* self = static_cast<UdpAssociation*>(user);
  self->pump();
  if ((events & TMESH_STREAM_EV_OVER) != 0 && self->stream_ != nullptr) self->on_stream_over();
}

// The far side ended it: a refusal, or the agent, the target's policy or a link is gone.
void UdpAssociation::on_stream_over() {
  tmesh_stream_release(std::exchange(stream_, nullptr));
  turn_.cancel();
  rest();
}

tmesh_stream* UdpAssociation::take_stream() {
  turn_.cancel();
  return std::exchange(stream_, nullptr);
}

void UdpAssociation::rest() {
  rest_us_ = rest_us_ == 0 ? kRestFirst_us : std::min(2 * rest_us_, kRestMax_us);
  rests_until_us_ = table_.parts_.timers.now_us() + rest_us_;
}

// --- to the local side ---------------------------------------------------------------

void UdpAssociation::pump() {
  if (stream_ == nullptr) return;
  const auto room = net::datagram_scratch();
  std::size_t len = 0;
  std::size_t n = 0;
  bool is_blocked = false;
  while (!is_blocked && tmesh_stream_peek_datagram(stream_, room.data(), room.size(), &len)) {
    is_blocked = n == kTurnMax || !reply(room.first(len));
    if (!is_blocked) n++;
  }
  if (n == kTurnMax && is_blocked) {
    turn_ = table_.parts_.timers.after(0, Delegate<void()>::bind<&UdpAssociation::pump>(this));
  }
  if (n > 0) {
    rest_us_ = 0;
    table_.touch(*this);
  }
  if (!is_blocked && stream_->in_eof) on_stream_over();
}

// False: the local socket does not take it now.
bool UdpAssociation::reply(std::span<const uint8_t> data) {
  const tmesh_status st = table_.parts_.reply(source_, data);
  if (st.code == TMESH_E_AGAIN) return false;
  if (!tmesh_is_ok(st)) table_.counts_.dropped_count++;
  tmesh_stream_take_datagram(stream_);
  return true;
}

// --- what waits for the stream -------------------------------------------------------

bool UdpAssociation::keep(std::span<const uint8_t> data) {
  const bool fits = kept_.size() + data.size() <= kPendingMaxBytes &&
                    kept_lengths_.size() < kPendingMaxCount &&
                    table_.kept_bytes_ + data.size() <= UdpAssociations::kKeptMaxBytes;
  if (!fits) return false;
  kept_.insert(kept_.end(), data.begin(), data.end());
  kept_lengths_.push_back(static_cast<uint32_t>(data.size()));
  table_.kept_bytes_ += data.size();
  return true;
}

void UdpAssociation::send_kept() {
  std::size_t at = 0;
  for (const uint32_t len : kept_lengths_) {
    const bool is_sent = tmesh_is_ok(tmesh_stream_send_datagram(stream_, kept_.data() + at, len));
    if (!is_sent) table_.counts_.dropped_count++;
    at += len;
  }
  kept_lengths_.clear();
  drop_kept();
}

void UdpAssociation::drop_kept() {
  table_.counts_.dropped_count += kept_lengths_.size();
  table_.kept_bytes_ -= kept_.size();
  kept_ = {};
  kept_lengths_ = {};
}

}  // namespace tmesh::client
