#include "cpp/agent/dial_error.hpp"

namespace tmesh::agent {
namespace {

struct Row {
  tmesh_code code;
  tmesh_open_stage stage;
  tmesh_open_code open_code;
  bool retryable;
};

constexpr Row kTable[] = {
    {TMESH_E_DNS, TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false},
    {TMESH_E_REFUSED, TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false},
    {TMESH_E_NET_UNREACHABLE, TMESH_STAGE_CONNECT, TMESH_OPEN_NETWORK_UNREACHABLE, true},
    {TMESH_E_HOST_UNREACHABLE, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE, true},
    {TMESH_E_TIMEOUT, TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, true},
    {TMESH_E_CANCELLED, TMESH_STAGE_CONNECT, TMESH_OPEN_TIMEOUT, false},
    {TMESH_E_POLICY, TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false},
    {TMESH_E_LIMIT, TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true},
    {TMESH_E_TLS, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE, false},
    {TMESH_E_TLS_VERIFY, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE, false},
    {TMESH_E_CLOSED, TMESH_STAGE_CONNECT, TMESH_OPEN_HOST_UNREACHABLE, false},
    {TMESH_E_DUPLICATE_STREAM, TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR, false},
};

}  // namespace

tmesh_open_result open_result_of(unsigned code, bool in_dns) {
  if (code == TMESH_OK) return tmesh_open_accept();
  for (const Row& row : kTable) {
    if (row.code != code) continue;
    const bool is_dns_timeout = in_dns && code == TMESH_E_TIMEOUT;
    return tmesh_open_refuse(is_dns_timeout ? TMESH_STAGE_DNS : row.stage, row.open_code, row.retryable);
  }
  return tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_INTERNAL_ERROR, false);
}

}  // namespace tmesh::agent
