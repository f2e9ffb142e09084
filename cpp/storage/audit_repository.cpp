#include "cpp/storage/audit_repository.hpp"

#include <algorithm>

#include "cpp/storage/rows.hpp"

namespace tmesh::storage {
namespace {

#define AUDIT_COLUMNS "id, actor_user_id, action, resource_type, resource_id, details, created_at"

AuditRecord read(RowReader& row) {
  AuditRecord entry;
  entry.id = row.text();
  entry.actor_user_id = row.optional_text();
  entry.action = row.text();
  entry.resource_type = row.text();
  entry.resource_id = row.optional_text();
  entry.details = row.text();
  entry.created_at = row.text();
  return entry;
}

}  // namespace

Result<std::vector<AuditRecord>> AuditRepository::newest(int limit) {
  const Param params[] = {std::clamp(limit, 1, PageRequest::limit_max)};
  return query_all<AuditRecord>(
      db_, "SELECT " AUDIT_COLUMNS " FROM audit_logs ORDER BY created_at DESC, id DESC LIMIT ?", params,
      read);
}

Result<void> AuditRepository::append(Transaction& tx, const AuditRecord& entry) {
  const Param params[] = {entry.id,
                          Param::nullable(entry.actor_user_id),
                          entry.action,
                          entry.resource_type,
                          Param::nullable(entry.resource_id),
                          entry.details,
                          entry.created_at};
  return change_one(tx.db(), "INSERT INTO audit_logs (" AUDIT_COLUMNS ") VALUES (?, ?, ?, ?, ?, ?, ?)",
                    params);
}

}  // namespace tmesh::storage
