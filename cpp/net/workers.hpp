// Blocking work (databases, password hashes, files) on a bounded pool of threads.
//
//   ticket_ = workers.submit([sql = std::move(sql)] { return read(sql); },
//                            Delegate<void(Result<Row>)>::bind<&Flow::on_row>(this));
//
// The work is moved in, its result is moved out; it touches nothing else. `done` runs
// on the loop thread, never from inside submit. Destroying the Ticket of a waiting job
// removes it; of a running one drops its result when it ends. Either way `done` does
// not run. The pool outlives the Tickets of its jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::net {

class Workers {
 public:
  // At most pending_max jobs wait besides those that run. IO if threads cannot be made.
  static Result<std::unique_ptr<Workers>> create(Loop& loop, unsigned threads, std::size_t pending_max);
  // Drops waiting jobs and waits for running ones.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // F is move-only friendly: R work(). LIMIT when pending_max jobs wait, NO_MEMORY without threads.
  template <class F, class R = std::invoke_result_t<F&>>
  Result<Ticket> submit(F work, Delegate<void(R)> done) {
    return submit_job(std::make_unique<TypedJob<F, R>>(std::move(work), done));
  }
  template <class F>
    requires std::is_void_v<std::invoke_result_t<F&>>
  Result<Ticket> submit(F work, Delegate<void()> done) {
    return submit_job(std::make_unique<VoidJob<F>>(std::move(work), done));
  }

  // Threads end when nothing is left to do, and are made again by the next job: see workers.h.
  void end_idle_threads();

  // Jobs that wait or run and were not cancelled.
  std::size_t active_count() const;

 private:
  class Job {
   public:
    virtual ~Job() = default;
    virtual void work() = 0;     // worker thread
    virtual void deliver() = 0;  // loop thread
  };

  template <class F, class R>
  class TypedJob final : public Job {
   public:
    TypedJob(F work, Delegate<void(R)> done) : work_(std::move(work)), done_(done) {}
    void work() override { result_.emplace(work_()); }
    void deliver() override { done_(std::move(*result_)); }

   private:
    F work_;
    Delegate<void(R)> done_;
    std::optional<R> result_;
  };

  template <class F>
  class VoidJob final : public Job {
   public:
    VoidJob(F work, Delegate<void()> done) : work_(std::move(work)), done_(done) {}
    void work() override { work_(); }
    void deliver() override { done_(); }

   private:
    F work_;
    Delegate<void()> done_;
  };

  struct Impl;
  friend struct WorkersGlue;
  explicit Workers(std::unique_ptr<Impl> impl);
  Result<Ticket> submit_job(std::unique_ptr<Job> job);
  static void cancel(void* owner, uint64_t id);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
