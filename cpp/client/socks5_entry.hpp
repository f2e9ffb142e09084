// A SOCKS5 entry: without or with user name and password (RFC 1928, RFC 1929).
//
// Each accepted socket is one Socks5Local: handshake (bounded in time), open, then a
// TcpFlow. Success is replied only after the agent is connected to the target (strict
// links).
#pragma once

#include <memory>

#include "cpp/client/socks5.hpp"
#include "cpp/client/stream_entry.hpp"

namespace tmesh::client {

class Socks5Entry final : public StreamEntry {
 public:
  Socks5Entry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken);
  ~Socks5Entry() override { close(); }

  // What a local client must show; null = nothing.
  const Socks5Login* login() const { return has_login_ ? &login_ : nullptr; }

 private:
  std::unique_ptr<Local> make_local() override;

  const bool has_login_;
  const Socks5Login login_;
};

}  // namespace tmesh::client
