#include "cpp/client/socks5_entry.hpp"

#include "cpp/client/socks5_local.hpp"

namespace tmesh::client {

Socks5Entry::Socks5Entry(const EntryDeps& deps, const config::Tunnel& tunnel, Broken broken)
    : StreamEntry(deps, tunnel, broken),
      has_login_(tunnel.auth == config::Tunnel::Auth::password),
      login_{deps.socks5.username, deps.socks5.password} {}

std::unique_ptr<Local> Socks5Entry::make_local() {
  return std::make_unique<Socks5Local>(*this);
}

}  // namespace tmesh::client
