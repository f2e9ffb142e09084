// Outgoing TCP connections and connected UDP sockets as an interface (the real one is net::Dialer).
#pragma once

#include <cstdint>
#include <string_view>

#include "cpp/base/address.hpp"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"

namespace tmesh {

struct DialResult {
  tmesh_status status{};       // OK; DNS, REFUSED, NET_UNREACHABLE, HOST_UNREACHABLE, TIMEOUT, POLICY, IO
  bool failed_in_dns = false;  // else in connect
  int fd = -1;                 // owned by the receiver
  uint64_t dns_us = 0;
  uint64_t connect_us = 0;
};

struct DialRequest {
  std::string_view host;  // copied
  uint16_t port = 0;
  bool is_datagram = false;         // UDP: the socket is connected, nothing was sent
  uint64_t timeout_us = 0;          // everything, from now
  uint64_t connect_timeout_us = 0;  // each attempt; 0 = only the above
  // Whether the address may be dialled (is_name: the host was a name). Unset = all.
  Delegate<bool(const IpAddress&, bool is_name)> filter;
};

class Dialer {
 public:
  virtual ~Dialer() = default;
  // done exactly once, never from inside the call; never after the Ticket is gone.
  // Destroying the Ticket closes everything.
  virtual Result<Ticket> dial(const DialRequest& request, Delegate<void(DialResult)> done) = 0;
};

}  // namespace tmesh
