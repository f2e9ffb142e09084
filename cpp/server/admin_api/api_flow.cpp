#include "cpp/server/admin_api/api_flow.hpp"

#include <utility>

#include "cpp/server/admin_api/api_reply.hpp"

namespace tmesh::server {
namespace {

http::Response busy_response() {
  return api_response(ApiError{.status = 503, .text = "too many requests at once; try again"});
}

}  // namespace

ApiFlow::ApiFlow(ApiHandler& handler, ApiRequest request, const IpAddress& address)
    : handler_(handler), request_(std::move(request)), address_(address) {}

ApiFlow::~ApiFlow() {
  // Who does not wait for the answer has tried all the same.
  if (is_attempting_) handler_.throttle_.failed(job_->caller().username, address_, handler_.timers_.now_us());
  handler_.requests_.leave(*this);
}

void ApiFlow::start(http::Exchange& exchange) {
  deferred_ = exchange.defer(Delegate<void()>::bind<&ApiFlow::on_abort>(this));
  timer_ = handler_.timers_.after(ApiHandler::kTurnTimeout_us,
                                  Delegate<void()>::bind<&ApiFlow::on_turn_timeout>(this));
  // Last: it may be its turn at once, and over at once.
  if (!handler_.requests_.enter(*this, address_)) end(busy_response());
}

void ApiFlow::on_turn() {
  if (job_ != nullptr) return run(std::move(job_));  // the second run
  timer_ =
      handler_.timers_.after(ApiHandler::kTimeout_us, Delegate<void()>::bind<&ApiFlow::on_timeout>(this));
  // The body stays with the connection until now, which counts it.
  request_.body = deferred_.request().body;
  const bool needs_live = request_.route->needs_live && !request_.values.empty();
  std::vector<LiveAgentLink> live;
  if (needs_live) live = handler_.live_.agent_links(request_.values.front());
  auto job = std::make_unique<ApiJob>(std::move(request_), handler_.timers_.wall_us());
  job->set_live(std::move(live));
  run(std::move(job));
}

void ApiFlow::run(std::unique_ptr<ApiJob> job) {
  auto asked = handler_.lane_.run(std::move(job),
                                  Delegate<void(std::unique_ptr<LaneJob>)>::bind<&ApiFlow::on_ran>(this));
  if (!asked) return end(busy_response());
  step_ = std::move(*asked);
  is_running_ = true;
}

void ApiFlow::on_ran(std::unique_ptr<LaneJob> job) {
  step_.release();
  is_running_ = false;
  job_.reset(static_cast<ApiJob*>(job.release()));
  // Before anybody is told that the change is done.
  if (job_->moved_rights()) handler_.events_.on_rights_changed();
  if (job_->wants_password()) return hash();
  finish();
}

void ApiFlow::hash() {
  if (!deferred_.active()) return end({});  // nothing was changed yet
  if (job_->route().changes_password) {
    // Whoever holds a stolen token shall not find the password out with it.
    const uint64_t wait_us =
        handler_.throttle_.begin(job_->caller().username, address_, handler_.timers_.now_us());
    if (wait_us > 0) return end(throttled_response(wait_us));
    is_attempting_ = true;
  }
  auto asked = ask_for_hash();
  if (!asked) {
    end_attempt(std::unexpected(asked.error()));
    return end(busy_response());
  }
  step_ = std::move(*asked);
  handler_.requests_.rest(*this);
}

Result<Ticket> ApiFlow::ask_for_hash() {
  const auto done = Delegate<void(Result<PreparedPassword>)>::bind<&ApiFlow::on_hashed>(this);
  if (job_->route().makes_password) return handler_.passwords_->make(done);
  const auto member = [this](const char* name) {
    return Secret(job_->body().get(name).as_string().value_or(""));
  };
  return handler_.passwords_->change(job_->caller().password_hash, member("currentPassword"),
                                     member("newPassword"), done);
}

void ApiFlow::end_attempt(const Result<PreparedPassword>& made) {
  if (!std::exchange(is_attempting_, false)) return;
  const std::string& name = job_->caller().username;
  const uint64_t now_us = handler_.timers_.now_us();
  if (made) return handler_.throttle_.succeeded(name, address_, now_us);
  if (made.error().code == TMESH_E_POLICY) return handler_.throttle_.failed(name, address_, now_us);
  handler_.throttle_.withdrawn(name, address_, now_us);
}

void ApiFlow::on_hashed(Result<PreparedPassword> made) {
  step_.release();
  end_attempt(made);
  if (made) {
    job_->set_password(std::move(*made));
    return handler_.requests_.resume(*this);
  }
  if (made.error().code == TMESH_E_POLICY) {
    return end(api_response(ApiError{.status = 403, .text = "currentPassword: is wrong"}));
  }
  if (made.error().code == TMESH_E_INVALID) {
    return end(
        api_response(ApiError{.status = 400, .text = std::string("newPassword: ") + made.error().text}));
  }
  end(api_response(api_database_error(made.error()).error()));
}

void ApiFlow::finish() {
  ApiResult& result = job_->result();
  if (const ApiCall* call = job_->call(); call != nullptr && job_->route().after != nullptr) {
    job_->route().after(handler_.live_, *call, result);
  }
  if (!result) handler_.log_error(result.error());
  http::Response response = api_response(result);
  if (job_->is_replayed()) response.headers.add("Idempotency-Replayed", "true");
  end(response);
}

void ApiFlow::on_turn_timeout() {
  end(busy_response());
}

// The job may be in the middle of a commit, so it goes on; its end is heard without a client.
void ApiFlow::on_timeout() {
  const http::Response response = api_response(
      ApiError{.status = 503, .text = "this takes too long; whether it was done can be asked for"});
  if (is_running_) return answer(response);
  end(response);
}

void ApiFlow::on_abort() {
  if (!is_running_) handler_.remove(*this);
}

void ApiFlow::answer(const http::Response& response) {
  if (deferred_.active()) deferred_.respond(response);
}

void ApiFlow::end(const http::Response& response) {
  // An answer lets the next request of the connection in: this one is gone by then.
  http::Deferred deferred = std::move(deferred_);
  handler_.remove(*this);
  if (deferred.active()) deferred.respond(response);
}

}  // namespace tmesh::server
