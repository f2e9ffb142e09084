// A SOCKS5 entry: one local listener and the flows that came in through it.
//
// Each accepted socket is one Socks5Local: handshake (bounded in time), open, then a
// TcpFlow. Success is replied only after the agent is connected to the target (strict
// links); a slow or silent local client holds nothing but its own place. At most
// kLocalsMax at once; beyond that newcomers are closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "cpp/client/socks5.hpp"
#include "cpp/client/stream_opener.hpp"
#include "cpp/net/listener.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::client {

struct Socks5EntryOptions {
  std::string name;
  std::string agent_id;
  Socks5Login login;  // used when has_login
  bool has_login = false;
  uint64_t handshake_timeout_us = 10'000'000;
  uint64_t open_timeout_us = 8'000'000;
  // For a link that is on its way: the longest wait before a successor is dialled (1 s), and
  // the dial.
  uint64_t link_wait_us = 2'000'000;
};

class Socks5Local;

class Socks5Entry {
 public:
  // The entry's listener is dead (LESSONS R22).
  using Broken = Delegate<void(Socks5Entry&)>;

  Socks5Entry(net::Loop& loop, StreamOpener& opener, Socks5EntryOptions options, Broken broken);
  ~Socks5Entry();

  // REFUSED (in use), POLICY (permission), INVALID (not a local address), IO.
  Result<void> listen(const std::string& host, uint16_t port);
  // No new sockets, and those that have not sent their request yet are closed; opens and
  // flows go on.
  void stop_listening();
  // 0 while it does not listen.
  uint16_t port() const { return listener_ ? listener_.port() : 0; }
  std::size_t locals_count() const { return locals_.size(); }

  static constexpr std::size_t kLocalsMax = 16'384;

 private:
  friend class Socks5Local;
  void on_accept(int fd, const net::Peer& peer);
  void on_broken(tmesh_status why);
  // Destroys it.
  void remove(Socks5Local& local);

  net::Loop& loop_;
  StreamOpener& opener_;
  const Socks5EntryOptions options_;
  Broken broken_;
  net::Listener listener_;
  std::list<std::unique_ptr<Socks5Local>> locals_;
  bool is_full_ = false;           // said so in the log
  bool is_legacy_logged_ = false;  // likewise, that opens had to be repeated as legacy
};

}  // namespace tmesh::client
