// Table `audit_logs`: append, read, and let the old go. An entry is written in the
// transaction of the change it records. Errors are those of db.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::storage {

// Each empty member lets everything pass; texts compare byte by byte on both engines.
// `created_from` and `created_to` are timestamp texts and inclusive.
struct AuditFilter {
  std::string actor_user_id;
  std::string action;
  std::string resource_type;
  std::string resource_id;
  std::string created_from;
  std::string created_to;
};

struct AuditPageRequest {
  // The entry behind which to go on; both empty: from the newest. Without `after_created_at`
  // it is looked up by the id (cursors of older programs): TMESH_E_STATE if it is gone.
  std::string after_created_at;
  std::string after_id;
  int limit = 50;  // moved into 1..PageRequest::limit_max
};

class AuditRepository {
 public:
  explicit AuditRepository(Db& db) : db_(db) {}

  // Newest first; limit as in PageRequest.
  Result<std::vector<AuditRecord>> newest(int limit);
  Result<Page<AuditRecord>> list(const AuditPageRequest& request, const AuditFilter& filter);

  static Result<void> append(Transaction& tx, const AuditRecord& entry);
  // Removes the oldest ones written before `before`, at most `rows_max`; their number.
  static Result<uint64_t> purge(Transaction& tx, std::string_view before, int rows_max);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
