#include "cpp/server/housekeeping.hpp"

#include <string>

#include "cpp/storage/audit_repository.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/idempotency_repository.hpp"
#include "cpp/storage/session_repository.hpp"
#include "cpp/storage/timestamp.hpp"

namespace tmesh::server {
namespace {

constexpr int64_t day_us = 86'400'000'000;
constexpr int64_t session_grace_days = 1;  // no session is lost to a clock that jumps for hours

std::string days_before(int64_t now_us, int64_t days) {
  return storage::format_timestamp(now_us - days * day_us);
}

}  // namespace

Result<Housekept> housekeep(storage::Db& db, int64_t now_us, uint64_t audit_retention_days) {
  using storage::Transaction;
  Housekept kept;
  if (audit_retention_days > 0) {
    const std::string before = days_before(now_us, static_cast<int64_t>(audit_retention_days));
    const Result<uint64_t> removed = storage::change(db, [&](Transaction& tx) {
      return storage::AuditRepository::purge(tx, before, housekeeping_rows_max);
    });
    if (!removed) return std::unexpected(removed.error());
    kept.audit_count = *removed;
  }
  const std::string ended_before = days_before(now_us, session_grace_days);
  const Result<uint64_t> sessions = storage::change(db, [&](Transaction& tx) {
    return storage::SessionRepository::purge(tx, ended_before, housekeeping_rows_max);
  });
  if (!sessions) return std::unexpected(sessions.error());
  kept.session_count = *sessions;
  const std::string now = storage::format_timestamp(now_us);
  const Result<int64_t> keys = storage::change(db, [&](Transaction& tx) {
    return storage::IdempotencyRepository::purge(tx, now, housekeeping_rows_max);
  });
  if (!keys) return std::unexpected(keys.error());
  kept.idempotency_count = static_cast<uint64_t>(*keys);
  for (const uint64_t count : {kept.audit_count, kept.session_count, kept.idempotency_count}) {
    kept.has_more = kept.has_more || count == housekeeping_rows_max;
  }
  return kept;
}

}  // namespace tmesh::server
