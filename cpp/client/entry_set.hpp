// The entries of a client, and how one list of tunnels becomes another one while they run.
//
// A tunnel that is the same in both lists keeps its entry: listener and flows are not touched.
// One that changed gets a new entry; its old one listens no more and goes with its last local
// connection (LESSONS P-K5), likewise that of a tunnel that is gone. Where old and new listen
// at the same place the old listener is closed just before the new one opens, and a port that
// the system chose stays. A tunnel that cannot listen is an error of that tunnel only: where
// there was an old one, that goes on.
//
// Owns the entries. Those that go are looked at every kSweep_us, because an entry does not
// tell when its last local connection ends. One thread; time comes from Timers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cpp/base/timers.hpp"
#include "cpp/client/entry.hpp"

namespace tmesh::client {

// What an entry was made from; borrowed.
struct Served {
  const config::Tunnel* tunnel;
  const EntryDeps* deps;
  uint16_t port;  // where it listens; 0 on a Unix socket
};

struct TunnelPlan {
  enum class Step : uint8_t {
    keep,
    add,      // there is none of this name
    replace,  // another entry at the same place
    move,     // another entry at another place
  };
  struct Item {
    Step step;
    std::size_t running;  // which one of those that run; unless it is `add`
  };
  std::vector<Item> wanted;           // one per tunnel
  std::vector<std::size_t> obsolete;  // of those that run
};

// Pure. Tunnels are the same by name; names are unique in each list.
TunnelPlan plan_tunnels(const std::vector<Served>& running, const std::vector<config::Tunnel>& wanted,
                        const EntryDeps& deps);

class EntrySet {
 public:
  using Make = std::unique_ptr<Entry> (*)(const EntryDeps& deps, const config::Tunnel& tunnel,
                                          Entry::Broken broken);
  // A tunnel that does not listen as it should.
  struct Failure {
    std::string tunnel;
    std::string place;  // "127.0.0.1:1080", "unix:/run/a"
    const char* text;
  };
  struct Running {
    config::Tunnel tunnel;
    EntryDeps deps;
    std::unique_ptr<Entry> entry;
  };

  static constexpr uint64_t kSweep_us = 1'000'000;

  // broken: the listener of an entry that should listen is dead. left: an entry is gone for
  // good, so agents() may have changed.
  EntrySet(Timers& timers, Entry::Broken broken, Delegate<void()> left, Make make = &make_entry);
  EntrySet(const EntrySet&) = delete;
  EntrySet& operator=(const EntrySet&) = delete;

  // Says in the log what comes and goes. May be called again with the same list: what failed is
  // tried again.
  std::vector<Failure> apply(const std::vector<config::Tunnel>& wanted, const EntryDeps& deps);
  void stop_listening();

  // Those that should listen, in the order of the tunnels.
  const std::vector<std::unique_ptr<Running>>& running() const { return running_; }
  std::size_t leaving_count() const { return leaving_.size(); }
  // Local connections of all, also of those that go.
  std::size_t locals_count() const;
  // Agents that an entry may still open streams through.
  std::set<std::string> agents() const;

 private:
  struct Leaving {
    std::string agent_id;
    std::unique_ptr<Entry> entry;
  };

  // Null, and a failure if they are wanted, when it does not listen.
  std::unique_ptr<Running> started(const config::Tunnel& tunnel, const EntryDeps& deps,
                                   std::vector<Failure>* failures);
  std::unique_ptr<Running> replaced(std::unique_ptr<Running> old, const config::Tunnel& tunnel,
                                    const EntryDeps& deps, std::vector<Failure>& failures);
  std::unique_ptr<Running> restored(const config::Tunnel& tunnel, const EntryDeps& deps);
  void leave(std::unique_ptr<Running> running);
  void sweep();

  Timers& timers_;
  const Entry::Broken broken_;
  const Delegate<void()> left_;
  const Make make_;
  std::vector<std::unique_ptr<Running>> running_;
  std::list<Leaving> leaving_;
  Ticket sweep_;
};

}  // namespace tmesh::client
