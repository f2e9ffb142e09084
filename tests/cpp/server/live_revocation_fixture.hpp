// Streams under watch and a decider that answers when the test says so, on a fake clock.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cpp/server/live_revocation.hpp"
#include "tests/cpp/agent/fakes.hpp"

namespace tmesh::server {

// Answers when the test says so; what it says is looked up by host at that time.
class Decider final : public StreamAuthorizer {
 public:
  std::optional<Result<Grant>> lookup(const StreamRequest& request) override {
    if (!knows) return std::nullopt;
    return answer(request);
  }
  Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) override {
    if (refuses_calls) return fail(TMESH_E_LIMIT, "refused by the test");
    asked.push_back(request.host);
    asked_max = std::max(asked_max, waiting_.size() + 1);
    const uint64_t id = ++last_id_;
    waiting_.emplace(id, std::pair(std::move(request), done));
    return Ticket(this, id,
                  [](void* self, uint64_t job) { static_cast<Decider*>(self)->waiting_.erase(job); });
  }
  // Answers the oldest question; false if there is none.
  bool settle() {
    if (waiting_.empty()) return false;
    auto [request, done] = std::move(waiting_.begin()->second);
    waiting_.erase(waiting_.begin());
    done(answer(request));
    return true;
  }
  std::size_t waiting_count() const { return waiting_.size(); }

  std::map<std::string, tmesh_code> errors;  // by host
  std::optional<int64_t> expires_at_us;
  uint64_t generation = 0;  // of the grants it gives
  bool knows = false;
  bool refuses_calls = false;
  std::vector<std::string> asked;
  std::size_t asked_max = 0;  // at a time

 private:
  Result<Grant> answer(const StreamRequest& request) const {
    if (const auto error = errors.find(request.host); error != errors.end())
      return fail(error->second, "refused by the test");
    Grant grant;
    grant.generation = generation;
    grant.expires_at_us = expires_at_us;
    return grant;
  }

  uint64_t last_id_ = 0;
  std::map<uint64_t, std::pair<StreamRequest, Delegate<void(Result<Grant>)>>> waiting_;
};

struct LiveRevocationTest : testing::Test {
  struct Stream final : Revocable {
    explicit Stream(std::string name) : host(std::move(name)) {}
    void on_revoked() override { is_revoked = true; }
    const std::string host;
    bool is_revoked = false;
  };

  test::FakeTimers timers;
  Decider decider;
  uint64_t generation = 1;
  LiveRevocation revocation{timers, decider, 1, {}};
  std::list<Stream> streams;

  static Grant grant(const std::string& host, uint64_t generation, std::optional<int64_t> expires = {}) {
    Grant made;
    made.token_id = "token";
    made.agent_id = "agent";
    made.target = {"tcp", host, std::nullopt, 443};
    made.generation = generation;
    made.expires_at_us = expires;
    return made;
  }
  Stream& open(const std::string& host, std::optional<int64_t> expires = {}) {
    return open_of(host, generation, expires);
  }
  Stream& open_of(const std::string& host, uint64_t of_generation, std::optional<int64_t> expires = {}) {
    Stream& stream = streams.emplace_back(host);
    revocation.watch(stream, grant(host, of_generation, expires));
    return stream;
  }
  void move() { revocation.on_rights_moved(++generation); }
  // Everything that happens by itself at this time.
  void pump() {
    timers.advance(0);
    while (decider.settle()) timers.advance(0);
    timers.advance(0);
  }
  void pump_for(uint64_t us) {
    for (uint64_t past = 0; past < us; past += 50'000) {
      pump();
      timers.advance(50'000);
    }
    pump();
  }
};

}  // namespace tmesh::server
