// Where an entry gets its streams from: an agent's links, behind an interface.
#pragma once

#include <string_view>

#include "core/mux/mux.h"
#include "cpp/base/delegate.hpp"
#include "cpp/base/result.hpp"
#include "cpp/base/ticket.hpp"

namespace tmesh::client {

struct OpenedStream {
  tmesh_stream* stream = nullptr;  // to be attached and released by the caller
  bool is_strict = false;          // wait for the RESULT event; otherwise it is open already (legacy)
};

class StreamOpener {
 public:
  virtual ~StreamOpener() = default;
  // A TCP stream to host:port behind the agent. allow_strict false asks for the legacy
  // open even where the link could do better (requirement B4). CLOSED: the agent is
  // unavailable (no ready link); LIMIT; NO_MEMORY.
  virtual Result<OpenedStream> open_tcp(std::string_view agent_id, std::string_view host, uint16_t port,
                                        bool allow_strict) = 0;
  // After CLOSED: when a link is on its way (the first one, the successor of one that was
  // sent away or fell silent), calls `done` once, as soon as it is there or an attempt
  // failed. An inactive Ticket: none is, do not wait.
  virtual Ticket await_link(std::string_view agent_id, Delegate<void()> done) = 0;
  // A strict open of this opener, not released yet, got no answer in its time: the link
  // may be dead.
  virtual void open_timed_out(std::string_view agent_id, const tmesh_stream& stream) = 0;
};

}  // namespace tmesh::client
