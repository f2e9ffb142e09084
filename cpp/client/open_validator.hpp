// Whether a local user may open a target, as a service of the operator's says
// (`auth_url`, requirement D10); the real one is client::RemoteValidator.
#pragma once

#include <cstdint>
#include <string_view>

#include "cpp/base/delegate.hpp"
#include "cpp/base/ticket.hpp"

namespace tmesh::client {

// Borrowed for the call.
struct ValidationRequest {
  std::string_view url;       // the entry's auth_url
  std::string_view protocol;  // "tcp", "udp", "http", "socks5" or "http-proxy": the entry's
  std::string_view agent_id;
  std::string_view target_host;
  uint16_t target_port = 0;
  std::string_view username;  // what the local user showed; empty = nothing
  std::string_view password;
};

class OpenValidator {
 public:
  virtual ~OpenValidator() = default;
  // Calls `done` once, never from inside the call and never after the Ticket is gone. Whatever
  // is not a clear "yes" of the service is a no. An inactive Ticket: allowed at once, which
  // happens when the answer is known; `done` is not called then.
  virtual Ticket validate(const ValidationRequest& request, Delegate<void(bool is_allowed)> done) = 0;
};

}  // namespace tmesh::client
