// A local entry of the client: one of client.tunnels, or what a `forward` command describes.
//
// Entries live independently of the links (requirement J4) and of one another: what is
// made for one tunnel is gone when its Entry is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/client/open_validator.hpp"
#include "cpp/client/stream_opener.hpp"
#include "cpp/config/client.hpp"
#include "cpp/net/loop.hpp"

namespace tmesh::client {

// What entries are made of. References outlive the entries; the rest is copied by them.
struct EntryDeps {
  net::Loop& loop;
  StreamOpener& opener;
  OpenValidator* validator = nullptr;  // may be null only when no tunnel has an auth_url
  uint64_t handshake_timeout_us = 10'000'000;
  uint64_t open_timeout_us = 8'000'000;
  // For a link that is on its way: the longest wait before a successor is dialled (1 s), and
  // the dial.
  uint64_t link_wait_us = 2'000'000;
  uint64_t udp_idle_timeout_us = 60'000'000;
  config::Credentials socks5;
  config::Credentials http_proxy;
};

struct EntryStats {
  uint64_t accepted_count = 0;    // local connections, or associations
  uint64_t over_limit_count = 0;  // of those, closed at once: too many
  uint64_t opens_count = 0;       // streams that were connected
  uint64_t refused_count = 0;     // opens that were not
};

class Entry {
 public:
  // The entry's listener is dead (LESSONS R22): the program cannot do its work any more.
  using Broken = Delegate<void(Entry&)>;

  virtual ~Entry() = default;
  // REFUSED (in use), POLICY (permission), INVALID (not a local address), IO. The text says
  // the same in words.
  virtual Result<void> listen() = 0;
  // Nothing new, and what has not asked for anything yet is closed; opens and flows go on.
  virtual void stop_listening() = 0;
  // 0 while it does not listen, and on a Unix socket.
  virtual uint16_t port() const = 0;
  // Local connections or associations that live.
  virtual std::size_t locals_count() const = 0;
  virtual const EntryStats& stats() const = 0;
  // Datagrams, either way.
  virtual uint64_t dropped_count() const { return 0; }
};

// The entry for the tunnel's protocol; both are copied.
std::unique_ptr<Entry> make_entry(const EntryDeps& deps, const config::Tunnel& tunnel, Entry::Broken broken);

}  // namespace tmesh::client
