#include "cpp/server/audit_trail.hpp"

#include <utility>

#include "cpp/base/log.hpp"
#include "cpp/server/database.hpp"
#include "cpp/server/ids.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

bool AuditTrail::note(const Entry& entry) {
  if (waiting_.size() >= kWaitingMax || !gate_.admits(timers_.now_us())) {
    dropped_++;
    untold_++;
    return false;
  }
  storage::AuditRecord row;
  row.id = new_id("audit");
  row.action = entry.action;
  row.actor_user_id = entry.actor_user_id;
  row.resource_type = entry.resource_type;
  row.resource_id = entry.resource_id;
  if (const uint64_t untold = std::exchange(untold_, 0); untold > 0) {
    row.details = R"({"not_written_before":)" + std::to_string(untold) + "}";
  }
  row.created_at = storage::format_timestamp(storage::system_clock()());
  waiting_.push_back(std::move(row));
  write_next();
  return true;
}

void AuditTrail::write_next() {
  if (write_.active() || waiting_.empty()) return;
  auto asked = database_.append_audit(std::move(waiting_.front()),
                                      Delegate<void(Result<void>)>::bind<&AuditTrail::on_written>(this));
  waiting_.pop_front();
  if (!asked) return on_written(std::unexpected(asked.error()));
  write_ = std::move(*asked);
}

void AuditTrail::on_written(Result<void> done) {
  write_.release();
  if (!done) {
    log::warn("audit_not_written", {{"reason", done.error().text}});
    dropped_++;
    untold_++;
  }
  write_next();
}

}  // namespace tmesh::server
