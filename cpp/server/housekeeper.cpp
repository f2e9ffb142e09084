#include "cpp/server/housekeeper.hpp"

#include <utility>

#include "cpp/base/log.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {

void Housekeeper::sleep(uint64_t us) {
  step_ = timers_.after(us, Delegate<void()>::bind<&Housekeeper::on_due>(this));
}

void Housekeeper::on_due() {
  step_.release();
  auto call = database_.write([days = audit_retention_days_](
                                  storage::Db& db) { return housekeep(db, storage::system_clock()(), days); },
                              Delegate<void(Result<Housekept>)>::bind<&Housekeeper::on_kept>(this));
  if (!call) return on_kept(std::unexpected(call.error()));
  step_ = std::move(*call);
}

void Housekeeper::on_kept(Result<Housekept> done) {
  step_.release();
  if (!done) {
    log::warn("housekeeping_failed", {{"reason", done.error().text}});
    return sleep(kRetry_us);
  }
  removed_.audit_count += done->audit_count;
  removed_.session_count += done->session_count;
  removed_.idempotency_count += done->idempotency_count;
  if (done->has_more) return sleep(kPause_us);
  const Housekept removed = std::exchange(removed_, {});
  if (removed.audit_count + removed.session_count + removed.idempotency_count > 0) {
    log::info("housekeeping", {{"audit_entries", removed.audit_count},
                               {"sessions", removed.session_count},
                               {"idempotency_keys", removed.idempotency_count}});
  }
  sleep(kInterval_us);
}

}  // namespace tmesh::server
