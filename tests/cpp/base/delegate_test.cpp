#include "cpp/base/delegate.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "cpp/base/ticket.hpp"

namespace tmesh {
namespace {

struct Counter {
  int sum = 0;
  void add(int n) { sum += n; }
  int twice(int n) const { return 2 * n; }
};

void add_to(void* context, int n) {
  *static_cast<int*>(context) += n;
}

TEST(Delegate, CallsTheBoundMethod) {
  Counter counter;
  const auto add = Delegate<void(int)>::bind<&Counter::add>(&counter);
  add(3);
  add(4);
  EXPECT_EQ(counter.sum, 7);
  EXPECT_EQ((Delegate<int(int)>::bind<&Counter::twice>(&counter)(5)), 10);
}

TEST(Delegate, CallsTheBoundFunction) {
  int sum = 0;
  Delegate<void(int)>::free<&add_to> (&sum)(9);
  EXPECT_EQ(sum, 9);
}

TEST(Delegate, KnowsWhetherItIsBound) {
  Counter counter;
  EXPECT_FALSE(static_cast<bool>(Delegate<void(int)>()));
  EXPECT_TRUE(static_cast<bool>(Delegate<void(int)>::bind<&Counter::add>(&counter)));
  EXPECT_EQ(sizeof(Delegate<void(int)>), 2 * sizeof(void*));
}

struct Cancelled {
  int count = 0;
  uint64_t last_id = 0;
  static void cancel(void* owner, uint64_t id) {
    auto* self = static_cast<Cancelled*>(owner);
    ++self->count;
    self->last_id = id;
  }
};

TEST(Ticket, DestructionCancelsOnce) {
  Cancelled owner;
  {
    Ticket ticket(&owner, 42, &Cancelled::cancel);
    EXPECT_TRUE(ticket.active());
  }
  EXPECT_EQ(owner.count, 1);
  EXPECT_EQ(owner.last_id, 42u);
}

TEST(Ticket, CancelIsIdempotent) {
  Cancelled owner;
  Ticket ticket(&owner, 1, &Cancelled::cancel);
  ticket.cancel();
  ticket.cancel();
  EXPECT_FALSE(ticket.active());
  EXPECT_EQ(owner.count, 1);
}

TEST(Ticket, MoveTransfersTheRight) {
  Cancelled owner;
  Ticket a(&owner, 1, &Cancelled::cancel);
  Ticket b = std::move(a);
  EXPECT_TRUE(b.active());
  b = Ticket(&owner, 2, &Cancelled::cancel);
  EXPECT_EQ(owner.count, 1) << "assignment cancels what was held before";
  EXPECT_EQ(owner.last_id, 1u);
  b.cancel();
  EXPECT_EQ(owner.last_id, 2u);
}

TEST(Ticket, ReleaseForgetsWithoutCancelling) {
  Cancelled owner;
  {
    Ticket ticket(&owner, 1, &Cancelled::cancel);
    ticket.release();
  }
  EXPECT_EQ(owner.count, 0);
}

}  // namespace
}  // namespace tmesh
