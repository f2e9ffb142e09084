// What a database's schema is, and what has to be done so that this program can use it.
// Reads only. Blocking; owns nothing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

inline constexpr int64_t schema_version = 9;
inline constexpr int64_t schema_version_oldest = 8;  // upgrades begin here

// Statements that belong together; each can be repeated on a database where some of them
// were done already.
struct SchemaStep {
  std::string name;  // for people: "create schema version 9"
  std::vector<std::string> statements;
};

struct SchemaPlan {
  int64_t version = 0;  // 0: empty, or (MySQL) its creation was cut short
  std::vector<SchemaStep> steps;
};

// The version row. TMESH_E_INVALID: a database that is not ours, or without a usable version.
Opened<int64_t> read_schema_version(Db& db);

// TMESH_E_UNSUPPORTED: older than upgrades begin. A newer version has no steps but those that
// make room in a column (wide_columns()).
Opened<SchemaPlan> plan_schema(Db& db);

// The plan of a database that does not exist yet.
Opened<SchemaPlan> plan_new_schema(Driver driver);

// Everything this program needs and the database lacks, in words: "the column agents.name".
// A newer version owes us no index.
Opened<std::vector<std::string>> schema_gaps(Db& db, int64_t version);

// Whether a statement of a step needs no second run: the index it creates exists, the column
// it widens is wide. All others say IF NOT EXISTS themselves.
Opened<bool> is_statement_done(Db& db, std::string_view statement);

}  // namespace tmesh::storage
