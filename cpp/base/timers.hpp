// Time as an interface, so that everything above it runs on a fake clock in tests.
#pragma once

#include <cstdint>

#include "cpp/base/delegate.hpp"
#include "cpp/base/ticket.hpp"

namespace tmesh {

class Timers {
 public:
  virtual ~Timers() = default;
  // Monotonic microseconds; constant within one callback.
  virtual uint64_t now_us() const = 0;
  // Wall clock, microseconds since 1970; may jump. Only for token expiry and reports.
  virtual int64_t wall_us() const = 0;
  // Calls `done` once, delay_us from now at the earliest, never from inside this call.
  // Destroying the Ticket cancels it.
  virtual Ticket after(uint64_t delay_us, Delegate<void()> done) = 0;
};

}  // namespace tmesh
