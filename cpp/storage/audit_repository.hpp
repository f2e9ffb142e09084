// Table `audit_logs`: append, and read the newest. An entry is written in the
// transaction of the change it records. Errors are those of db.hpp.
#pragma once

#include "cpp/storage/db.hpp"
#include "cpp/storage/records.hpp"

namespace tmesh::storage {

class AuditRepository {
 public:
  explicit AuditRepository(Db& db) : db_(db) {}

  // Newest first; limit as in PageRequest.
  Result<std::vector<AuditRecord>> newest(int limit);

  static Result<void> append(Transaction& tx, const AuditRecord& entry);

 private:
  Db& db_;
};

}  // namespace tmesh::storage
