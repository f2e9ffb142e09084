#include "cpp/server/admin_api/login_flow.hpp"

#include <utility>

#include "cpp/server/admin_api/api_reply.hpp"
#include "cpp/storage/change.hpp"
#include "cpp/storage/user_repository.hpp"

namespace tmesh::server {
namespace {

// One text for everything, so that it tells nothing.
ApiError wrong_credentials() {
  return {.status = 401, .text = "invalid credentials"};
}

std::string login_json(const NewSession& session) {
  std::string text;
  json::Writer out(text);
  out.begin_object().member("token", session.secret.reveal());
  out.key("user").begin_object();
  out.member("id", session.user.id)
      .member("username", session.user.username)
      .member("role", session.user.role);
  out.end_object().key("expiresAt");
  if (session.expires_at.empty()) {
    out.null();
  } else {
    out.string(session.expires_at);
  }
  out.end_object();
  return text;
}

}  // namespace

void LoginJob::run(storage::Db& db) {
  if (!std::exchange(is_found_, true)) return find_user(db);
  start_session(db);
}

void LoginJob::find_user(storage::Db& db) {
  auto found = storage::UserRepository(db).find_by_username(username_);
  if (!found) {
    error_ = api_database_error(found.error()).error();
    return;
  }
  const storage::UserRecord* user = storage::row_of(*found);
  if (user == nullptr) return;
  user_ = *user;
  // Who may not log in costs as much as nobody, and has no hash that could match.
  if (!user->is_disabled && user->deleted_at.empty()) hash_ = user->password_hash;
}

void LoginJob::start_session(storage::Db& db) {
  auto made = storage::change(db, [this](storage::Transaction& tx) {
    return SessionService(ChangeScope(tx, now_us_, user_.id)).start(user_.id, hash_, session_ttl_us_);
  });
  if (made) {
    session_ = std::move(*made);
  } else if (made.error().code == TMESH_E_POLICY) {
    error_ = wrong_credentials();
  } else {
    error_ = api_database_error(made.error()).error();
  }
}

LoginFlow::LoginFlow(ApiHandler& handler, std::string username, Secret password, const IpAddress& address)
    : handler_(handler), username_(std::move(username)), password_(std::move(password)), address_(address) {}

LoginFlow::~LoginFlow() {
  if (is_attempting_) handler_.throttle_.failed(username_, address_, handler_.timers_.now_us());
  handler_.login_admission_.leave(*this);
}

void LoginFlow::start(http::Exchange& exchange) {
  const uint64_t wait_us = handler_.throttle_.begin(username_, address_, handler_.timers_.now_us());
  if (wait_us > 0) {
    exchange.respond(throttled_response(wait_us));
    return handler_.remove(*this);
  }
  is_attempting_ = true;
  deferred_ = exchange.defer(Delegate<void()>::bind<&LoginFlow::on_abort>(this));
  timer_ =
      handler_.timers_.after(ApiHandler::kTimeout_us, Delegate<void()>::bind<&LoginFlow::on_timeout>(this));
  // Last: it may be its turn at once, and over at once.
  if (!handler_.login_admission_.enter(*this, address_)) {
    give_up({.status = 503, .text = "too many logins at once; try again"});
  }
}

void LoginFlow::on_turn() {
  auto asked = handler_.lane_.run(
      std::make_unique<LoginJob>(username_, handler_.timers_.wall_us(), handler_.settings_.session_ttl_us),
      Delegate<void(std::unique_ptr<LaneJob>)>::bind<&LoginFlow::on_found>(this));
  if (!asked) return give_up(api_database_error(asked.error()).error());
  step_ = std::move(*asked);
}

void LoginFlow::on_found(std::unique_ptr<LaneJob> job) {
  step_.release();
  job_.reset(static_cast<LoginJob*>(job.release()));
  if (job_->error()) return give_up(*job_->error());
  auto asked = handler_.passwords_->verify(job_->hash(), std::move(password_),
                                           Delegate<void(Result<void>)>::bind<&LoginFlow::on_verified>(this));
  if (!asked) return give_up(api_database_error(asked.error()).error());
  step_ = std::move(*asked);
}

void LoginFlow::on_verified(Result<void> verified) {
  step_.release();
  if (!verified) {
    if (verified.error().code == TMESH_E_NO_MEMORY) return give_up(api_error(verified.error()).error());
    return refuse();
  }
  auto asked = handler_.lane_.run(
      std::move(job_), Delegate<void(std::unique_ptr<LaneJob>)>::bind<&LoginFlow::on_session>(this));
  if (!asked) return give_up(api_database_error(asked.error()).error());
  step_ = std::move(*asked);
}

void LoginFlow::on_session(std::unique_ptr<LaneJob> job) {
  step_.release();
  job_.reset(static_cast<LoginJob*>(job.release()));
  if (job_->error()) return job_->error()->status == 401 ? refuse() : give_up(*job_->error());
  is_attempting_ = false;
  handler_.throttle_.succeeded(username_, address_, handler_.timers_.now_us());
  ApiReply reply;
  reply.data = login_json(job_->session());
  const http::Response response = api_response(ApiResult(std::move(reply)));
  end(response);
}

void LoginFlow::refuse() {
  is_attempting_ = false;
  handler_.throttle_.failed(username_, address_, handler_.timers_.now_us());
  handler_.events_.on_login_failed(job_->user_id());
  end(api_response(wrong_credentials()));
}

void LoginFlow::give_up(const ApiError& error) {
  if (std::exchange(is_attempting_, false)) {
    handler_.throttle_.withdrawn(username_, address_, handler_.timers_.now_us());
  }
  handler_.log_error(error);
  end(api_response(error));
}

void LoginFlow::on_timeout() {
  give_up({.status = 503, .text = "this takes too long; try again"});
}

void LoginFlow::on_abort() {
  handler_.remove(*this);
}

void LoginFlow::end(const http::Response& response) {
  // An answer lets the next request of the connection in: this one is gone by then.
  http::Deferred deferred = std::move(deferred_);
  handler_.remove(*this);
  if (deferred.active()) deferred.respond(response);
}

}  // namespace tmesh::server
