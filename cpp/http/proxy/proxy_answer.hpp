// Answers of the intermediary itself. Pure.
//
// A failure says in Proxy-Status (RFC 9209) which kind it is and, for an open that was refused,
// its stage and code; never the target's address or a text of the system.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/proto/open_result.h"
#include "cpp/http/message.hpp"

namespace tmesh::http {

// The status for an open that was refused: 403 forbidden; 503 agent_offline, queue_full;
// 504 timeout; 502 everything else.
int status_of_open(unsigned open_code);

// What went wrong behind the intermediary, or with the request.
enum class ProxyFault : uint8_t {
  request_malformed,
  request_denied,       // it may not be answered here: 407, 421
  response_malformed,   // a head or framing that has no single reading
  response_incomplete,  // the connection ended within it, or before it
};

Response answer_to_fault(int status, ProxyFault fault);
Response answer_to_open(const tmesh_open_result& result);

}  // namespace tmesh::http
