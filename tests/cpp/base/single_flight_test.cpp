#include "cpp/base/single_flight.hpp"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <vector>

namespace tmesh {
namespace {

using Flights = SingleFlight<int>;

struct Work final : Flights::Flight {
  explicit Work(int& destroyed) : destroyed_count(destroyed) {}
  ~Work() override { destroyed_count++; }
  int& destroyed_count;
};

struct Caller {
  void on_answer(int answer) {
    answers.push_back(answer);
    if (then) then();
  }
  Flights::Done done() { return Flights::Done::bind<&Caller::on_answer>(this); }
  std::vector<int> answers;
  Delegate<void()> then;
  Ticket ticket;
};

constexpr auto always = [] { return true; };

struct SingleFlightTest : testing::Test {
  Flights::Flight& begin(const std::string& name) {
    return flights->begin(name, std::make_unique<Work>(destroyed_count));
  }
  void join(Flights::Flight& flight, Caller& caller) { caller.ticket = flights->join(flight, caller.done()); }
  void cancel_second() { callers[1].ticket.cancel(); }
  void destroy() {
    for (Caller& c : callers) c.ticket.release();
    flights.reset();
  }
  void begin_again() { join(begin("k"), callers[3]); }

  int destroyed_count = 0;
  std::unique_ptr<Flights> flights = std::make_unique<Flights>();
  Caller callers[4];
};

TEST_F(SingleFlightTest, CallersOfOneKeyAreToldInTheirOrder) {
  Flights::Flight& flight = begin("k");
  EXPECT_EQ(flights->find("k"), &flight);
  EXPECT_EQ(flights->find("other"), nullptr);
  for (Caller& c : callers) join(flight, c);
  EXPECT_EQ(flight.callers_count(), 4u);
  EXPECT_EQ(flights->end(flight, 7, always), nullptr);
  for (Caller& c : callers) EXPECT_EQ(c.answers, std::vector<int>{7});
  EXPECT_EQ(destroyed_count, 1);
  EXPECT_EQ(flights->find("k"), nullptr);
}

// LESSONS Z7: the first caller's cancellation is its own.
TEST_F(SingleFlightTest, TheFirstCallersCancellationTouchesNobodyElse) {
  Flights::Flight& flight = begin("k");
  for (Caller& c : callers) join(flight, c);
  callers[0].ticket.cancel();
  callers[2].ticket.cancel();
  EXPECT_EQ(destroyed_count, 0);
  flights->end(flight, 7, always);
  EXPECT_TRUE(callers[0].answers.empty());
  EXPECT_EQ(callers[1].answers, std::vector<int>{7});
  EXPECT_TRUE(callers[2].answers.empty());
  EXPECT_EQ(callers[3].answers, std::vector<int>{7});
}

TEST_F(SingleFlightTest, TheLastCallersCancellationDestroysTheWork) {
  Flights::Flight& flight = begin("k");
  join(flight, callers[0]);
  join(flight, callers[1]);
  callers[1].ticket.cancel();
  EXPECT_EQ(destroyed_count, 0);
  callers[0].ticket.cancel();
  EXPECT_EQ(destroyed_count, 1);
  EXPECT_EQ(flights->find("k"), nullptr);
  EXPECT_EQ(flights->flights_count(), 0u);
}

TEST_F(SingleFlightTest, ATicketOfOneWhoWasToldIsWorthless) {
  Flights::Flight& flight = begin("k");
  join(flight, callers[0]);
  flights->end(flight, 7, always);
  join(begin("k"), callers[1]);  // takes the same place
  callers[0].ticket.cancel();
  EXPECT_EQ(flights->flights_count(), 1u);
  EXPECT_EQ(flights->find("k")->callers_count(), 1u);
}

TEST_F(SingleFlightTest, NobodyFindsAFlightWithoutAKey) {
  begin("");
  begin("");
  EXPECT_EQ(flights->flights_count(), 2u);
  EXPECT_EQ(flights->find(""), nullptr);
}

TEST_F(SingleFlightTest, AbandonTellsNobody) {
  Flights::Flight& flight = begin("k");
  join(flight, callers[0]);
  flights->abandon(flight);
  EXPECT_TRUE(callers[0].answers.empty());
  EXPECT_EQ(destroyed_count, 1);
  callers[0].ticket.cancel();
}

TEST_F(SingleFlightTest, ACallerMayCancelTheNextOneWhileBeingTold) {
  Flights::Flight& flight = begin("k");
  for (Caller& c : callers) join(flight, c);
  callers[0].then = Delegate<void()>::bind<&SingleFlightTest::cancel_second>(this);
  flights->end(flight, 7, always);
  EXPECT_TRUE(callers[1].answers.empty());
  EXPECT_EQ(callers[2].answers, std::vector<int>{7});
  EXPECT_EQ(destroyed_count, 1);
}

TEST_F(SingleFlightTest, ACallerMayCancelTheLastOneWhileBeingTold) {
  Flights::Flight& flight = begin("k");
  join(flight, callers[0]);
  join(flight, callers[1]);
  callers[0].then = Delegate<void()>::bind<&SingleFlightTest::cancel_second>(this);
  EXPECT_EQ(flights->end(flight, 7, always), nullptr);
  EXPECT_EQ(destroyed_count, 1);
}

TEST_F(SingleFlightTest, WhoAsksWhileBeingToldBeginsAnew) {
  Flights::Flight& flight = begin("k");
  join(flight, callers[0]);
  callers[0].then = Delegate<void()>::bind<&SingleFlightTest::begin_again>(this);
  flights->end(flight, 7, always);
  EXPECT_TRUE(callers[3].answers.empty());
  ASSERT_NE(flights->find("k"), nullptr);
  flights->end(*flights->find("k"), 8, always);
  EXPECT_EQ(callers[3].answers, std::vector<int>{8});
}

TEST_F(SingleFlightTest, ACallerMayDestroyEverythingWhileBeingTold) {
  Flights::Flight& flight = begin("k");
  join(flight, callers[0]);
  join(flight, callers[1]);
  callers[0].then = Delegate<void()>::bind<&SingleFlightTest::destroy>(this);
  EXPECT_EQ(flights->end(flight, 7, always), nullptr);
  EXPECT_EQ(destroyed_count, 1);
  EXPECT_TRUE(callers[1].answers.empty());
}

TEST_F(SingleFlightTest, WhoIsNotToldKeepsAFlightThatNobodyFinds) {
  Flights::Flight& flight = begin("k");
  for (Caller& c : callers) join(flight, c);
  int left = 2;
  EXPECT_EQ(flights->end(flight, 7, [&left] { return left-- > 0; }), &flight);
  EXPECT_EQ(flight.callers_count(), 2u);
  EXPECT_EQ(flights->find("k"), nullptr);
  EXPECT_EQ(flights->end(flight, 8, always), nullptr);
  EXPECT_EQ(callers[1].answers, std::vector<int>{7});
  EXPECT_EQ(callers[2].answers, std::vector<int>{8});
  EXPECT_EQ(destroyed_count, 1);
}

// Every caller is told once or was cancelled; a flight lives as long as it has callers.
TEST_F(SingleFlightTest, RandomCallersAreToldOnceOrCancelled) {
  std::mt19937_64 random(7);
  std::vector<std::unique_ptr<Caller>> all;
  std::vector<bool> is_cancelled;
  for (int step = 0; step < 50'000; step++) {
    const std::string name(1, static_cast<char>('a' + random() % 4));
    Flights::Flight* flight = flights->find(name);
    switch (random() % 4) {
      case 0:
      case 1:
        all.push_back(std::make_unique<Caller>());
        is_cancelled.push_back(false);
        join(flight != nullptr ? *flight : begin(name), *all.back());
        break;
      case 2:
        if (flight != nullptr) flights->end(*flight, step, always);
        break;
      default: {
        if (all.empty()) break;
        const std::size_t any = all.size() - 1 - random() % std::min<std::size_t>(all.size(), 8);
        if (all[any]->answers.empty()) is_cancelled[any] = true;
        all[any]->ticket.cancel();
      }
    }
  }
  for (const char name : {'a', 'b', 'c', 'd'}) {
    if (Flights::Flight* flight = flights->find(std::string(1, name))) flights->end(*flight, 0, always);
  }
  EXPECT_EQ(flights->flights_count(), 0u);
  for (std::size_t i = 0; i < all.size(); i++)
    ASSERT_EQ(all[i]->answers.size(), is_cancelled[i] ? 0u : 1u) << i;
}

}  // namespace
}  // namespace tmesh
