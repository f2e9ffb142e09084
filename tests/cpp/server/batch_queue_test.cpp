#include "cpp/server/batch_queue.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "cpp/server/authorizer.hpp"
#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::server {
namespace {

using Queue = BatchQueue<StreamRequest, Grant>;

// Requests of tokens that do not exist: who is told what, and when, is what matters here.
class BatchQueueTest : public net::LoopTest {
 public:
  struct Caller {
    void on_answer(Result<Grant> answer) {
      code = answer.error().code;
      order->push_back(this);
      if (then) then();
    }
    std::vector<Caller*>* order = nullptr;
    std::optional<tmesh_code> code;
    Delegate<void()> then;
    Ticket ticket;
  };

  void start(std::size_t waiting_max, std::size_t pending_max = 8, std::size_t connections = 1,
             std::size_t batches_max = 1) {
    std::vector<std::unique_ptr<storage::Db>> dbs;
    while (dbs.size() < connections) dbs.push_back(test::open_db(path));
    lane = std::move(*DatabaseLane::create(loop(), std::move(dbs), pending_max));
    queue = std::make_unique<Queue>(loop(), *lane, Queue::Decide::bind<&BatchQueueTest::decide>(this),
                                    Queue::Limits{waiting_max, batches_max});
  }
  std::vector<Result<Grant>> decide(storage::Db& on, std::span<const StreamRequest> requests) const {
    return Authorizer(on, storage::system_clock()).authorize(requests);
  }
  bool ask(Caller& caller) {
    caller.order = &order;
    Result<Ticket> ticket = queue->submit({"token", "agent", "tcp", "a.example", 1},
                                          Delegate<void(Result<Grant>)>::bind<&Caller::on_answer>(&caller));
    if (!ticket) caller.code = ticket.error().code;
    if (ticket) caller.ticket = std::move(*ticket);
    return ticket.has_value();
  }
  // Occupies the thread until that is set; false if its queue is full. Returns when it does.
  bool block(std::promise<void>& until) {
    auto entered = std::make_shared<std::promise<void>>();
    std::future<void> is_in = entered->get_future();
    auto blocked = lane->submit(
        [entered, open = until.get_future().share()](storage::Db&) {
          entered->set_value();
          open.wait();
          return true;
        },
        Delegate<void(bool)>::bind<&BatchQueueTest::on_job>(this));
    if (!blocked) return false;
    tickets.push_back(std::move(*blocked));
    is_in.wait();
    return true;
  }
  void on_job(bool) {}
  void cancel_third() { callers[2].ticket.cancel(); }
  void drop_queue() { queue.reset(); }
  bool run_until_told(std::size_t count) {
    return run_until([&] { return order.size() >= count; });
  }

  test::TempDir dir;
  std::string path = dir.file("x.db");
  std::unique_ptr<storage::Db> db = test::open_migrated(path);
  std::promise<void> gate, second_gate;
  std::vector<Caller*> order;
  std::unique_ptr<DatabaseLane> lane;
  std::unique_ptr<Queue> queue;
  std::vector<Ticket> tickets;
  Caller callers[5];
};

TEST_F(BatchQueueTest, WhatComesMeanwhileIsOneHandOver) {
  start(8);
  ASSERT_TRUE(block(gate));
  for (Caller& caller : callers) ASSERT_TRUE(ask(caller));
  EXPECT_EQ(lane->active_count(), 2U) << "the blocker and the first request";
  gate.set_value();
  ASSERT_TRUE(run_until_told(1));
  EXPECT_LE(lane->active_count(), 1U) << "the four others together";
  ASSERT_TRUE(run_until_told(5));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(order[i], &callers[i]);
  EXPECT_EQ(callers[4].code, TMESH_E_POLICY);
}

TEST_F(BatchQueueTest, NobodyIsToldFromInsideTheCall) {
  start(8);
  ASSERT_TRUE(ask(callers[0]));
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(run_until_told(1));
}

TEST_F(BatchQueueTest, ADestroyedTicketMeansSilence) {
  start(8);
  ASSERT_TRUE(block(gate));
  for (Caller& caller : callers) ASSERT_TRUE(ask(caller));
  callers[0].ticket.cancel();                                                     // handed over
  callers[3].ticket.cancel();                                                     // waits
  callers[1].then = Delegate<void()>::bind<&BatchQueueTest::cancel_third>(this);  // told before it
  gate.set_value();
  ASSERT_TRUE(run_until_told(2));
  EXPECT_EQ(order, (std::vector<Caller*>{&callers[1], &callers[4]}));
  ASSERT_TRUE(run_until([&] { return lane->active_count() == 0; }));
  EXPECT_EQ(order.size(), 2U);
}

TEST_F(BatchQueueTest, RefusesMoreThanMayWait) {
  start(2);
  ASSERT_TRUE(block(gate));
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(ask(callers[i]));  // one is handed over
  EXPECT_FALSE(ask(callers[3]));
  EXPECT_EQ(callers[3].code, TMESH_E_LIMIT);
  gate.set_value();
  ASSERT_TRUE(run_until_told(3));
}

TEST_F(BatchQueueTest, AFullThreadRefusesAtOnceOrLater) {
  start(8, 1);
  ASSERT_TRUE(block(gate));
  ASSERT_TRUE(ask(callers[0]));  // the one job that may wait
  ASSERT_TRUE(ask(callers[1]));
  gate.set_value();
  while (!block(second_gate)) second_gate = {};  // the first request was answered by then
  auto filler = lane->submit([](storage::Db&) { return true; },
                             Delegate<void(bool)>::bind<&BatchQueueTest::on_job>(this));
  ASSERT_TRUE(filler);
  ASSERT_TRUE(run_until_told(2));
  EXPECT_EQ(callers[0].code, TMESH_E_POLICY);
  EXPECT_EQ(callers[1].code, TMESH_E_LIMIT);
  EXPECT_FALSE(ask(callers[2]));
  EXPECT_EQ(callers[2].code, TMESH_E_LIMIT);
  second_gate.set_value();
  ASSERT_TRUE(run_until([&] { return lane->active_count() == 0; }));
  EXPECT_TRUE(ask(callers[3]));
  ASSERT_TRUE(run_until_told(3));
}

// What a full thread refuses is refused whole: a rest that waited without a batch would be
// taken for the next caller's request.
TEST_F(BatchQueueTest, AFullThreadRefusesMoreThanABatchToo) {
  constexpr std::size_t kMany = Queue::kBatchMax + 44;
  start(kMany, 1);
  std::vector<Caller> many(kMany);
  ASSERT_TRUE(block(gate));
  ASSERT_TRUE(ask(callers[0]));  // the one job that may wait
  for (Caller& caller : many) ASSERT_TRUE(ask(caller));
  gate.set_value();
  while (!block(second_gate)) second_gate = {};  // the first request was answered by then
  auto filler = lane->submit([](storage::Db&) { return true; },
                             Delegate<void(bool)>::bind<&BatchQueueTest::on_job>(this));
  EXPECT_TRUE(filler);
  EXPECT_TRUE(run_until_told(1 + kMany));
  for (const Caller& caller : many) EXPECT_EQ(caller.code, TMESH_E_LIMIT);
  EXPECT_FALSE(ask(callers[1]));
  second_gate.set_value();
  ASSERT_TRUE(run_until([&] { return lane->active_count() == 0; }));
  ASSERT_TRUE(ask(callers[2]));
  ASSERT_TRUE(run_until_told(2 + kMany));
  EXPECT_EQ(order.back(), &callers[2]);
  EXPECT_EQ(callers[2].code, TMESH_E_POLICY);
}

TEST_F(BatchQueueTest, MayGoWhileItTells) {
  start(8);
  ASSERT_TRUE(block(gate));
  for (Caller& caller : callers) ASSERT_TRUE(ask(caller));
  callers[1].then = Delegate<void()>::bind<&BatchQueueTest::drop_queue>(this);
  for (Caller& caller : callers) caller.ticket.release();
  gate.set_value();
  ASSERT_TRUE(run_until_told(2));
  EXPECT_FALSE(run_until([&] { return order.size() > 2; }, 20'000));
}

TEST_F(BatchQueueTest, WhereSeveralMayBeInFlightTheSecondGoesWithTheTurnOfTheLoop) {
  start(8, 8, 3, 2);
  std::promise<void> third_gate;
  ASSERT_TRUE(block(gate));
  ASSERT_TRUE(block(second_gate));
  ASSERT_TRUE(block(third_gate));
  for (int i = 0; i < 4; i++) ASSERT_TRUE(ask(callers[i]));
  EXPECT_EQ(queue->batches_count(), 1U) << "the first at once and alone";
  ASSERT_TRUE(run_until([&] { return queue->batches_count() == 2; })) << "three together";
  ASSERT_TRUE(ask(callers[4]));
  EXPECT_FALSE(run_until([&] { return queue->batches_count() > 2; }, 20'000)) << "as many as may be";
  EXPECT_EQ(lane->active_count(), 5U);
  callers[2].ticket.cancel();  // of a batch that is in flight
  gate.set_value();
  ASSERT_TRUE(run_until_told(4));
  EXPECT_EQ(order, (std::vector<Caller*>{&callers[0], &callers[1], &callers[3], &callers[4]}));
  second_gate.set_value();
  third_gate.set_value();
  ASSERT_TRUE(run_until([&] { return lane->active_count() == 0; }));
  EXPECT_EQ(queue->batches_count(), 0U);
}

TEST_F(BatchQueueTest, ALaneThatIsFullAtTheTurnOfTheLoopRefusesThen) {
  start(8, 1, 1, 2);
  ASSERT_TRUE(block(gate));
  for (int i = 0; i < 3; i++) ASSERT_TRUE(ask(callers[i]));  // the one job that may wait; two for the turn
  ASSERT_TRUE(run_until_told(2));
  EXPECT_EQ(callers[1].code, TMESH_E_LIMIT);
  EXPECT_EQ(callers[2].code, TMESH_E_LIMIT);
  gate.set_value();
  ASSERT_TRUE(run_until_told(3));
  EXPECT_EQ(callers[0].code, TMESH_E_POLICY);
}

}  // namespace
}  // namespace tmesh::server
