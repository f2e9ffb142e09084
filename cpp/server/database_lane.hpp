// Connections to the database for one kind of work, as asynchronous calls for the loop.
//
// Owns the connections and as many threads, so a call that runs has a connection to
// itself; which one is not said. Calls start in the order they were made; with one
// connection they also end in it.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"
#include "cpp/net/workers.hpp"
#include "cpp/storage/db.hpp"

namespace tmesh::server {

class DatabaseLane {
 public:
  // At least one connection. At most pending_max calls wait besides those that run. IO if
  // threads cannot be made.
  static Result<std::unique_ptr<DatabaseLane>> create(net::Loop& loop,
                                                      std::vector<std::unique_ptr<storage::Db>> connections,
                                                      std::size_t pending_max) {
    std::unique_ptr<DatabaseLane> lane(new DatabaseLane(std::move(connections)));
    auto workers = net::Workers::create(loop, static_cast<unsigned>(lane->connections_.size()), pending_max);
    if (!workers) return std::unexpected(workers.error());
    lane->workers_ = std::move(*workers);
    return lane;
  }
  DatabaseLane(const DatabaseLane&) = delete;
  DatabaseLane& operator=(const DatabaseLane&) = delete;

  // Runs `R work(storage::Db&)` on a thread of the lane and hands its result to `done` on
  // the loop. As net::Workers::submit: LIMIT when too many calls wait; a cancelled call
  // that already runs is finished and its result dropped.
  template <class F, class R = std::invoke_result_t<F&, storage::Db&>>
  Result<Ticket> submit(F work, Delegate<void(R)> done) {
    return workers_->submit(
        [this, work = std::move(work)]() mutable -> R {
          const Borrowed db(*this);
          return work(*db);
        },
        done);
  }

  std::size_t connections_count() const { return connections_.size(); }
  storage::Driver driver() const { return connections_.front()->driver(); }
  // Calls that wait or run and were not cancelled.
  std::size_t active_count() const { return workers_->active_count(); }

 private:
  // A connection for the length of one call.
  class Borrowed {
   public:
    explicit Borrowed(DatabaseLane& lane) : lane_(lane) {
      const std::scoped_lock hold(lane.lock_);
      TMESH_ASSERT(!lane.idle_.empty());  // there are no more threads than connections
      db_ = lane.idle_.back();
      lane.idle_.pop_back();
    }
    ~Borrowed() {
      const std::scoped_lock hold(lane_.lock_);
      lane_.idle_.push_back(db_);
    }
    Borrowed(const Borrowed&) = delete;
    Borrowed& operator=(const Borrowed&) = delete;
    storage::Db& operator*() const { return *db_; }

   private:
    DatabaseLane& lane_;
    storage::Db* db_;
  };

  explicit DatabaseLane(std::vector<std::unique_ptr<storage::Db>> connections)
      : connections_(std::move(connections)) {
    TMESH_ASSERT(!connections_.empty());
    for (const auto& db : connections_) idle_.push_back(db.get());
  }

  const std::vector<std::unique_ptr<storage::Db>> connections_;
  std::mutex lock_;
  std::vector<storage::Db*> idle_;
  std::unique_ptr<net::Workers> workers_;  // ends its threads before the rest goes
};

}  // namespace tmesh::server
