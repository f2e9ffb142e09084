#include "cpp/client/open_advice.hpp"

namespace tmesh::client {
namespace {

const char* timeout_advice(unsigned stage) {
  switch (stage) {
    case TMESH_STAGE_DNS:
      return "The agent's name servers did not answer in time; look at resolv.conf on its machine.";
    case TMESH_STAGE_CONNECT:
      return "The target did not answer in time: it is down, or a firewall drops what the agent sends.";
    case TMESH_STAGE_QUEUE:
      return "The open waited too long behind others; look at the limits of server and agent.";
    default:
      return "No answer came in time; look at `tunnelmesh-agent status` and the server's log.";
  }
}

}  // namespace

const char* open_advice(unsigned stage, unsigned code) {
  switch (code) {
    case TMESH_OPEN_OK:
      return "The target is reached.";
    case TMESH_OPEN_FORBIDDEN:
      if (stage == TMESH_STAGE_POLICY)
        return "The agent itself refuses this address: see agent.policy and what it refuses by default.";
      return "The server does not allow it; an administrator sees why with `tunnelmesh-server explain`.";
    case TMESH_OPEN_AGENT_OFFLINE:
      return "The server has no link of this agent; look at `tunnelmesh-agent status` on its machine.";
    case TMESH_OPEN_QUEUE_FULL:
      return "A limit of the server or the agent is reached; try again, or look at what holds the streams.";
    case TMESH_OPEN_TIMEOUT:
      return timeout_advice(stage);
    case TMESH_OPEN_NETWORK_UNREACHABLE:
      return "The agent's machine has no route to the target's network.";
    case TMESH_OPEN_HOST_UNREACHABLE:
      if (stage == TMESH_STAGE_DNS) return "The name does not resolve on the agent's machine.";
      return "The target's network says that the host is not there.";
    case TMESH_OPEN_CONNECTION_REFUSED:
      return "The host is there, but nothing listens on this port.";
    case TMESH_OPEN_UNSUPPORTED_CAPABILITY:
      return "The agent cannot answer opens; entries fall back to opens without an answer by themselves.";
    default:
      return "Something failed inside the server or the agent; look at their logs.";
  }
}

}  // namespace tmesh::client
