#include "cpp/client/open_error_map.hpp"

namespace tmesh::client {

Socks5Reply socks5_reply(unsigned open_code) {
  switch (open_code) {
    case TMESH_OPEN_OK:
      return kReplySucceeded;
    case TMESH_OPEN_FORBIDDEN:
      return kReplyNotAllowed;
    case TMESH_OPEN_NETWORK_UNREACHABLE:
      return kReplyNetworkUnreachable;
    case TMESH_OPEN_HOST_UNREACHABLE:
    case TMESH_OPEN_AGENT_OFFLINE:
      return kReplyHostUnreachable;
    case TMESH_OPEN_CONNECTION_REFUSED:
      return kReplyConnectionRefused;
    case TMESH_OPEN_TIMEOUT:
      return kReplyTtlExpired;
    default:
      return kReplyGeneralFailure;
  }
}

}  // namespace tmesh::client
