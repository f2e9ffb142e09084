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
  explicit Check(ReadyHandler& handler) : handler_(handler) {}

  void start(http::Exchange& exchange) {
    deferred_ = exchange.defer(Delegate<void()>::bind<&Check::remove>(this));
    auto ping = handler_.database_.ping(Delegate<void(bool)>::bind<&Check::on_ping>(this));
    if (!ping) return on_ping(false);
    ping_ = std::move(*ping);
    timeout_ = handler_.timers_.after(kDatabaseTimeout_us, Delegate<void()>::bind<&Check::on_timeout>(this));
  }

  std::list<std::unique_ptr<Check>>::iterator place;

 private:
  void on_timeout() { on_ping(false); }
  void on_ping(bool is_healthy) {
    deferred_.respond(ready_response(is_healthy && !handler_.is_draining_, is_healthy));
    remove();
  }
  void remove() { handler_.checks_.erase(place); }

  ReadyHandler& handler_;
  http::Deferred deferred_;
  Ticket ping_;
  Ticket timeout_;
};

ReadyHandler::ReadyHandler(Timers& timers, Database& database) : timers_(timers), database_(database) {}
ReadyHandler::~ReadyHandler() = default;

void ReadyHandler::on_request(http::Exchange& exchange) {
  checks_.push_back(std::make_unique<Check>(*this));
  Check& check = *checks_.back();
  check.place = std::prev(checks_.end());
  check.start(exchange);
}

}  // namespace tmesh::server
