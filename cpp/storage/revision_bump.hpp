// The authorisation revision: one number that grows with every change of rights, so
// that caches on all servers can tell (requirements D5 to D8).
//
// It is stepped only by the repositories, inside the transaction of the change, and
// by exactly the changes of requirement D6.
#pragma once

#include <cstdint>
#include <string_view>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

// Adds 1. TMESH_E_INVALID: the row is missing, is not a number, or the number would
// pass 2^63-1; the caller's transaction must then not be committed.
Result<void> bump_revision(Transaction& tx, std::string_view now);

// TMESH_E_INVALID: missing, negative, above 2^63-1 or not a number, which requirement
// D8 treats as an inconsistent database; every other error is a failed poll.
Result<uint64_t> read_revision(Db& db);

}  // namespace tmesh::storage
