// Where an entry gets its streams from: an agent's links, behind an interface.
#pragma once

#include <string_view>

#include "core/mux/mux.h"
#include "cpp/base/result.hpp"

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
};

}  // namespace tmesh::client
