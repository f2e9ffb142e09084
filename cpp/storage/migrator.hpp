// Brings a database to the schema this program needs, or says why it cannot.
//
//   fresh (no tables)      full DDL, then the version row
//   version 8              v0008_to_v0009
//   version 9              nothing
//   newer                  opened if every table and column we need is there
//   older than 8, foreign, damaged                                 refused
//
// On MySQL, columns that deployed servers made too narrow for our numbers are widened, at
// every version (wide_columns()).
//
// A step is one transaction. MySQL commits at each DDL statement, so there the statements
// can be repeated, the version moves last, and a step that was cut short is run again by
// whoever comes next. Several programs may do this at once: one works (the write lock of
// SQLite, a named lock of MySQL), the others wait and find the work done.
//
// With auto_init off nothing is ever written and only version 9 is accepted.
#pragma once

#include <cstdint>

#include "cpp/storage/db.hpp"
#include "cpp/storage/schema_plan.hpp"

namespace tmesh::storage {

struct SchemaReport {
  int64_t version_before = 0;  // 0: the database was empty
  int64_t version = 0;
};

// After success the tables and columns we need are there. TMESH_E_TIMEOUT: another program
// has been migrating for longer than the wait.
Opened<SchemaReport> migrate(Db& db, bool auto_init);

}  // namespace tmesh::storage
