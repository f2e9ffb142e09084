// How many requests of the API may be under way at once, in all and per client address.
//
// Requests that run are those that hold the database's lane; the others wait in the order
// they came. A place is taken from entering to leaving, whatever the request does meanwhile,
// so one address cannot fill the queue. Owns nothing of its entries. Loop thread; no time.
#pragma once

#include <cstddef>
#include <list>

#include "cpp/base/address.hpp"
#include "cpp/http/address_limit.hpp"

namespace tmesh::server {

class ApiAdmission {
 public:
  struct Limits {
    // One: what people ask for must not take the lane's other connection from presence,
    // and SQLite has only one.
    std::size_t running_max = 1;
    // At some milliseconds each, the last one waits a second or two.
    std::size_t waiting_max = 256;
    // A browser opens six connections, a script some; a quarter of the queue.
    std::size_t per_address_max = 64;
  };

  // A request. It leaves before it goes.
  class Entry {
   public:
    // From now on it runs. May leave inside.
    virtual void on_turn() = 0;

   protected:
    ~Entry() = default;

   private:
    friend class ApiAdmission;
    enum class State { outside, waiting, running, resting };
    State state_ = State::outside;
    IpAddress address_;
    std::list<Entry*>::iterator place_;
  };

  explicit ApiAdmission(Limits limits);

  // Takes a place; its on_turn runs inside this call or later. False: there is none.
  bool enter(Entry& entry, const IpAddress& address);
  // Running: lets others run, and keeps its place. Afterwards it is resumed or leaves.
  void rest(Entry& entry);
  // Runs again as soon as it can, before those that never ran.
  void resume(Entry& entry);
  // Outside: nothing happens.
  void leave(Entry& entry);
  // Nobody gets a turn any more.
  void stop() { is_stopped_ = true; }

  std::size_t running_count() const { return running_count_; }
  std::size_t waiting_count() const { return waiting_.size(); }

 private:
  void start_next();

  const Limits limits_;
  http::AddressLimit addresses_;
  std::list<Entry*> waiting_;
  std::size_t running_count_ = 0;
  bool is_stopped_ = false;
};

}  // namespace tmesh::server
