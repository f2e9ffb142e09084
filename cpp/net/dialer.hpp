// The real tmesh::Dialer: Happy Eyeballs over core/loop/dial with an own resolver.
//
// One per loop; outlives the Tickets of its dials. The Delegate of a dial may start
// another dial and may destroy its own Ticket. Names are resolved with c-ares
// unless it is told otherwise; there is no cache.
#pragma once

#include <cstddef>
#include <memory>

#include "cpp/base/dial.hpp"
#include "cpp/net/loop.hpp"

struct tmesh_resolver;

namespace tmesh::net {

class Dialer final : public tmesh::Dialer {
 public:
  // servers: null = the system's name servers; otherwise "127.0.0.1:5353,...".
  // NO_MEMORY if the resolver cannot be made.
  static Result<std::unique_ptr<Dialer>> create(Loop& loop, const char* servers = nullptr);
  // Names are resolved by getaddrinfo() in a pool of threads; core/loop/resolver_system.h.
  static Result<std::unique_ptr<Dialer>> create_system(Loop& loop);
  // Cancels every dial.
  ~Dialer() override;
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;

  // NO_MEMORY, DNS (a name that is refused), LIMIT.
  Result<Ticket> dial(const DialRequest& request, Delegate<void(DialResult)> done) override;
  std::size_t active_count() const;

 private:
  struct Impl;
  friend struct DialerGlue;
  explicit Dialer(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<Dialer>> create_with(Loop& loop, tmesh_resolver* resolver);
  static void cancel(void* owner, uint64_t id);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tmesh::net
