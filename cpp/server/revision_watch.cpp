#include "cpp/server/revision_watch.hpp"

#include <algorithm>
#include <utility>

#include "cpp/base/log.hpp"

namespace tmesh::server {
namespace {

constexpr uint64_t kRevisionMax = INT64_MAX;  // D5

}  // namespace

RevisionWatch::RevisionWatch(Timers& timers, RevisionSource& source, Settings settings)
    : timers_(timers), source_(source), settings_(settings) {}

RevisionWatch::~RevisionWatch() = default;

void RevisionWatch::start() {
  begin_poll();
  if (settings_.foreign_commit_interval_us != 0) ask_foreign_later();
}

void RevisionWatch::note_local_commit() {
  move_generation();
  poll_now();
}

void RevisionWatch::poll_now() {
  // The poll under way may have read what was before the change.
  if (is_polling_) {
    is_poll_wanted_ = true;
  } else {
    begin_poll();
  }
}

void RevisionWatch::begin_poll() {
  is_polling_ = true;
  is_late_ = false;
  is_poll_wanted_ = false;
  poll_begun_us_ = timers_.now_us();
  Result<Ticket> asked =
      source_.read_revision(Delegate<void(Result<uint64_t>)>::bind<&RevisionWatch::on_poll>(this));
  if (!asked) return end_poll(std::unexpected(asked.error()));
  poll_ = std::move(*asked);
  poll_timer_ =
      timers_.after(settings_.poll_timeout_us, Delegate<void()>::bind<&RevisionWatch::on_poll_timeout>(this));
}

void RevisionWatch::on_poll_timeout() {
  poll_timer_.release();
  is_late_ = true;
  note_failed();
}

void RevisionWatch::on_poll(Result<uint64_t> read) {
  poll_.release();
  poll_timer_.cancel();
  // A poll that was given up has not been made good for by its answer: the next one must be.
  is_poll_wanted_ = is_poll_wanted_ || is_late_;
  end_poll(read);
}

void RevisionWatch::end_poll(Result<uint64_t> read) {
  if (read) {
    judge(*read);
  } else if (read.error().code == TMESH_E_INVALID) {
    note_inconsistent();
  } else if (!is_late_) {
    note_failed();
  }
  is_polling_ = false;
  if (is_poll_wanted_) return begin_poll();
  poll_timer_ =
      timers_.after(settings_.poll_interval_us, Delegate<void()>::bind<&RevisionWatch::begin_poll>(this));
}

void RevisionWatch::judge(uint64_t revision) {
  const bool differs = std::exchange(last_read_, revision) != revision;
  if (revision < highest_ || revision > kRevisionMax) {
    const bool was_consistent = is_consistent_;
    note_inconsistent();
    // Rights change below the highest number too, and nobody else would notice.
    if (differs && !was_consistent) move_generation();
    return;
  }
  // Only a poll in time shows that rights can be followed again.
  if (is_late_ && !is_consistent_) return;
  const bool moved = revision > highest_ || !is_consistent_;
  highest_ = revision;
  is_consistent_ = true;
  if (!is_late_) {
    if (is_failure_told_ || is_inconsistency_told_) log::info("revision_followed_again");
    is_failure_told_ = is_inconsistency_told_ = false;
    stats_.polls_ok_count++;
    is_last_poll_good_ = true;
    last_good_us_ = poll_begun_us_;
  }
  if (moved) move_generation();
}

void RevisionWatch::note_inconsistent() {
  stats_.inconsistent_count++;
  is_last_poll_good_ = false;
  if (!std::exchange(is_inconsistency_told_, true)) {
    log::error("revision_inconsistent", {{"highest", highest_}});
  }
  if (std::exchange(is_consistent_, false)) move_generation();
}

void RevisionWatch::note_failed() {
  stats_.polls_failed_count++;
  is_last_poll_good_ = false;
  if (!std::exchange(is_failure_told_, true)) log::warn("revision_polls_fail");
}

void RevisionWatch::ask_foreign_later() {
  foreign_ = timers_.after(settings_.foreign_commit_interval_us,
                           Delegate<void()>::bind<&RevisionWatch::ask_foreign>(this));
}

void RevisionWatch::ask_foreign() {
  Result<Ticket> asked = source_.has_foreign_commits(
      Delegate<void(Result<std::optional<bool>>)>::bind<&RevisionWatch::on_foreign>(this));
  if (!asked) return ask_foreign_later();
  foreign_ = std::move(*asked);
}

// An error is no reason to poll: the next regular poll comes anyway.
void RevisionWatch::on_foreign(Result<std::optional<bool>> has_commits) {
  foreign_.release();
  ask_foreign_later();
  if (has_commits && has_commits->value_or(false)) poll_now();
}

void RevisionWatch::add_listener(RevisionListener& listener) {
  listeners_.push_back(&listener);
}

void RevisionWatch::remove_listener(RevisionListener& listener) {
  const auto found = std::ranges::find(listeners_, &listener);
  if (found == listeners_.end()) return;
  if (telling_depth_ > 0) {
    *found = nullptr;
  } else {
    listeners_.erase(found);
  }
}

void RevisionWatch::move_generation() {
  ++generation_;
  ++telling_depth_;
  for (std::size_t i = 0; i < listeners_.size(); i++) {
    if (listeners_[i] != nullptr) listeners_[i]->on_rights_moved(generation_);
  }
  if (--telling_depth_ == 0) std::erase(listeners_, nullptr);
}

}  // namespace tmesh::server
