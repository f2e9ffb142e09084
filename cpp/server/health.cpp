#include "cpp/server/health.hpp"

#include <utility>

namespace tmesh::server {
namespace {

http::Response ready_response(bool is_ready, bool is_database_healthy) {
  std::string body = R"({"status":")";
  body += is_ready ? "ready" : "not_ready";
  body += R"(","components":[{"name":"database","healthy":)";
  body += is_database_healthy ? "true" : "false";
  body += "}]}";
  http::Response response = http::Response::json(is_ready ? 200 : 503, std::move(body));
  response.headers.add("Cache-Control", "no-store");
  return response;
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
    deferred_.respond(ready_response(is_healthy && !handler_.is_draining_, is_healthy));
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

ReadyHandler::ReadyHandler(Timers& timers, Database& database) : timers_(timers), database_(database) {}
ReadyHandler::~ReadyHandler() = default;

void ReadyHandler::on_request(http::Exchange& exchange) {
  if (!ping_.active()) {
    auto ping = database_.ping(Delegate<void(bool)>::bind<&ReadyHandler::on_ping>(this));
    if (!ping) return exchange.respond(ready_response(false, false));
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
