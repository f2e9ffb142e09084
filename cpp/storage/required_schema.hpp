// The tables and columns without which this program does not work: those that the
// repositories name, and those that deployed servers check at their start.
#pragma once

#include <span>

namespace tmesh::storage {

struct RequiredTable {
  const char* name;
  std::span<const char* const> columns;
};

std::span<const RequiredTable> required_tables();

// Columns that hold random 64-bit epochs or counters of ours. Deployed servers made some of
// them INTEGER, which MySQL cuts at 2^31 (LESSONS R16); an older program reads them wide
// as well. `type` as in ddl.sql, without PRIMARY KEY.
struct WideColumn {
  const char* table;
  const char* name;
  const char* type;
};

std::span<const WideColumn> wide_columns();

inline constexpr const char* required_index = "idx_users_role_deleted";

}  // namespace tmesh::storage
