// A CachingStreamAuthorizer between callers and a source and a revision that a test steers.
#pragma once

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "cpp/server/caching_authorizer.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/server/fake_revision.hpp"

namespace tmesh::test {

inline constexpr uint64_t kSecond_us = 1'000'000;

// Decisions wait until the test makes them.
class FakeSource final : public server::StreamAuthorizer {
 public:
  Result<Ticket> authorize(server::StreamRequest request,
                           Delegate<void(Result<server::Grant>)> done) override {
    asked_count++;
    if (is_full) return fail(TMESH_E_LIMIT, "refused by the test");
    const uint64_t id = ++last_id_;
    waiting_.emplace(id, std::pair(std::move(request), done));
    return Ticket(this, id, [](void* self, uint64_t job) {
      auto& s = *static_cast<FakeSource*>(self);
      s.cancelled_count += s.waiting_.erase(job);
    });
  }
  std::size_t waiting_count() const { return waiting_.size(); }
  // Ends the oldest decision.
  void allow(std::optional<int64_t> expires_at_us = std::nullopt) {
    const server::StreamRequest request =
        waiting_.empty() ? server::StreamRequest() : waiting_.begin()->second.first;
    const Result<server::Target> target =
        server::normalize_target(request.protocol, request.host, request.port);
    answer(server::Grant{request.token_id, "user-of-" + request.token_id, request.agent_id,
                         target.value_or(server::Target{}), expires_at_us});
  }
  void refuse(tmesh_code code = TMESH_E_POLICY) { answer(fail(code, "refused by the test")); }
  void answer(Result<server::Grant> decision) {
    if (waiting_.empty()) {
      ADD_FAILURE() << "nothing was asked";
      return;
    }
    const auto done = waiting_.begin()->second.second;
    waiting_.erase(waiting_.begin());
    done(std::move(decision));
  }

  bool is_full = false;
  std::size_t asked_count = 0;
  std::size_t cancelled_count = 0;

 private:
  uint64_t last_id_ = 0;
  std::map<uint64_t, std::pair<server::StreamRequest, Delegate<void(Result<server::Grant>)>>> waiting_;
};

// An open as OpenFlow makes it.
struct CacheCaller {
  void ask(server::StreamAuthorizer& authorizer, const server::StreamRequest& request) {
    if (auto known = authorizer.lookup(request)) {
      is_hit = true;
      return on_answer(std::move(*known));
    }
    auto asked = authorizer.authorize(
        request, Delegate<void(Result<server::Grant>)>::bind<&CacheCaller::on_answer>(this));
    if (!asked) return on_answer(std::unexpected(asked.error()));
    ticket = std::move(*asked);
  }
  void on_answer(Result<server::Grant> given) {
    ticket.release();
    answers_count++;
    answer = std::move(given);
    if (then) then();
  }
  bool is_allowed() const { return answer.has_value() && answer->has_value(); }
  bool is_refused(tmesh_code code) const {
    return answer.has_value() && !answer->has_value() && answer->error().code == code;
  }

  bool is_hit = false;
  int answers_count = 0;
  std::optional<Result<server::Grant>> answer;
  Delegate<void()> then;
  Ticket ticket;
};

struct CacheTest : testing::Test {
  using Cache = server::CachingStreamAuthorizer;
  using Way = Cache::Way;
  using Outcome = Cache::Outcome;

  explicit CacheTest(Cache::Settings settings = {}) : cache(timers, source, watch, settings) {}
  void SetUp() override {
    watch.start();
    revision.answer(1);
  }
  CacheCaller& ask(const server::StreamRequest& request) {
    callers.emplace_back();
    callers.back().ask(cache, request);
    return callers.back();
  }
  CacheCaller& ask() { return ask(question); }
  // The question has been decided with yes.
  void know() {
    CacheCaller& first = ask();
    source.allow();
    ASSERT_TRUE(first.is_allowed());
  }
  // Time passes with polls that work.
  void pass(uint64_t us) {
    for (; us > 0; us -= std::min<uint64_t>(us, kSecond_us / 2)) {
      timers.advance(std::min<uint64_t>(us, kSecond_us / 2));
      if (revision.is_asked()) revision.answer(watch.revision());
    }
  }
  // The next poll is begun.
  void next_poll() {
    timers.advance(2 * kSecond_us);
    ASSERT_TRUE(revision.is_asked());
  }

  test::FakeTimers timers;
  FakeRevision revision;
  server::RevisionWatch watch{timers, revision, {}};
  FakeSource source;
  Cache cache;
  std::list<CacheCaller> callers;
  const server::StreamRequest question{"stok_a", "agent-a", "tcp", "a.example", 443};
};

}  // namespace tmesh::test
