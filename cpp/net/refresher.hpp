// A value that is made from files, made anew when they change or on request (SIGHUP).
//
// Owns one worker thread, there while it is needed, on which the files are read and the value is
// made: the loop does not wait for a disk. Requests that come while it is being made are one more time
// afterwards. What the value means is the owner's business. One thread but for that.
#pragma once

#include <memory>
#include <utility>

#include "cpp/net/file_watch.hpp"

namespace tmesh::net {

template <class Value>
class Refresher {
 public:
  // Runs on the worker and must not touch what the loop thread changes.
  using Make = Delegate<Value()>;
  // On the loop thread. May destroy the Refresher.
  using Made = Delegate<void(Value)>;

  // IO: no thread can be made. The loop outlives it.
  static Result<std::unique_ptr<Refresher>> create(Loop& loop, Make make, Made made,
                                                   const FileWatch::Pace& pace = {}) {
    auto workers = Workers::create(loop, 1, kJobsMax);
    if (!workers) return std::unexpected(workers.error());
    (*workers)->end_idle_threads();
    return std::unique_ptr<Refresher>(new Refresher(loop, std::move(*workers), make, made, pace));
  }
  Refresher(const Refresher&) = delete;
  Refresher& operator=(const Refresher&) = delete;

  // The files that it is made from, as they were read; they may be others after each time.
  void watch(FilePrints known, bool is_watching) { watch_.watch(std::move(known), is_watching); }
  // Makes the value anew even if no file changed.
  void request() { watch_.check(); }

 private:
  // One look at the files and one making; both never wait for another of their kind.
  static constexpr std::size_t kJobsMax = 4;

  Refresher(Loop& loop, std::unique_ptr<Workers> workers, Make make, Made made, const FileWatch::Pace& pace)
      : workers_(std::move(workers)),
        make_(make),
        made_(made),
        watch_(loop, loop, *workers_, Delegate<void()>::bind<&Refresher::begin>(this), pace) {}

  void begin() {
    if (job_.active()) {
      is_wanted_ = true;
      return;
    }
    auto submitted = workers_->submit([make = make_] { return make(); },
                                      Delegate<void(Value)>::template bind<&Refresher::on_made>(this));
    if (submitted) job_ = std::move(*submitted);
  }

  void on_made(Value value) {
    job_.release();
    if (std::exchange(is_wanted_, false)) begin();
    made_(std::move(value));
  }

  std::unique_ptr<Workers> workers_;
  const Make make_;
  const Made made_;
  Ticket job_;
  bool is_wanted_ = false;
  FileWatch watch_;
};

}  // namespace tmesh::net
