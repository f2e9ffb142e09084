// Random rights, delays, failures and cancellations, seed by seed. Whatever happens: no allow
// that was decided before rights moved is given out afterwards, nor one that was taken back
// longer ago than polls can fail; one decision per question; bounded memory; every caller
// answered once or cancelled. TMESH_SEED=N runs that seed alone.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <list>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cpp/server/caching_authorizer.hpp"
#include "tests/cpp/agent/fakes.hpp"
#include "tests/cpp/session/captured_log.hpp"

namespace tmesh::server {
namespace {

constexpr uint64_t kMs = 1000, kSecond = 1'000'000;
constexpr std::size_t kQuestions = 6;
constexpr std::size_t kEntriesMax = 4;
constexpr uint64_t kPositiveTtl_us = 20 * kSecond;
// Of a poll that is begun just before the change: its answer, the interval, the next one's
// time limit. Longer than the 5 s of allows without a good poll.
constexpr uint64_t kLateRevocationMax_us = 6 * kSecond;

class World final : public RevisionSource, public StreamAuthorizer {
 public:
  explicit World(uint64_t seed) : random_(seed), moves_in_answers_(seed % 8 == 0) {
    for (bool& is_allowed : allowed_) is_allowed = any(2) == 0;
    watch.start();
  }

  void run(int steps_count) {
    for (int i = 0; i < steps_count && !testing::Test::HasFailure(); i++) step();
    // Everything that waits comes to its end.
    poll_mode_ = PollMode::good;
    advance(30 * kSecond);
    EXPECT_EQ(cache.decisions_under_way_count(), 0u);
    EXPECT_TRUE(watch.is_healthy());
    for (const Caller& c : callers_) EXPECT_EQ(c.answers_count, c.is_cancelled ? 0 : 1);
  }

  // What happened at all, for the test that the test is worth something.
  uint64_t hits_count = 0, again_count = 0, unhealthy_count = 0, revocations_count = 0;

 private:
  enum class PollMode { good, slow, failing, back, missing, full };
  // A decision at the source; kept to the end to judge what was given out.
  struct Job {
    World* world = nullptr;
    std::size_t number = 0, question = 0;
    uint64_t begun_us = 0, generation = 0, rest_us = 0;
    bool is_shareable = false, is_running = true;
    std::optional<bool> is_allowed;
    std::optional<int64_t> expires_at_us;
    Delegate<void(Result<Grant>)> done;
    Ticket timer;
    void on_view() { world->view(*this); }
    void on_end() { world->end(*this); }
  };
  struct Poll {
    World* world = nullptr;
    uint64_t rest_us = 0, revision = 0;
    Delegate<void(Result<uint64_t>)> done;
    Ticket timer;
    void on_view() {
      revision = world->revision_;
      timer = world->timers.after(rest_us, Delegate<void()>::bind<&Poll::on_end>(this));
    }
    void on_end() { world->end_poll(); }
  };
  struct Caller {
    World* world = nullptr;
    std::size_t question = 0;
    uint64_t asked_us = 0;
    int answers_count = 0;
    bool is_cancelled = false, is_hit = false;
    Ticket ticket;
    void on_answer(Result<Grant> answer) {
      ticket.release();
      answers_count++;
      world->judge(*this, answer);
    }
  };

  uint64_t any(uint64_t count) { return random_() % count; }
  bool chance(uint64_t percent) { return any(100) < percent; }
  uint64_t any_delay_us() { return chance(5) ? any(kSecond) : any(10 * kMs); }
  static std::string host(std::size_t question) { return "h" + std::to_string(question) + ".example"; }
  bool uses_allows() const {
    return watch.is_healthy() ||
           (watch.is_consistent() && timers.now_us() - watch.last_good_us() <= 5 * kSecond);
  }

  void step() {
    switch (any(16)) {
      case 0:
        commit();
        if (chance(50)) watch.note_local_commit();
        break;
      case 1:
        if (chance(60)) poll_mode_ = chance(60) ? PollMode::good : static_cast<PollMode>(any(6));
        break;
      case 2:
        cancel_one();
        break;
      case 3:
        advance(chance(20) ? any(8 * kSecond) : any(kSecond));
        break;
      case 4:
      case 5:
      case 6:
        advance(any(5 * kMs));
        break;
      default:
        ask(any(kQuestions));
    }
    EXPECT_LE(cache.stats().entries_count, kEntriesMax);
    unhealthy_count += watch.is_healthy() ? 0 : 1;
  }
  void advance(uint64_t us) {
    timers.set_wall(timers.wall_us() + static_cast<int64_t>(us));
    timers.advance(us);
  }
  void commit() {
    for (uint64_t left = 1 + any(2); left > 0; left--) {
      const std::size_t question = any(kQuestions);
      allowed_[question] = !allowed_[question];
      if (allowed_[question]) continue;
      revoked_us_[question] = timers.now_us();
      revocations_count++;
    }
    revision_++;
  }
  void ask(std::size_t question) {
    Caller& caller = callers_.emplace_back();
    caller.world = this;
    caller.question = question;
    caller.asked_us = timers.now_us();
    const StreamRequest request{"stok", "agent", "tcp", host(question), 443};
    if (auto known = cache.lookup(request)) {
      hits_count++;
      caller.is_hit = true;
      return caller.on_answer(std::move(*known));
    }
    is_asking_ = true;
    auto asked = cache.authorize(request, Delegate<void(Result<Grant>)>::bind<&Caller::on_answer>(&caller));
    is_asking_ = false;
    if (!asked) return caller.on_answer(std::unexpected(asked.error()));
    EXPECT_EQ(caller.answers_count, 0) << "answered within the call";
    caller.ticket = std::move(*asked);
  }
  void cancel_one() {
    for (Caller& c : callers_) {
      if (!c.ticket.active() || chance(70)) continue;
      c.ticket.cancel();
      c.is_cancelled = true;
      return;
    }
  }

  // ---- the source ----

  Result<Ticket> authorize(StreamRequest request, Delegate<void(Result<Grant>)> done) override {
    if (chance(3)) return fail(TMESH_E_LIMIT, "full");
    auto job = std::make_unique<Job>();
    job->world = this;
    job->number = jobs_.size();
    job->question = static_cast<std::size_t>(request.host[1] - '0');
    job->begun_us = timers.now_us();
    job->generation = watch.generation();
    job->rest_us = any_delay_us();
    job->done = done;
    // One that is made again goes on for the same callers.
    job->is_shareable = is_asking_ ? uses_allows() : answering_ != nullptr && answering_->is_shareable;
    if (is_asking_ && job->is_shareable && !moves_in_answers_) {
      for (const auto& other : jobs_) {
        EXPECT_FALSE(other->is_running && other->is_shareable && other->question == job->question)
            << "two decisions of one question";
      }
    }
    job->timer = timers.after(any_delay_us(), Delegate<void()>::bind<&Job::on_view>(job.get()));
    jobs_.push_back(std::move(job));
    return Ticket(this, jobs_.size() - 1, [](void* self, uint64_t number) {
      Job& cancelled = *static_cast<World*>(self)->jobs_[number];
      cancelled.is_running = false;
      cancelled.timer.cancel();
    });
  }
  void view(Job& job) {
    job.is_allowed = allowed_[job.question];
    if (chance(20)) job.expires_at_us = timers.wall_us() + 1 + static_cast<int64_t>(any(3 * kSecond));
    job.timer = timers.after(job.rest_us, Delegate<void()>::bind<&Job::on_end>(&job));
  }
  void end(Job& job) {
    job.is_running = false;
    answering_ = &job;
    if (chance(5)) {
      job.done(fail(chance(50) ? TMESH_E_IO : TMESH_E_INVALID, "failed"));
    } else if (!*job.is_allowed) {
      job.done(fail(TMESH_E_POLICY, "denied"));
    } else {
      job.done(Grant{"stok",
                     std::to_string(job.number),
                     "agent",
                     {"tcp", host(job.question), std::nullopt, 443},
                     job.expires_at_us});
    }
    answering_ = nullptr;
  }

  // ---- the revision ----

  Result<Ticket> read_revision(Delegate<void(Result<uint64_t>)> done) override {
    if (poll_mode_ == PollMode::full) return fail(TMESH_E_LIMIT, "full");
    poll_.world = this;
    poll_.done = done;
    poll_.rest_us = poll_mode_ == PollMode::slow ? any(9 * kSecond) : any(10 * kMs);
    poll_.timer = timers.after(any(10 * kMs), Delegate<void()>::bind<&Poll::on_view>(&poll_));
    return Ticket(this, 0, [](void* self, uint64_t) { static_cast<World*>(self)->poll_.timer.cancel(); });
  }
  Result<Ticket> has_foreign_commits(Delegate<void(Result<std::optional<bool>>)>) override {
    return Ticket();
  }
  void end_poll() {
    switch (poll_mode_) {
      case PollMode::failing:
        return poll_.done(fail(TMESH_E_TIMEOUT, "failed"));
      case PollMode::missing:
        return poll_.done(fail(TMESH_E_INVALID, "missing"));
      case PollMode::back:
        return poll_.done(poll_.revision - 1 - any(3));
      default:
        return poll_.done(poll_.revision);
    }
  }

  // ---- what must hold ----

  void judge(const Caller& caller, const Result<Grant>& answer) {
    again_count = cache.stats().decided_again_count;
    if (!answer) return;
    const Job& job = *jobs_[std::stoul(answer->owner_user_id)];
    const uint64_t now_us = timers.now_us();
    EXPECT_EQ(job.question, caller.question);
    EXPECT_EQ(job.generation, watch.generation()) << "an allow of before the rights moved";
    EXPECT_EQ(answer->generation, watch.generation());
    if (!uses_allows()) {
      EXPECT_FALSE(caller.is_hit);
    }
    if (!watch.is_consistent()) {
      EXPECT_GE(job.begun_us, caller.asked_us) << "not decided for this caller";
    }
    if (caller.is_hit) {
      EXPECT_LT(now_us - job.begun_us, kPositiveTtl_us);
      EXPECT_LT(timers.wall_us(), job.expires_at_us.value_or(INT64_MAX));
    }
    if (!allowed_[caller.question]) {
      EXPECT_LE(now_us - revoked_us_[caller.question], kLateRevocationMax_us);
    }
    if (moves_in_answers_ && chance(5)) {
      commit();
      watch.note_local_commit();
    }
  }

  std::mt19937_64 random_;
  const bool moves_in_answers_;  // callbacks change rights, too
  std::array<bool, kQuestions> allowed_{};
  std::array<uint64_t, kQuestions> revoked_us_{};
  uint64_t revision_ = 10;
  PollMode poll_mode_ = PollMode::good;
  bool is_asking_ = false;
  const Job* answering_ = nullptr;
  test::FakeTimers timers;
  std::vector<std::unique_ptr<Job>> jobs_;
  Poll poll_;

 public:
  RevisionWatch watch{timers, *this, {}};
  CachingStreamAuthorizer cache{
      timers, *this, watch, {true, kPositiveTtl_us, 3 * kSecond, 5 * kSecond, kEntriesMax}};

 private:
  std::list<Caller> callers_;  // their Tickets go first
};

TEST(CachingAuthorizerRandom, NoAllowOutlivesTheRightsItRestsOn) {
  constexpr uint64_t kSeeds = 10'000;
  constexpr int kSteps = 120;
  const char* only = std::getenv("TMESH_SEED");
  const uint64_t first = only != nullptr ? std::strtoull(only, nullptr, 10) : 1;
  const uint64_t last = only != nullptr ? first : kSeeds;
  const test::CapturedLog quiet;
  uint64_t hits = 0, again = 0, unhealthy = 0, revocations = 0;
  for (uint64_t seed = first; seed <= last; seed++) {
    SCOPED_TRACE("TMESH_SEED=" + std::to_string(seed));
    World world(seed);
    world.run(kSteps);
    ASSERT_FALSE(HasFailure());
    hits += world.hits_count;
    again += world.again_count;
    unhealthy += world.unhealthy_count;
    revocations += world.revocations_count;
  }
  if (only != nullptr) return;
  // Each of these is what a rule is about: a run without them would prove nothing.
  EXPECT_GT(hits, kSeeds);
  EXPECT_GT(again, kSeeds / 10);
  EXPECT_GT(unhealthy, kSeeds);
  EXPECT_GT(revocations, kSeeds);
}

}  // namespace
}  // namespace tmesh::server
