#include "cpp/server/health.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace tmesh::server {
namespace {

void add_component(std::string& body, std::string_view name, bool is_healthy) {
  body += R"({"name":")";
  body += name;
  body += is_healthy ? R"(","healthy":true})" : R"(","healthy":false})";
}

}  // namespace

void LiveHandler::on_request(http::Exchange& exchange) {
  exchange.respond(http::Response::json(200, R"({"status":"ok"})"));
}

// One request that waits for the database.
class ReadyHandler::Check {
 public:
  Check(ReadyHandler& handler, http::Exchange& exchange)
      : handler_(handler), deferred_(exchange.defer(Delegate<void()>::bind<&Check::remove>(this))) {
    timeout_ = handler_.timers_.after(kDatabaseTimeout_us, Delegate<void()>::bind<&Check::on_timeout>(this));
  }

  // Destroys the check.
  void answer(bool is_healthy) {
    deferred_.respond(handler_.response(is_healthy));
    remove();
  }

  std::list<std::unique_ptr<Check>>::iterator place;

 private:
  void on_timeout() { answer(false); }
  void remove() { handler_.checks_.erase(place); }

  ReadyHandler& handler_;
  http::Deferred deferred_;
  Ticket timeout_;
};

ReadyHandler::ReadyHandler(Timers& timers, Database& database, const RevisionWatch* watch)
    : timers_(timers), database_(database), watch_(watch) {}
ReadyHandler::~ReadyHandler() = default;

http::Response ReadyHandler::response(bool is_database_healthy) const {
  const bool is_cache_healthy = watch_ == nullptr || watch_->is_healthy();
  const bool is_ready = is_database_healthy && is_cache_healthy && !is_draining_;
  std::string body = R"({"status":")";
  body += is_ready ? "ready" : "not_ready";
  body += R"(","components":[)";
  add_component(body, "database", is_database_healthy);
  if (watch_ != nullptr) {
    body += ',';
    add_component(body, "authorization_cache", is_cache_healthy);
  }
  body += "]}";
  http::Response answer = http::Response::json(is_ready ? 200 : 503, std::move(body));
  answer.headers.add("Cache-Control", "no-store");
  return answer;
}

void ReadyHandler::on_request(http::Exchange& exchange) {
  if (!ping_.active()) {
    auto ping = database_.ping(Delegate<void(bool)>::bind<&ReadyHandler::on_ping>(this));
    if (!ping) return exchange.respond(response(false));
    ping_ = std::move(*ping);
  }
  checks_.push_back(std::make_unique<Check>(*this, exchange));
  checks_.back()->place = std::prev(checks_.end());
}

void ReadyHandler::on_ping(bool is_healthy) {
  ping_.release();
  // An answer lets pipelined requests in, which ask anew: only those that waited.
  for (std::size_t left = checks_.size(); left > 0 && !checks_.empty(); left--)
    checks_.front()->answer(is_healthy);
}

}  // namespace tmesh::server
