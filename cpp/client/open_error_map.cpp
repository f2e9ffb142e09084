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

const char* open_error_text(const tmesh_open_result& result) {
  switch (result.code) {
    case TMESH_OPEN_FORBIDDEN:
      return result.stage == TMESH_STAGE_POLICY ? "the agent's policy does not allow this target"
                                                : "this target is not allowed";
    case TMESH_OPEN_AGENT_OFFLINE:
      return "the agent is unavailable: it, or this client, has no link to the server";
    case TMESH_OPEN_QUEUE_FULL:
      return "too many connections at the moment";
    case TMESH_OPEN_TIMEOUT:
      return result.stage == TMESH_STAGE_DNS ? "the target's name was not resolved in time"
                                             : "the target did not answer in time";
    case TMESH_OPEN_NETWORK_UNREACHABLE:
      return "the agent has no route to the target";
    case TMESH_OPEN_HOST_UNREACHABLE:
      return result.stage == TMESH_STAGE_DNS ? "the target's name has no address"
                                             : "the target cannot be reached";
    case TMESH_OPEN_CONNECTION_REFUSED:
      return "the target refused the connection";
    default:
      return "the connection could not be made";
  }
}

}  // namespace tmesh::client
