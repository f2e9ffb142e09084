// The signals a long-running program answers to: SIGINT, SIGTERM and SIGHUP.
//
// Delivered on the loop thread. Does not keep the loop running by itself. The
// Delegate is not called after the object is gone.
#pragma once

#include <memory>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::net {

class Signals {
 public:
  // on_signal(signal number). IO if the kernel refuses.
  static Result<std::unique_ptr<Signals>> open(Loop& loop, Delegate<void(int)> on_signal);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

 private:
  struct Impl;
  explicit Signals(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
