#include "cpp/client/udp_associations.hpp"

#include <algorithm>
#include <utility>

#include "core/mux/datagram.h"
#include "cpp/base/log.hpp"

namespace tmesh::client {

UdpAssociations::UdpAssociations(UdpAssociationsParts parts) : parts_(std::move(parts)) {}

UdpAssociations::~UdpAssociations() {
  in_order_.clear();
  while (!lingering_.empty()) drop_lingering(lingering_.front());
}

void UdpAssociations::finish() {
  while (!in_order_.empty()) close(*in_order_.front());
}

void UdpAssociations::on_datagram(const net::UdpAddress& source, std::span<const uint8_t> data) {
  const auto found = by_source_.find(source);
  UdpAssociation* const association = found != by_source_.end() ? found->second : make(source);
  if (association == nullptr) {
    counts_.dropped_count++;
    return;
  }
  touch(*association);
  association->send(data);
}

void UdpAssociations::pump() {
  auto it = in_order_.begin();
  for (std::size_t left = in_order_.size(); left > 0; left--) {
    // It goes to the end when something moves: those behind it stay, and its next turn is another one.
    UdpAssociation& association = **it++;
    association.pump();
  }
}

// --- life of an association ------------------------------------------------------------

UdpAssociation* UdpAssociations::make(const net::UdpAddress& source) {
  parts_.stats.accepted_count++;
  if (by_source_.size() >= kMax) {
    const uint64_t now_us = parts_.timers.now_us();
    evictions_us_ = std::max(evictions_us_, now_us);
    if (evictions_us_ - now_us > (kMax - 1) * kEvict_us) {
      parts_.stats.over_limit_count++;
      // Once per time of need, as for other entries.
      if (!std::exchange(is_full_, true)) {
        log::warn("entry_full", {{"entry", parts_.opening.entry}, {"locals", by_source_.size()}});
      }
      return nullptr;
    }
    evictions_us_ += kEvict_us;
    counts_.evicted_count++;
    close(*in_order_.front());
  }
  in_order_.push_back(std::make_unique<UdpAssociation>(*this, source));
  UdpAssociation& made = *in_order_.back();
  made.place = std::prev(in_order_.end());
  by_source_.emplace(source, &made);
  return &made;
}

void UdpAssociations::touch(UdpAssociation& association) {
  association.moved_us = parts_.timers.now_us();
  in_order_.splice(in_order_.end(), in_order_, association.place);
  arm();
}

void UdpAssociations::close(UdpAssociation& association) {
  tmesh_stream* const stream = association.take_stream();
  by_source_.erase(association.source());
  in_order_.erase(association.place);
  if (by_source_.size() < kMax / 2) is_full_ = false;
  if (stream != nullptr) linger(stream);
}

// --- streams that end ------------------------------------------------------------------

void UdpAssociations::linger(tmesh_stream* stream) {
  if (lingering_.size() == kMax) drop_lingering(lingering_.front());
  lingering_.push_back({this, stream, parts_.timers.now_us() + kLinger_us, {}});
  Lingering& one = lingering_.back();
  one.place = std::prev(lingering_.end());
  tmesh_stream_attach(stream, &one, &on_lingering_event);
  tmesh_stream_finish(stream);
  arm();
}

void UdpAssociations::drop_lingering(Lingering& one) {
  tmesh_stream_release(one.stream);
  lingering_.erase(one.place);
}

void UdpAssociations::on_lingering_event(void* user, tmesh_stream* stream, unsigned events) {
  auto& one = *static_cast<Lingering*>(user);
  // Nobody waits for these any more.
  for (std::size_t len = 0; tmesh_stream_peek_datagram(stream, nullptr, 0, &len);) {
    tmesh_stream_take_datagram(stream);
    one.table->counts_.dropped_count++;
  }
  const bool is_done = tmesh_stream_is_done(stream) && tmesh_stream_all_written(stream);
  if (is_done || (events & TMESH_STREAM_EV_OVER) != 0) one.table->drop_lingering(one);
}

// --- time ------------------------------------------------------------------------------

// What comes to the back of a list is due after its front, so a timer is rarely set anew: when
// none runs, and for the first of the list that is due earlier.
void UdpAssociations::arm() {
  uint64_t due_us = UINT64_MAX;
  if (!in_order_.empty()) due_us = in_order_.front()->moved_us + parts_.idle_timeout_us;
  if (!lingering_.empty()) due_us = std::min(due_us, lingering_.front().until_us);
  if (due_us == UINT64_MAX || (timer_.active() && due_us >= timer_due_us_)) return;
  const uint64_t now_us = parts_.timers.now_us();
  timer_due_us_ = due_us;
  timer_ = parts_.timers.after(due_us > now_us ? due_us - now_us : 0,
                               Delegate<void()>::bind<&UdpAssociations::on_time>(this));
}

void UdpAssociations::on_time() {
  timer_.release();
  const uint64_t now_us = parts_.timers.now_us();
  while (!in_order_.empty() && now_us - in_order_.front()->moved_us >= parts_.idle_timeout_us) {
    counts_.expired_count++;
    close(*in_order_.front());
  }
  while (!lingering_.empty() && now_us >= lingering_.front().until_us) drop_lingering(lingering_.front());
  arm();
}

}  // namespace tmesh::client
