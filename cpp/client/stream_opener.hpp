// Where an entry gets its streams from: the links of an agent, behind an interface.
//
// Entries do not use it themselves: they hold an Opening (opening.hpp).
#pragma once

#include <cstdint>
#include <string_view>

#include "core/mux/mux.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"

namespace tmesh::client {

// What an entry wants to be connected to. Views are borrowed for the call.
struct OpenRequest {
  std::string_view agent_id;
  tmesh_open_protocol protocol = TMESH_OPEN_TCP;
  std::string_view host;  // a literal or a name, which the agent resolves
  uint16_t port = 0;
  bool is_target_https = false;      // protocol http only: the agent speaks TLS to the target
  std::string_view host_header;      // with is_target_https
  std::string_view tls_server_name;  // with is_target_https; empty = host
};

struct OpenedStream {
  tmesh_stream* stream = nullptr;  // to be attached and released by the caller
  bool is_strict = false;          // wait for the RESULT event; otherwise it is open already (legacy)
};

class StreamOpener {
 public:
  virtual ~StreamOpener() = default;
  // A stream behind the agent. allow_strict false asks for the legacy open even where the
  // link could do better (requirement B4); udp is always legacy and without windows
  // (LESSONS Z1). not_on: a mux that shall not carry it (a hedge goes another way), or null.
  // CLOSED: the agent is unavailable (no ready link); LIMIT; INVALID; NO_MEMORY.
  virtual Result<OpenedStream> open(const OpenRequest& request, bool allow_strict,
                                    const tmesh_mux* not_on = nullptr) = 0;
  // After CLOSED: when a link is on its way (the first one, the successor of one that was
  // sent away or fell silent), calls `done` once, as soon as it is there or an attempt
  // failed. An inactive Ticket: none is, do not wait.
  virtual Ticket await_link(std::string_view agent_id, Delegate<void()> done) = 0;
  // A strict open, not released yet, got no answer in its time: the link may be dead.
  virtual void open_timed_out(std::string_view agent_id, const tmesh_stream& stream) = 0;
  // Right after a strict open: calls `done` once when not a byte of any kind has come on that
  // stream's link for max(three round trips, 250 ms), although a PING left together with the
  // open, and another link of the pool takes opens. Inactive: a pool of one never hedges. The
  // Ticket goes before the stream is released.
  virtual Ticket await_silence(std::string_view agent_id, const tmesh_stream& stream,
                               Delegate<void()> done) = 0;
  // For the count: one of two links has answered an open that was hedged; is_won: the second.
  virtual void hedge_ended(std::string_view /*agent_id*/, bool /*is_won*/) {}
};

}  // namespace tmesh::client
