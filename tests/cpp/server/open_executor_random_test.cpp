#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>

#include "tests/cpp/server/open_executor_fixture.hpp"

namespace tmesh::server {
namespace {

// Random submits, ends and destructions against a model of the rules.
struct Model : OpenExecutorTest {
  static constexpr Limits kLimits{4, 16, 2};
  struct Entry {
    std::unique_ptr<Job> job;
    uint64_t link = 0;
    bool is_running = false;
  };
  OpenExecutor& executor = with(kLimits);
  std::vector<Entry> entries;
  // [u][v]: starts of token v since u could start and did not; the same for the links of one token
  std::map<std::string, std::map<std::string, int>> passed;
  std::map<uint64_t, std::map<uint64_t, int>> passed_links;

  static std::string token_of(uint64_t link) { return "t" + std::to_string(link / 3); }
  std::size_t count(bool is_running, int64_t link = -1) const {
    return static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), [&](const Entry& e) {
      return e.is_running == is_running && (link < 0 || e.link == static_cast<uint64_t>(link));
    }));
  }
  bool can_start(const std::string& token) const {
    return std::any_of(entries.begin(), entries.end(), [&](const Entry& e) {
      return !e.is_running && token_of(e.link) == token &&
             count(true, static_cast<int64_t>(e.link)) < kLimits.per_link_max;
    });
  }
  std::set<std::string> startable() const {
    std::set<std::string> out;
    for (const Entry& e : entries) {
      if (can_start(token_of(e.link))) out.insert(token_of(e.link));
    }
    return out;
  }
  std::set<uint64_t> startable_links() const {
    std::set<uint64_t> out;
    for (const Entry& e : entries) {
      if (!e.is_running && count(true, static_cast<int64_t>(e.link)) < kLimits.per_link_max)
        out.insert(e.link);
    }
    return out;
  }
  void forget() {
    const auto now = startable();
    std::erase_if(passed, [&](const auto& p) { return !now.contains(p.first); });
    const auto links = startable_links();
    std::erase_if(passed_links, [&](const auto& p) { return !links.contains(p.first); });
  }
  void on_started(Job* job) {
    const auto it =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.job.get() == job; });
    ASSERT_NE(it, entries.end());
    for (const Entry& e : entries) {  // first in, first out within a link
      if (&e == &*it) break;
      ASSERT_FALSE(e.link == it->link && !e.is_running) << "overtaken";
    }
    const std::string token = token_of(it->link);
    for (const std::string& other : startable()) {
      if (other == token) continue;
      ASSERT_LE(++passed[other][token], 1) << other << " waited for two turns of " << token;
    }
    passed.erase(token);
    for (const uint64_t other : startable_links()) {
      if (other == it->link || token_of(other) != token) continue;
      ASSERT_LE(++passed_links[other][it->link], 1) << other << " waited for two turns of " << it->link;
    }
    passed_links.erase(it->link);
    it->is_running = true;
    forget();
  }
  void check() {
    ASSERT_EQ(executor.running_count(), count(true));
    ASSERT_EQ(executor.waiting_count(), count(false));
    ASSERT_LE(count(true), kLimits.concurrent_max);
    std::set<uint64_t> links;
    for (const Entry& e : entries) {
      links.insert(e.link);
      ASSERT_LE(count(true, static_cast<int64_t>(e.link)), kLimits.per_link_max);
      ASSERT_EQ(e.job->is_running(), e.is_running);
      ASSERT_EQ(e.job->runs, e.is_running ? 1 : 0);
    }
    ASSERT_EQ(executor.links_count(), links.size());
  }
};

TEST_F(Model, HoldsUnderRandomOperations) {
  for (uint32_t seed = 1; seed <= 30; seed++) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    for (int step = 0; step < 400; step++) {
      SCOPED_TRACE("step " + std::to_string(step));
      const uint64_t op = below(10);
      if (op < 5) {
        const uint64_t link = below(9);
        const std::size_t of_token =
            static_cast<std::size_t>(std::count_if(entries.begin(), entries.end(), [&](const Entry& e) {
              return !e.is_running && token_of(e.link) == token_of(link);
            }));
        const bool has_room = count(false) < kLimits.pending_max &&
                              count(false, static_cast<int64_t>(link)) < kLimits.pending_max / 2 &&
                              (count(false) < kLimits.pending_max * 7 / 8 || of_token == 0);
        auto job = std::make_unique<Job>();
        job->run = [this, raw = job.get()] { on_started(raw); };
        ASSERT_EQ(executor.submit(*job, token_of(link), link), has_room);
        if (has_room) entries.push_back({std::move(job), link, false});
      } else if (op < 9) {
        if (!entries.empty()) {
          const auto it = entries.begin() + static_cast<std::ptrdiff_t>(below(entries.size()));
          if (it->is_running && below(2) == 0) it->job->finish();
          entries.erase(it);
        }
      } else {
        turn();
        if (HasFatalFailure()) return;
        ASSERT_TRUE(count(true) == kLimits.concurrent_max || startable().empty())
            << "a slot is free and not used";
      }
      forget();
      check();
      if (HasFatalFailure()) return;
    }
    entries.clear();
    ASSERT_EQ(executor.running_count() + executor.waiting_count(), 0u);
    ASSERT_EQ(executor.links_count() + executor.tokens_count(), 0u);
  }
}

}  // namespace
}  // namespace tmesh::server
