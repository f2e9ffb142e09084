#include "cpp/server/change_scope.hpp"

#include <utility>

#include "core/base/check.h"
#include "cpp/server/ids.hpp"
#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

// An entry without an actor says where it came from.
std::string from_command_line(std::string_view details) {
  const std::string_view members = details.substr(1);
  return R"({"source":"command line")" + std::string(members == "}" ? "" : ",") + std::string(members);
}

}  // namespace

ChangeScope::ChangeScope(storage::Transaction& tx, int64_t now_us, std::string actor_user_id)
    : tx_(tx),
      now_us_(now_us),
      now_(storage::format_timestamp(now_us)),
      actor_user_id_(std::move(actor_user_id)) {}

Result<void> ChangeScope::audit(std::string_view action, std::string_view resource_type,
                                std::string_view resource_id, std::string_view details) const {
  TMESH_ASSERT(details.starts_with('{') && details.ends_with('}'));
  storage::AuditRecord entry;
  entry.id = new_id("audit");
  entry.actor_user_id = actor_user_id_;
  entry.action = action;
  entry.resource_type = resource_type;
  entry.resource_id = resource_id;
  entry.details = actor_user_id_.empty() ? from_command_line(details) : std::string(details);
  entry.created_at = now_;
  return storage::AuditRepository::append(tx_, entry);
}

}  // namespace tmesh::server
