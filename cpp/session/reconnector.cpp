#include "cpp/session/reconnector.hpp"

#include <utility>

#include "cpp/base/random.hpp"

namespace tmesh::session {
namespace {

uint64_t random_seed() {
  uint8_t bytes[8];
  random_bytes(bytes);
  uint64_t seed = 0;
  for (const uint8_t b : bytes) seed = (seed << 8) | b;
  return seed;
}

}  // namespace

Reconnector::Reconnector(net::Loop& loop, Timers& timers, Dialer& dialer, const ServerEndpoint& endpoint,
                         bool has_offer, uint32_t offered, ReconnectorHandler& handler)
    : loop_(loop),
      timers_(timers),
      dialer_(dialer),
      endpoint_(endpoint),
      has_offer_(has_offer),
      offered_(offered),
      handler_(handler),
      backoff_(random_seed()) {}

void Reconnector::start() {
  wait(0);
}

void Reconnector::stop() {
  is_stopped_ = true;
  timer_.cancel();
  connector_.reset();
}

void Reconnector::resume(bool has_link) {
  is_stopped_ = false;
  if (!has_link) wait(0);
}

void Reconnector::wait(uint64_t us) {
  if (is_stopped_) return;
  timer_ = timers_.after(us, Delegate<void()>::bind<&Reconnector::attempt>(this));
}

void Reconnector::attempt() {
  timer_.release();
  const bool offers = has_offer_ && !std::exchange(is_without_offer_, false);
  connector_ = std::make_unique<Connector>(
      loop_, timers_, dialer_, endpoint_, offers, offered_,
      Delegate<void(std::expected<Connected, ConnectFailure>)>::bind<&Reconnector::on_done>(this));
  is_offering_ = offers;
  connector_->start();
}

void Reconnector::on_done(std::expected<Connected, ConnectFailure> result) {
  connector_.reset();
  if (result) {
    connected_at_us_ = timers_.now_us();
    handler_.on_connected(std::move(*result));
    return;
  }
  const int status = result.error().http_status;
  uint64_t retry_us = 0;
  if (is_offering_ && (status == 400 || status == 403)) {
    is_without_offer_ = true;
  } else {
    retry_us = backoff_.next_us();
  }
  handler_.on_connect_failed(result.error(), retry_us);
  wait(retry_us);
}

void Reconnector::renew(bool is_used_up) {
  if (connector_ != nullptr || timer_.active()) return;
  const uint64_t up_us = is_used_up ? Backoff::kGoodLink_us : timers_.now_us() - connected_at_us_;
  backoff_.link_ended(up_us);
  wait(up_us >= Backoff::kGoodLink_us ? 0 : backoff_.next_us());
}

void Reconnector::link_ended() {
  if (connector_ != nullptr) return;
  backoff_.link_ended(timers_.now_us() - connected_at_us_);
  wait(backoff_.next_us());
}

}  // namespace tmesh::session
