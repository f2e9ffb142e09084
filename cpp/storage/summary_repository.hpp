// Counts over several tables for the overview page: one filter for all of them, so that the
// numbers belong together (LESSONS R17). Errors are those of db.hpp.
#pragma once

#include <cstdint>
#include <string_view>

#include "cpp/storage/db.hpp"

namespace tmesh::storage {

struct Summary {
  int64_t agents_count = 0;
  int64_t agents_enabled_count = 0;
  int64_t agents_online_count = 0;  // with a lease that has not expired, enabled or not
  int64_t connections_count = 0;
  int64_t streams_count = 0;
  int64_t policies_count = 0;
  int64_t tokens_count = 0;
  int64_t tokens_live_count = 0;  // neither revoked nor expired
  // Of the whole installation; 0 when the filter names an owner.
  int64_t users_count = 0;
  int64_t users_disabled_count = 0;
  int64_t nodes_count = 0;
  int64_t nodes_online_count = 0;
};

// `owner_user_id` empty: everybody's. Deleted users and servers are not counted.
Result<Summary> read_summary(Db& db, std::string_view owner_user_id, std::string_view now);

}  // namespace tmesh::storage
