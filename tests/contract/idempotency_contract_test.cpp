// Idempotency-Keys on both engines: one row a key, and requests at the same time that wait for
// one another.
#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "cpp/server/admin_api/api_idempotency.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/idempotency_repository.hpp"
#include "cpp/storage/revision_bump.hpp"
#include "tests/contract/engine.hpp"

namespace tmesh::server {
namespace {

constexpr int64_t kNow_us = 1'800'000'000'000'000;

struct Outcome {
  int status = 0;  // of the reply, or of the error
  std::string data;
  bool is_replayed = false;
};

struct IdempotencyContract : test::EngineTest {
  void SetUp() override {
    EngineTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    db = open();
    ASSERT_TRUE(storage::migrate(*db, true));
  }
  static IdempotentUse use(std::string_view body, std::string_view key = "k",
                           std::string_view user = "user-1") {
    return idempotent_use(user, key, http::Method::post, "/api/v1/agents", body);
  }
  // A change under a key, as ApiJob makes it.
  Outcome change(storage::Db& on, const IdempotentUse& use, int64_t now_us = kNow_us) {
    Outcome outcome;
    const Result<int> done = storage::change(on, [&](storage::Transaction& tx) -> Result<int> {
      outcome = {};
      const auto refuse = [&](const ApiError& error) {
        outcome.status = error.status;
        return fail(error.is_lock_lost ? TMESH_E_TIMEOUT : TMESH_E_POLICY, "");
      };
      auto kept = take_key(tx, use, now_us);
      if (!kept) return refuse(kept.error());
      if (*kept) {
        outcome = {(*kept)->status, (*kept)->data, true};
        return 0;
      }
      const int made = ++changes;
      const ApiReply reply{.status = 201, .data = "{\"n\":" + std::to_string(made) + "}"};
      if (auto done_too = keep_reply(tx, use, reply, now_us); !done_too) return refuse(done_too.error());
      outcome = {201, reply.data, false};
      return 0;
    });
    if (!done && outcome.status < 400) outcome.status = 500;
    return outcome;
  }
  std::string count() { return test::scalar(*db, "SELECT COUNT(*) FROM idempotency_keys"); }

  std::unique_ptr<storage::Db> db;
  std::atomic<int> changes = 0;
};
TMESH_BOTH_ENGINES(IdempotencyContract);

TEST_P(IdempotencyContract, ARepetitionGetsTheReply) {
  EXPECT_EQ(change(*db, use("a")).data, R"({"n":1})");
  const Outcome again = change(*db, use("a"));
  EXPECT_TRUE(again.is_replayed);
  EXPECT_EQ(again.status, 201);
  EXPECT_EQ(again.data, R"({"replayed":true,"n":1})");
}

TEST_P(IdempotencyContract, AnotherRequestUnderTheKeyIsAConflict) {
  change(*db, use("a"));
  EXPECT_EQ(change(*db, use("b")).status, 409);
  EXPECT_EQ(change(*db, use("a", "k", "user-2")).status, 201) << "keys belong to their users";
  EXPECT_EQ(change(*db, use("a", "K")).status, 201) << "keys are compared byte by byte";
  EXPECT_EQ(changes, 3);
}

TEST_P(IdempotencyContract, AnExpiredKeyIsNew) {
  change(*db, use("a"));
  EXPECT_TRUE(change(*db, use("a"), kNow_us + kIdempotencyKept_us - 1).is_replayed);
  EXPECT_FALSE(change(*db, use("b"), kNow_us + kIdempotencyKept_us).is_replayed);
  EXPECT_TRUE(change(*db, use("b"), kNow_us + kIdempotencyKept_us).is_replayed);
  EXPECT_EQ(count(), "1");
}

// As ApiJob does, the other server has read something before it comes to the key.
TEST_P(IdempotencyContract, AnExpiredKeyThatAnotherServerTookMeanwhileIsTaken) {
  if (!is_mysql()) return;  // a second writer of SQLite reads nothing before it is its turn
  const int64_t later_us = kNow_us + kIdempotencyKept_us;
  change(*db, use("a"));
  const auto other = open();
  auto tx = storage::Transaction::write(*other);
  ASSERT_TRUE(tx);
  ASSERT_TRUE(storage::read_revision(*other));
  EXPECT_FALSE(change(*db, use("b"), later_us).is_replayed);
  const auto kept = take_key(*tx, use("b"), later_us);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(*kept) << "the change would be made twice";
}

TEST_P(IdempotencyContract, AChangeThatIsUndoneLeavesNoKey) {
  {
    auto tx = storage::Transaction::write(*db);
    ASSERT_TRUE(tx);
    EXPECT_TRUE(take_key(*tx, use("a"), kNow_us));
  }
  EXPECT_EQ(count(), "0");
  EXPECT_FALSE(change(*db, use("b")).is_replayed);
}

TEST_P(IdempotencyContract, TheLongestReplyIsKeptAndALongerOneIsNot) {
  const auto keep = [&](std::string_view key, std::size_t size) {
    const IdempotentUse mine = use("a", key);
    const Result<int> done = storage::change(*db, [&](storage::Transaction& tx) -> Result<int> {
      EXPECT_TRUE(take_key(tx, mine, kNow_us));
      EXPECT_TRUE(keep_reply(tx, mine, {.data = "\"" + std::string(size - 2, 'x') + "\""}, kNow_us));
      return 0;
    });
    EXPECT_TRUE(done);
    return change(*db, mine).data;
  };
  EXPECT_EQ(keep("longest", kIdempotencyReplyBytesMax).size(), kIdempotencyReplyBytesMax);
  EXPECT_EQ(keep("longer", kIdempotencyReplyBytesMax + 1), R"({"replayed":true})");
}

// Each of many connections sends the same request at once: the change is made once, and every
// one of them hears of it.
TEST_P(IdempotencyContract, RequestsAtTheSameTimeWaitForOneAnother) {
  constexpr int kRounds = 20;
  constexpr int kConnections = 6;
  std::array<std::unique_ptr<storage::Db>, kConnections> connections;
  for (auto& connection : connections) connection = open(20'000);
  for (int round = 0; round < kRounds; ++round) {
    changes = 0;
    std::array<Outcome, kConnections> outcomes;
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    const IdempotentUse mine = use("a", "round " + std::to_string(round));
    for (int i = 0; i < kConnections; ++i) {
      threads.emplace_back([&, i] {
        ++ready;
        while (ready < kConnections) std::this_thread::yield();
        outcomes[static_cast<std::size_t>(i)] = change(*connections[static_cast<std::size_t>(i)], mine);
      });
    }
    for (std::thread& thread : threads) thread.join();
    int made = 0;
    for (const Outcome& outcome : outcomes) {
      EXPECT_EQ(outcome.status, 201);
      if (!outcome.is_replayed) ++made;
    }
    EXPECT_EQ(made, 1);
    // A run that a deadlock undid was made, and is in no row.
    EXPECT_GE(changes, 1);
  }
  EXPECT_EQ(count(), std::to_string(kRounds));
}

TEST_P(IdempotencyContract, ExpiredKeysGoInBatches) {
  for (int i = 0; i < 7; ++i) change(*db, use("a", std::to_string(i)));
  change(*db, use("a", "later"), kNow_us + 1'000'000);
  const std::string now = storage::format_timestamp(kNow_us + kIdempotencyKept_us);
  const auto purge = [&] {
    return storage::change(
        *db, [&](storage::Transaction& tx) { return storage::IdempotencyRepository::purge(tx, now, 5); });
  };
  EXPECT_EQ(purge().value(), 5);
  EXPECT_EQ(purge().value(), 2);
  EXPECT_EQ(purge().value(), 0);
  EXPECT_EQ(count(), "1");
}

}  // namespace
}  // namespace tmesh::server
