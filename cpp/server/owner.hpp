// The owner of something that is about to be written.
#pragma once

#include <string_view>

#include "cpp/base/result.hpp"
#include "cpp/server/change_scope.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {

// The user is there, neither disabled nor deleted, and stays so until the change is over.
// TMESH_E_INVALID; else as db.hpp.
inline Result<void> check_live_owner(const ChangeScope& scope, std::string_view user_id) {
  const Result<std::optional<storage::UserRecord>> found = storage::UserRepository(scope.tx()).find(user_id);
  if (!found) return std::unexpected(found.error());
  const storage::UserRecord* user = storage::row_of(*found);
  if (user == nullptr || user->is_disabled || !user->deleted_at.empty())
    return fail(TMESH_E_INVALID, "the owner is not there, disabled or deleted");
  return {};
}

}  // namespace tmesh::server
