// Looks a database over for a person: whether this program can use it, and whether what it
// holds makes sense. Reads only; may read every row of the tables that decide about rights.
// Blocking.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

struct DatabaseFinding {
  const char* name;  // "schema", "revision", ...; static
  bool is_good = false;
  std::string text;  // what was found; names tables and columns, holds no data
};

struct DatabaseCount {
  const char* table;
  int64_t rows = 0;
};

struct DatabaseCheck {
  int64_t version = 0;
  std::vector<std::string> pending_steps;
  std::vector<DatabaseFinding> findings;
  std::vector<DatabaseCount> counts;  // empty while the schema is not usable
  bool is_good() const;
};

// What cannot be looked at is a finding. A Problem: not even the version can be read.
Opened<DatabaseCheck> check_database(Db& db);

}  // namespace tmesh::storage
