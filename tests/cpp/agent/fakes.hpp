// A clock that jumps and a dialer that does what a test tells it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cpp/base/dial.hpp"
#include "cpp/base/timers.hpp"

namespace tmesh::test {

class FakeTimers final : public Timers {
 public:
  uint64_t now_us() const override { return now_us_; }
  int64_t wall_us() const override { return wall_us_; }
  void set_wall(int64_t us) { wall_us_ = us; }
  Ticket after(uint64_t delay_us, Delegate<void()> done) override {
    const uint64_t id = ++last_id_;
    timers_.emplace(std::pair(now_us_ + delay_us, id), done);
    return Ticket(this, id, [](void* owner, uint64_t timer) {
      std::erase_if(static_cast<FakeTimers*>(owner)->timers_,
                    [timer](const auto& t) { return t.first.second == timer; });
    });
  }
  // Runs everything that is due on the way, in order.
  void advance(uint64_t us) {
    const uint64_t until_us = now_us_ + us;
    while (!timers_.empty() && timers_.begin()->first.first <= until_us) {
      now_us_ = timers_.begin()->first.first;
      const Delegate<void()> done = timers_.begin()->second;
      timers_.erase(timers_.begin());
      done();
    }
    now_us_ = until_us;
  }
  // The machine slept: what became due meanwhile runs once, and late.
  void jump(uint64_t us) {
    now_us_ += us;
    const auto due = timers_.upper_bound(std::pair(now_us_, UINT64_MAX));
    const std::vector<std::pair<std::pair<uint64_t, uint64_t>, Delegate<void()>>> late(timers_.begin(), due);
    for (const auto& [key, done] : late) {
      if (timers_.erase(key) != 0) done();
    }
  }
  std::size_t count() const { return timers_.size(); }

 private:
  uint64_t now_us_ = 1'000'000'000;
  int64_t wall_us_ = 0;
  uint64_t last_id_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, Delegate<void()>> timers_;
};

class FakeDialer final : public Dialer {
 public:
  struct Job {
    uint64_t id = 0;
    std::string host;
    DialRequest request;
    Delegate<void(DialResult)> done;
  };

  Result<Ticket> dial(const DialRequest& request, Delegate<void(DialResult)> done) override {
    if (refusal_ != TMESH_OK) return fail(refusal_, "refused by the test");
    const uint64_t id = ++last_id_;
    running_.push_back({id, std::string(request.host), request, done});
    running_.back().request.host = {};
    started_.push_back(running_.back().host);
    return Ticket(this, id, [](void* owner, uint64_t job) {
      auto& self = *static_cast<FakeDialer*>(owner);
      self.cancelled_count_ += std::erase_if(self.running_, [job](const Job& j) { return j.id == job; });
    });
  }
  void refuse_with(tmesh_code code) { refusal_ = code; }
  const std::vector<Job>& running() const { return running_; }
  const std::vector<std::string>& started() const { return started_; }
  std::size_t cancelled_count() const { return cancelled_count_; }
  // Ends the oldest job for that host.
  void end(std::string_view host, DialResult result) {
    for (auto it = running_.begin(); it != running_.end(); ++it) {
      if (it->host != host) continue;
      const Delegate<void(DialResult)> done = it->done;
      running_.erase(it);
      done(result);
      return;
    }
  }
  static DialResult failed(tmesh_code code, bool in_dns = false) {
    DialResult r;
    r.status = tmesh_err_stream(code);
    r.failed_in_dns = in_dns;
    return r;
  }
  static DialResult connected(int fd) {
    DialResult r;
    r.fd = fd;
    r.dns_us = 11;
    r.connect_us = 22;
    return r;
  }

 private:
  tmesh_code refusal_ = TMESH_OK;
  uint64_t last_id_ = 0;
  std::vector<Job> running_;
  std::vector<std::string> started_;
  std::size_t cancelled_count_ = 0;
};

}  // namespace tmesh::test
