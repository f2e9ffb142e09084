// Brings a database to the schema this program needs, or says why it cannot.
//
//   fresh (no tables)      full DDL, then the version row          one transaction
//   version 8              v0008_to_v0009                          one transaction
//   version 9              nothing
//   newer                  opened if every table and column we need is there
//   older than 8, foreign, damaged                                 refused
//
// With auto_init off nothing is ever written and only version 9 is accepted. Several
// programs may do this at once: whoever comes second finds the work done.
#pragma once

#include <cstdint>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

inline constexpr int64_t schema_version = 9;

struct SchemaReport {
  int64_t version_before = 0;  // 0: the database was empty
  int64_t version = 0;
};

// What a migration would find; changes nothing. version == version_before.
Opened<SchemaReport> inspect_schema(Db& db);

// After success the tables and columns we need are there.
Opened<SchemaReport> migrate(Db& db, bool auto_init);

}  // namespace tmesh::storage
