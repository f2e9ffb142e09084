// Cuts an SQL script into statements at the semicolons that end one.
//
// A semicolon inside a string, a quoted identifier or a comment ends nothing. Pure;
// the pieces point into the script. Compound statements (BEGIN ... END of a trigger)
// are not understood: our scripts have none.
#pragma once

#include <string_view>
#include <vector>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

// The statements in order, without their semicolon and the space around them; pieces
// that hold only space and comments are left out. Understood everywhere: '...' and
// "..." and `...` with doubled quotes, -- and /* */ comments. SQLite: [...]. MySQL:
// backslash escapes inside '...' and "...", # comments.
// TMESH_E_INVALID: a string, identifier or block comment is not closed.
Result<std::vector<std::string_view>> split_sql(std::string_view script, Driver driver);

}  // namespace tmesh::storage
