#include "cpp/server/admin_api/api_job.hpp"

#include <utility>

#include "cpp/server/admin_api/api_request.hpp"
#include "cpp/server/session_service.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/revision_bump.hpp"

namespace tmesh::server {

// Who calls, and whether they may call this at all. Inside a transaction.
ApiFound<void> ApiJob::identify(storage::Db& db) {
  if (route().who == ApiWho::anyone) return {};
  auto session = authenticate_session(db, request_.bearer.reveal(), now_us_);
  if (!session) {
    // Which of its reasons it was is nobody's business.
    if (session.error().code == TMESH_E_POLICY) return api_error(401, "the bearer token is not accepted");
    return api_database_error(session.error());
  }
  caller_ = std::move(session->user);
  session_id_ = std::move(session->session_id);
  if (route().who == ApiWho::admin && caller_.role != "admin") {
    return api_error(403, "only administrators may do this");
  }
  return {};
}

void ApiJob::run(storage::Db& db) {
  wants_password_ = false;
  const bool is_read = route().method == http::Method::get;
  result_ = is_read ? run_read(db) : run_change(db);
  // The database is not the loop's.
  if (call_) call_->change = nullptr;
}

ApiResult ApiJob::run_read(storage::Db& db) {
  auto tx = storage::Transaction::read(db);
  if (!tx) return api_database_error(tx.error());
  if (auto known = identify(db); !known) return std::unexpected(std::move(known.error()));
  return call_endpoint(db, nullptr);
}

ApiResult ApiJob::run_change(storage::Db& db) {
  if (!std::exchange(is_checked_, true)) {
    // Nobody takes the writer's lock, or makes us read a megabyte, before he is known.
    auto tx = storage::Transaction::read(db);
    if (!tx) return api_database_error(tx.error());
    if (auto known = identify(db); !known) return std::unexpected(std::move(known.error()));
    auto document = parse_body(route().body_members, request_.body);
    if (!document) return std::unexpected(std::move(document.error()));
    document_ = std::move(*document);
    if (route().changes_password) {
      for (const char* name : {"currentPassword", "newPassword"}) {
        if (!document_.root().get(name).as_string()) {
          return api_error(400, std::string(name) + ": a text is required");
        }
      }
    }
    if (route().makes_password || route().changes_password) {
      wants_password_ = true;
      return ApiReply{};
    }
  }
  std::optional<ApiResult> outcome;
  const Result<int> done = storage::change(db, [&](storage::Transaction& tx) -> Result<int> {
    outcome = change_once(tx);
    if (*outcome) return 0;
    // Whatever the code: nothing is committed. TIMEOUT asks for another run.
    return fail(outcome->error().is_lock_lost ? TMESH_E_TIMEOUT : TMESH_E_POLICY, "refused");
  });
  if (done || (outcome && !*outcome)) return std::move(*outcome);
  return api_database_error(done.error());
}

ApiResult ApiJob::change_once(storage::Transaction& tx) {
  moved_rights_ = false;
  is_replayed_ = false;
  const Result<uint64_t> before = storage::read_revision(tx.db());
  if (!before) return api_database_error(before.error());
  // Again, in the transaction of the change: rights that were taken before it began do not
  // make it.
  if (auto known = identify(tx.db()); !known) return std::unexpected(std::move(known.error()));
  const ChangeScope scope(tx, now_us_, caller_.id);
  // The digest of a body with a password in it would let whoever reads the database guess
  // the password without Argon2.
  const bool is_keyed = request_.idempotency_key && !route().changes_password;
  IdempotentUse use;
  if (is_keyed) {
    use = idempotent_use(caller_.id, *request_.idempotency_key, request_.method, request_.target,
                         request_.body);
    auto kept = take_key(tx, use, now_us_);
    if (!kept) return std::unexpected(std::move(kept.error()));
    if (*kept) {
      is_replayed_ = true;
      return std::move(**kept);
    }
  }
  ApiResult result = call_endpoint(tx.db(), &scope);
  if (!result) return result;
  if (is_keyed) {
    if (auto kept = keep_reply(tx, use, *result, now_us_); !kept) {
      return std::unexpected(std::move(kept.error()));
    }
  }
  const Result<uint64_t> after = storage::read_revision(tx.db());
  if (!after) return api_database_error(after.error());
  moved_rights_ = *after != *before;
  return result;
}

ApiResult ApiJob::call_endpoint(storage::Db& db, const ChangeScope* change) {
  call_.emplace(ApiCall{.db = db,
                        .change = change,
                        .now_us = now_us_,
                        .caller = caller_,
                        .session_id = session_id_,
                        .path = request_.values,
                        .query = request_.query,
                        .body = document_.root(),
                        .headers = &request_.headers,
                        .password = password_ ? &*password_ : nullptr,
                        .live = live_,
                        .node_id = request_.node_id,
                        .secret_box = request_.secret_box});
  return route().run(*call_);
}

}  // namespace tmesh::server
