// GET /health/live and /health/ready (INTERFACE 6.3). Liveness does no I/O. Readiness
// asks the database, at most one second, and, where decisions are kept, whether changes of
// rights can be followed (component authorization_cache, requirement D7); requests that come while a question
// is under way share its answer, so that nobody can fill the database's queue from outside. No error text
// leaves the server.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "cpp/http/exchange.hpp"
#include "cpp/server/database.hpp"
#include "cpp/server/revision_watch.hpp"

namespace tmesh::server {

class LiveHandler final : public http::Handler {
 public:
  void on_request(http::Exchange& exchange) override;
};

class ReadyHandler final : public http::Handler {
 public:
  static constexpr uint64_t kDatabaseTimeout_us = 1'000'000;

  // watch: nullptr where no decisions are kept. All outlive it.
  ReadyHandler(Timers& timers, Database& database, const RevisionWatch* watch = nullptr);
  ~ReadyHandler();

  void on_request(http::Exchange& exchange) override;
  // From now on not ready: a balancer shall send nothing new.
  void begin_drain() { is_draining_ = true; }

 private:
  class Check;
  friend class Check;

  http::Response response(bool is_database_healthy) const;
  void on_ping(bool is_healthy);

  Timers& timers_;
  Database& database_;
  const RevisionWatch* const watch_;
  bool is_draining_ = false;
  Ticket ping_;
  std::list<std::unique_ptr<Check>> checks_;
};

}  // namespace tmesh::server
