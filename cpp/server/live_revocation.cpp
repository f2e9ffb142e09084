#include "cpp/server/live_revocation.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "cpp/base/log.hpp"

namespace tmesh::server {

// What rests on one grant; never empty while it is in groups_.
struct RevocableGroup {
  void on_checked(Result<Grant> answer) { owner->on_checked(*this, answer); }

  LiveRevocation* owner = nullptr;
  LiveRevocation::Groups::iterator place;  // while not refused
  LiveRevocation::Expiries::iterator expiry;
  Revocable* first = nullptr;
  uint64_t allowed_generation = 0;  // the newest at which it is known to be allowed
  uint64_t asked_generation = 0;    // when the check under way was begun
  Ticket check;
  bool has_expiry = false;
  bool is_refused = false;
};

Revocable::~Revocable() {
  if (group_ != nullptr) LiveRevocation::leave(*this);
}

LiveRevocation::LiveRevocation(Timers& timers, StreamAuthorizer& authorizer, uint64_t generation,
                               Settings settings)
    : timers_(timers),
      authorizer_(authorizer),
      settings_(settings),
      generation_(generation),
      next_(groups_.end()) {}

LiveRevocation::~LiveRevocation() {
  TMESH_ASSERT(groups_.empty());
}

void LiveRevocation::watch(Revocable& object, const Grant& grant) {
  TMESH_ASSERT(object.group_ == nullptr);
  auto place = groups_.find(grant);
  if (place == groups_.end()) {
    const Target& target = grant.target;
    place = groups_
                .try_emplace(
                    StreamRequest{grant.token_id, grant.agent_id, target.protocol, target.host, target.port})
                .first;
    place->second.owner = this;
    place->second.place = place;
  }
  Group& group = place->second;
  object.group_ = &group;
  object.next_ = group.first;
  if (group.first != nullptr) group.first->previous_ = &object;
  group.first = &object;
  // A decision that took long says less about the token than one made since.
  if (grant.generation >= group.allowed_generation) set_expiry(group, grant.expires_at_us);
  group.allowed_generation = std::max(group.allowed_generation, grant.generation);
  if (group.allowed_generation < generation_) want_round();
}

void LiveRevocation::unlink(Revocable& object) {
  Group& group = *std::exchange(object.group_, nullptr);
  (object.previous_ != nullptr ? object.previous_->next_ : group.first) = object.next_;
  if (object.next_ != nullptr) object.next_->previous_ = object.previous_;
  object.previous_ = object.next_ = nullptr;
}

// A refused group stays until its turn comes, where it is seen to be empty.
void LiveRevocation::leave(Revocable& object) {
  Group& group = *object.group_;
  unlink(object);
  if (group.first != nullptr || group.is_refused) return;
  LiveRevocation& self = *group.owner;
  self.take_out(group);
  self.groups_.erase(group.place);
}

// Nothing refers to it any more but groups_.
void LiveRevocation::take_out(Group& group) {
  set_expiry(group, std::nullopt);
  if (next_ == group.place) ++next_;
  if (!group.check.active()) return;
  group.check.cancel();
  in_flight_--;
  // Its answer will not come to continue the round, or to end it.
  if (!due_.active()) arm(0);
}

void LiveRevocation::set_expiry(Group& group, std::optional<int64_t> at_us) {
  if (group.has_expiry && at_us == group.expiry->first) return;
  if (std::exchange(group.has_expiry, false)) expiries_.erase(group.expiry);
  if (expiries_.empty() && !at_us) expiry_.cancel();
  if (!at_us) return;
  group.expiry = expiries_.emplace(*at_us, &group);
  group.has_expiry = true;
  if (expiry_.active()) return;
  expiry_ = timers_.after(kExpiryTick_us, Delegate<void()>::bind<&LiveRevocation::on_expiry_tick>(this));
}

void LiveRevocation::on_expiry_tick() {
  expiry_.release();
  const int64_t now_us = timers_.wall_us();
  while (!expiries_.empty() && expiries_.begin()->first <= now_us) {
    stats_.expired_count++;
    refuse(*expiries_.begin()->second);
  }
  if (expiries_.empty()) return;
  expiry_ = timers_.after(kExpiryTick_us, Delegate<void()>::bind<&LiveRevocation::on_expiry_tick>(this));
}

// ---- rounds ----

void LiveRevocation::on_rights_moved(uint64_t generation) {
  generation_ = generation;
  if (!groups_.empty()) want_round();
}

void LiveRevocation::want_round() {
  is_round_wanted_ = true;
  if (is_round_on_ || due_.active()) return;
  const uint64_t now_us = timers_.now_us();
  arm(earliest_round_us_ > now_us ? earliest_round_us_ - now_us : 0);
}

void LiveRevocation::arm(uint64_t delay_us) {
  due_ = timers_.after(delay_us, Delegate<void()>::bind<&LiveRevocation::on_due>(this));
}

void LiveRevocation::on_due() {
  due_.release();
  if (!is_round_on_) {
    is_round_on_ = true;
    is_round_wanted_ = false;
    earliest_round_us_ = timers_.now_us() + kRoundGap_us;
    to_look_at_ = groups_.size();
  }
  check_more();
}

void LiveRevocation::check_more() {
  std::size_t looks = kLooksPerTurn;
  while (to_look_at_ > 0 && !groups_.empty() && in_flight_ < (is_troubled_ ? 1 : settings_.checks_max)) {
    if (looks-- == 0) {
      if (!due_.active()) arm(0);
      return;
    }
    to_look_at_--;
    if (next_ == groups_.end()) next_ = groups_.begin();
    Group& group = next_->second;
    ++next_;
    if (group.allowed_generation < generation_ && !group.check.active()) check(group);
  }
  if (groups_.empty()) to_look_at_ = 0;
  if (to_look_at_ == 0 && in_flight_ == 0) end_round();
}

void LiveRevocation::check(Group& group) {
  group.asked_generation = generation_;
  if (const auto known = authorizer_.lookup(group.place->first)) return take_answer(group, *known);
  auto asked = authorizer_.authorize(group.place->first,
                                     Delegate<void(Result<Grant>)>::bind<&Group::on_checked>(&group));
  if (!asked) return on_trouble();
  group.check = std::move(*asked);
  in_flight_++;
}

void LiveRevocation::on_checked(Group& group, const Result<Grant>& answer) {
  group.check.release();
  in_flight_--;
  take_answer(group, answer);
  check_more();
}

// May destroy the group's place in groups_, and nothing else.
void LiveRevocation::take_answer(Group& group, const Result<Grant>& answer) {
  const tmesh_code code = answer ? TMESH_OK : answer.error().code;
  // The authorizer's way to say that rights moved during every decision. (Of a lock that
  // another program holds the next round will tell.)
  if (code == TMESH_E_TIMEOUT && group.asked_generation != generation_) {
    is_round_wanted_ = true;
    return;
  }
  if (code != TMESH_OK && code != TMESH_E_POLICY && code != TMESH_E_INVALID) return on_trouble();
  is_troubled_ = false;
  stats_.rechecked_count++;
  if (code == TMESH_OK) {
    const uint64_t generation = answer->generation != 0 ? answer->generation : group.asked_generation;
    if (generation >= group.allowed_generation) set_expiry(group, answer->expires_at_us);
    group.allowed_generation = std::max(group.allowed_generation, generation);
  } else if (group.allowed_generation <= group.asked_generation) {
    stats_.refused_count++;
    return refuse(group);
  }
  if (group.allowed_generation < generation_) is_round_wanted_ = true;
}

// The round goes no further; the next one begins with whom this one did not come to.
void LiveRevocation::on_trouble() {
  stats_.failed_count++;
  is_troubled_ = true;
  is_round_wanted_ = true;
  to_look_at_ = 0;
  earliest_round_us_ = timers_.now_us() + kRetry_us;
}

void LiveRevocation::end_round() {
  if (!std::exchange(is_round_on_, false)) return;
  stats_.rounds_count++;
  if (refused_.empty()) tell();
  if (is_round_wanted_) want_round();
}

// ---- ends ----

void LiveRevocation::refuse(Group& group) {
  take_out(group);
  group.is_refused = true;
  refused_.push_back(groups_.extract(group.place));
  if (!reset_.active()) {
    reset_ = timers_.after(0, Delegate<void()>::bind<&LiveRevocation::on_reset_due>(this));
  }
}

void LiveRevocation::on_reset_due() {
  reset_.release();
  std::size_t left = kResetsPerTurn;
  for (; !refused_.empty(); refused_.pop_front()) {
    Group& group = refused_.front().mapped();
    for (; group.first != nullptr && left > 0; left--) {
      Revocable& object = *group.first;
      unlink(object);
      stats_.reset_count++;
      object.on_revoked();
    }
    if (group.first == nullptr) continue;
    reset_ = timers_.after(0, Delegate<void()>::bind<&LiveRevocation::on_reset_due>(this));
    return;
  }
  if (!is_round_on_) tell();
}

// Counts since the last line; while the database is in trouble one line says so.
void LiveRevocation::tell() {
  const uint64_t rechecked_count = stats_.rechecked_count - told_.rechecked_count;
  const uint64_t expired_count = stats_.expired_count - told_.expired_count;
  const uint64_t failed_count = stats_.failed_count - told_.failed_count;
  const bool is_first_trouble = failed_count > 0 && !is_trouble_told_;
  is_trouble_told_ = failed_count > 0;
  if (rechecked_count == 0 && expired_count == 0 && !is_first_trouble) return;
  log::info(settings_.event, {{"grants", rechecked_count},
                              {"refused", stats_.refused_count - told_.refused_count},
                              {"expired", expired_count},
                              {"undecided", failed_count},
                              {"reset", stats_.reset_count - told_.reset_count}});
  told_ = stats_;
}

}  // namespace tmesh::server
