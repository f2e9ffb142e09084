#include "cpp/server/authorize_queue.hpp"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "tests/cpp/net/loop_fixture.hpp"
#include "tests/cpp/storage/temp_db.hpp"

namespace tmesh::server {
namespace {

// Requests of tokens that do not exist: who is told what, and when, is what matters here.
class AuthorizeQueueTest : public net::LoopTest {
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

  void start(std::size_t waiting_max, std::size_t pending_max = 8) {
    workers = std::move(*net::Workers::create(loop(), 1, pending_max));
    queue = std::make_unique<AuthorizeQueue>(*workers, authorizer, waiting_max);
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
    auto blocked = workers->submit(
        [entered, open = until.get_future().share()] {
          entered->set_value();
          open.wait();
        },
        Delegate<void()>::bind<&AuthorizeQueueTest::on_job>(this));
    if (!blocked) return false;
    tickets.push_back(std::move(*blocked));
    is_in.wait();
    return true;
  }
  void on_job() {}
  void cancel_third() { callers[2].ticket.cancel(); }
  void drop_queue() { queue.reset(); }
  bool run_until_told(std::size_t count) {
    return run_until([&] { return order.size() >= count; });
  }

  test::TempDir dir;
  std::unique_ptr<storage::Db> db = test::open_migrated(dir.file("x.db"));
  test::FakeClock time;
  Authorizer authorizer{*db, time.clock()};
  std::promise<void> gate, second_gate;
  std::vector<Caller*> order;
  std::unique_ptr<net::Workers> workers;
  std::unique_ptr<AuthorizeQueue> queue;
  std::vector<Ticket> tickets;
  Caller callers[5];
};

TEST_F(AuthorizeQueueTest, WhatComesMeanwhileIsOneHandOver) {
  start(8);
  ASSERT_TRUE(block(gate));
  for (Caller& caller : callers) ASSERT_TRUE(ask(caller));
  EXPECT_EQ(workers->active_count(), 2U) << "the blocker and the first request";
  gate.set_value();
  ASSERT_TRUE(run_until_told(1));
  EXPECT_LE(workers->active_count(), 1U) << "the four others together";
  ASSERT_TRUE(run_until_told(5));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(order[i], &callers[i]);
  EXPECT_EQ(callers[4].code, TMESH_E_POLICY);
}

TEST_F(AuthorizeQueueTest, NobodyIsToldFromInsideTheCall) {
  start(8);
  ASSERT_TRUE(ask(callers[0]));
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(run_until_told(1));
}

TEST_F(AuthorizeQueueTest, ADestroyedTicketMeansSilence) {
  start(8);
  ASSERT_TRUE(block(gate));
  for (Caller& caller : callers) ASSERT_TRUE(ask(caller));
  callers[0].ticket.cancel();                                                         // handed over
  callers[3].ticket.cancel();                                                         // waits
  callers[1].then = Delegate<void()>::bind<&AuthorizeQueueTest::cancel_third>(this);  // told before it
  gate.set_value();
  ASSERT_TRUE(run_until_told(2));
  EXPECT_EQ(order, (std::vector<Caller*>{&callers[1], &callers[4]}));
  ASSERT_TRUE(run_until([&] { return workers->active_count() == 0; }));
  EXPECT_EQ(order.size(), 2U);
}

TEST_F(AuthorizeQueueTest, RefusesMoreThanMayWait) {
  start(2);
  ASSERT_TRUE(block(gate));
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(ask(callers[i]));  // one is handed over
  EXPECT_FALSE(ask(callers[3]));
  EXPECT_EQ(callers[3].code, TMESH_E_LIMIT);
  gate.set_value();
  ASSERT_TRUE(run_until_told(3));
}

TEST_F(AuthorizeQueueTest, AFullThreadRefusesAtOnceOrLater) {
  start(8, 1);
  ASSERT_TRUE(block(gate));
  ASSERT_TRUE(ask(callers[0]));  // the one job that may wait
  ASSERT_TRUE(ask(callers[1]));
  gate.set_value();
  while (!block(second_gate)) second_gate = {};  // the first request was answered by then
  auto filler = workers->submit([] {}, Delegate<void()>::bind<&AuthorizeQueueTest::on_job>(this));
  ASSERT_TRUE(filler);
  ASSERT_TRUE(run_until_told(2));
  EXPECT_EQ(callers[0].code, TMESH_E_POLICY);
  EXPECT_EQ(callers[1].code, TMESH_E_LIMIT);
  EXPECT_FALSE(ask(callers[2]));
  EXPECT_EQ(callers[2].code, TMESH_E_LIMIT);
  second_gate.set_value();
  ASSERT_TRUE(run_until([&] { return workers->active_count() == 0; }));
  EXPECT_TRUE(ask(callers[3]));
  ASSERT_TRUE(run_until_told(3));
}

// What a full thread refuses is refused whole: a rest that waited without a batch would be
// taken for the next caller's request.
TEST_F(AuthorizeQueueTest, AFullThreadRefusesMoreThanABatchToo) {
  constexpr std::size_t kMany = AuthorizeQueue::kBatchMax + 44;
  start(kMany, 1);
  std::vector<Caller> many(kMany);
  ASSERT_TRUE(block(gate));
  ASSERT_TRUE(ask(callers[0]));  // the one job that may wait
  for (Caller& caller : many) ASSERT_TRUE(ask(caller));
  gate.set_value();
  while (!block(second_gate)) second_gate = {};  // the first request was answered by then
  auto filler = workers->submit([] {}, Delegate<void()>::bind<&AuthorizeQueueTest::on_job>(this));
  EXPECT_TRUE(filler);
  EXPECT_TRUE(run_until_told(1 + kMany));
  for (const Caller& caller : many) EXPECT_EQ(caller.code, TMESH_E_LIMIT);
  EXPECT_FALSE(ask(callers[1]));
  second_gate.set_value();
  ASSERT_TRUE(run_until([&] { return workers->active_count() == 0; }));
  ASSERT_TRUE(ask(callers[2]));
  ASSERT_TRUE(run_until_told(2 + kMany));
  EXPECT_EQ(order.back(), &callers[2]);
  EXPECT_EQ(callers[2].code, TMESH_E_POLICY);
}

TEST_F(AuthorizeQueueTest, MayGoWhileItTells) {
  start(8);
  ASSERT_TRUE(block(gate));
  for (Caller& caller : callers) ASSERT_TRUE(ask(caller));
  callers[1].then = Delegate<void()>::bind<&AuthorizeQueueTest::drop_queue>(this);
  for (Caller& caller : callers) caller.ticket.release();
  gate.set_value();
  ASSERT_TRUE(run_until_told(2));
  EXPECT_FALSE(run_until([&] { return order.size() > 2; }, 20'000));
}

}  // namespace
}  // namespace tmesh::server
