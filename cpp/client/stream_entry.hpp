// An entry that accepts byte streams: its listener and the local connections that came in
// through it. What is spoken on them is the Local's business.
//
// At most kLocalsMax at once; beyond that newcomers are closed. A slow or silent local
// client holds nothing but its own place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>

#include "cpp/client/entry.hpp"
#include "cpp/client/opening.hpp"
#include "cpp/net/listener.hpp"
#include "cpp/session/tcp_flow.hpp"

namespace tmesh::client {

// What every open of the tunnel's entry goes by.
OpeningSettings opening_settings_of(const EntryDeps& deps, const config::Tunnel& tunnel);

// One local connection from its first byte to its last.
class Local {
 public:
  using Place = std::list<std::unique_ptr<Local>>::iterator;

  virtual ~Local() = default;
  // Takes fd over, which needs no options any more. May end in remove().
  virtual void start(int fd) = 0;
  // It has not asked for anything yet, so nothing is lost when it is closed.
  virtual bool is_idle() const = 0;

  Place place;  // in the entry's list
};

class StreamEntry : public Entry {
 public:
  StreamEntry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken);
  ~StreamEntry() override;

  Result<void> listen() override;
  void stop_listening() override;
  uint16_t port() const override { return listener_ ? listener_.port() : 0; }
  std::size_t locals_count() const override { return locals_.size(); }
  const EntryStats& stats() const override { return stats_; }

  // For its locals.
  net::Loop& loop() const { return deps_.loop; }
  const EntryDeps& deps() const { return deps_; }
  const config::Tunnel& tunnel() const { return tunnel_; }
  std::unique_ptr<Opening> make_opening(Opening::Done done) {
    return std::make_unique<Opening>(deps_.opener, deps_.validator, deps_.loop, opening_, done);
  }
  void count(const tmesh_open_result& result) {
    (result.accepted ? stats_.opens_count : stats_.refused_count)++;
  }
  // One line at debug for the end of a flow, without its target.
  void log_flow(const session::TcpFlow& flow, tmesh_status why) const;
  // Destroys it.
  void remove(Local& local);

  static constexpr std::size_t kLocalsMax = 16'384;

 protected:
  virtual std::unique_ptr<Local> make_local() = 0;
  // A new local connection, whose socket becomes the entry's.
  void take(int fd);
  // To be called by the destructor of every class derived: locals use it.
  void close();

 private:
  void on_accept(int fd, const net::Peer&) { take(fd); }
  void on_broken(tmesh_status why);

  const EntryDeps deps_;
  const config::Tunnel tunnel_;
  OpeningSettings opening_;
  const Broken broken_;
  net::Listener listener_;
  std::list<std::unique_ptr<Local>> locals_;
  EntryStats stats_;
  bool is_full_ = false;  // said so in the log
};

}  // namespace tmesh::client
