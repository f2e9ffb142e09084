// What links did that somebody may want to know later, as rows of the audit log.
//
// Rows are written one at a time by the database's thread, so the loop never waits. Links
// must not be able to keep that thread busy, since every open waits for it: at most
// kRowsMax rows are begun in a LogGate::kWindow_us, kWaitingMax wait, and the others are
// only counted; the next row says how many. Owns the write under way; what waits at the
// end of the program is lost. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "cpp/base/result.hpp"
#include "cpp/base/timers.hpp"
#include "cpp/server/log_gate.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::server {

class Database;

class AuditTrail {
 public:
  static constexpr uint32_t kRowsMax = 10;
  static constexpr std::size_t kWaitingMax = 16;

  AuditTrail(Timers& timers, Database& database) : timers_(timers), database_(database) {}

  struct Entry {
    std::string_view action;
    std::string_view actor_user_id;  // whose token it was
    std::string_view resource_type;
    std::string_view resource_id;
  };
  // False: not written down, only counted.
  bool note(const Entry& entry);

  uint64_t dropped_count() const { return dropped_; }
  std::size_t waiting_count() const { return waiting_.size(); }

 private:
  void write_next();
  void on_written(Result<void> done);

  Timers& timers_;
  Database& database_;
  LogGate gate_{kRowsMax};
  uint64_t dropped_ = 0;
  uint64_t untold_ = 0;  // of those, not yet in a row
  std::deque<storage::AuditRecord> waiting_;
  Ticket write_;
};

}  // namespace tmesh::server
