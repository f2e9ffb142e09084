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

inline constexpr const char* required_index = "idx_users_role_deleted";

}  // namespace tmesh::storage
