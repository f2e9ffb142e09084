// Rows that are of no more use: audit entries beyond their retention, sessions that ended,
// answers kept for repetitions. Blocking: runs on a database thread. Keeps nothing.
#pragma once

#include <cstdint>

#include "cpp/base/result.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::server {

// Rows of one table that one call removes: a few milliseconds, for which other writers wait.
inline constexpr int housekeeping_rows_max = 500;

struct Housekept {
  uint64_t audit_count = 0;
  uint64_t session_count = 0;
  uint64_t idempotency_count = 0;
  bool has_more = false;  // call again, and let others have the database in between
};

// One batch of each table, each in its own transaction. `audit_retention_days` 0: audit
// entries stay for ever. Errors as db.hpp; what was removed before stays removed.
Result<Housekept> housekeep(storage::Db& db, int64_t now_us, uint64_t audit_retention_days);

}  // namespace tmesh::server
