// The process's event loop as a C++ object, and its timers.
//
// Owns one tmesh_loop. Everything on the loop is used from the thread that runs it.
// Timers fire in the check phase, after one full poll: bytes that already wait in a
// socket are read before a deadline on them is judged (libuv itself runs timers
// first, so that a busy loop would expel peers that did answer). Resolution is one
// millisecond, never early. The loop outlives every object and Ticket made from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpp/base/result.hpp"
#include "cpp/base/timers.hpp"

struct tmesh_loop;
struct tmesh_pool;

namespace tmesh::net {

class Loop final : public Timers {
 public:
  // memory_budget_bytes bounds all queued stream bytes of the process. NO_MEMORY or
  // IO (the kernel refuses a descriptor).
  static Result<std::unique_ptr<Loop>> create(std::size_t memory_budget_bytes);
  // Closes if close() was not called; a leaked handle is then an assertion failure.
  ~Loop() override;
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  // Until stop() or until nothing is left to wait for.
  void run();
  // Returns from run() after the current iteration; callable from callbacks.
  void stop();
  // One iteration, which waits for the next event. False when nothing is left.
  bool run_once();
  // Drops timers, waits for closes that are under way and closes the loop. False if
  // a handle was leaked, which tests check; nothing may be used afterwards.
  bool close();

  tmesh_loop* raw();
  // Blocks for stream queues, shared by every link and socket of the process.
  tmesh_pool* pool();
  std::size_t timer_count() const;
  // limits.stalled_close_timeout: how long a paused socket whose peer half-closed may
  // stay so before it is reset (60 s unless set).
  void set_stalled_close_us(uint64_t us);

  uint64_t now_us() const override;
  int64_t wall_us() const override;
  Ticket after(uint64_t delay_us, Delegate<void()> done) override;

 private:
  struct Impl;
  explicit Loop(std::unique_ptr<Impl> impl);
  static void cancel_timer(void* owner, uint64_t id);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
