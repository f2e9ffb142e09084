// How a dial ended -> what OPEN_RESULT says (WIRE 1.6.2): one table, one place.
#pragma once

#include "core/proto/open_result.h"
#include "cpp/base/dial.hpp"

namespace tmesh::agent {

// Over the whole status enum; what the table does not name is connect / internal_error.
// in_dns: it ended while the name was being resolved.
//
//   OK                accepted
//   DNS               dns / host_unreachable
//   REFUSED           connect / connection_refused
//   NET_UNREACHABLE   connect / network_unreachable, retryable
//   HOST_UNREACHABLE  connect / host_unreachable, retryable
//   TIMEOUT           dns or connect / timeout, retryable
//   CANCELLED         connect / timeout
//   POLICY            policy / forbidden
//   LIMIT             queue / queue_full, retryable (dial queue, resolver)
//   DUPLICATE_STREAM  protocol / internal_error
//   TLS, TLS_VERIFY, CLOSED  connect / host_unreachable: what answered at an https target's
//                     address is not the host that was asked for, or could not show it.
//                     Not retryable, and no internal error: nothing of ours failed
tmesh_open_result open_result_of(unsigned code, bool in_dns);
inline tmesh_open_result open_result_of(const DialResult& result) {
  return open_result_of(result.status.code, result.failed_in_dns);
}

}  // namespace tmesh::agent
