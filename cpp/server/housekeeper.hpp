// Removes rows that are of no more use, once a day, beside what the server does otherwise:
// a batch at a time in the lane of writes, with a pause after each for everybody else.
// Owns the call under way. Loop thread.
#pragma once

#include <cstdint>

#include "cpp/base/timers.hpp"
#include "cpp/server/database.hpp"
#include "cpp/server/housekeeping.hpp"

namespace tmesh::server {

class Housekeeper {
 public:
  // A server that starts has other things to do first.
  static constexpr uint64_t kFirst_us = 60'000'000;
  static constexpr uint64_t kInterval_us = 86'400'000'000;
  static constexpr uint64_t kPause_us = 200'000;
  static constexpr uint64_t kRetry_us = 3'600'000'000;  // after an error

  // Both outlive it. audit_retention_days 0: audit entries stay for ever.
  Housekeeper(Timers& timers, Database& database, uint64_t audit_retention_days)
      : timers_(timers), database_(database), audit_retention_days_(audit_retention_days) {
    sleep(kFirst_us);
  }
  Housekeeper(const Housekeeper&) = delete;
  Housekeeper& operator=(const Housekeeper&) = delete;

 private:
  void sleep(uint64_t us);
  void on_due();
  void on_kept(Result<Housekept> done);

  Timers& timers_;
  Database& database_;
  const uint64_t audit_retention_days_;
  Housekept removed_;  // since the day's first batch
  Ticket step_;        // the timer, or the call
};

}  // namespace tmesh::server
