#include "core/base/status.h"

#include <stddef.h>

static const char* const names[TMESH_CODE_COUNT] = {
    [TMESH_OK] = "ok",
    [TMESH_E_AGAIN] = "again",
    [TMESH_E_NO_MEMORY] = "no_memory",
    [TMESH_E_INVALID] = "invalid",
    [TMESH_E_TOO_LARGE] = "too_large",
    [TMESH_E_TRUNCATED] = "truncated",
    [TMESH_E_STATE] = "state",
    [TMESH_E_FRAME_VERSION] = "frame_version",
    [TMESH_E_FRAME_TYPE] = "frame_type",
    [TMESH_E_FRAME_LENGTH] = "frame_length",
    [TMESH_E_FRAME_STREAM_ID] = "frame_stream_id",
    [TMESH_E_FRAME_PAYLOAD] = "frame_payload",
    [TMESH_E_DUPLICATE_STREAM] = "duplicate_stream",
    [TMESH_E_UNKNOWN_STREAM] = "unknown_stream",
    [TMESH_E_WINDOW_ZERO] = "window_zero",
    [TMESH_E_WINDOW_OVERFLOW] = "window_overflow",
    [TMESH_E_WINDOW_EXCEEDED] = "window_exceeded",
    [TMESH_E_BACKPRESSURE] = "backpressure",
    [TMESH_E_CONTROL_EXHAUSTED] = "control_exhausted",
    [TMESH_E_LIMIT] = "limit",
    [TMESH_E_TIMEOUT] = "timeout",
    [TMESH_E_CANCELLED] = "cancelled",
    [TMESH_E_RESET] = "reset",
    [TMESH_E_CLOSED] = "closed",
    [TMESH_E_IO] = "io",
    [TMESH_E_REFUSED] = "refused",
    [TMESH_E_NET_UNREACHABLE] = "network_unreachable",
    [TMESH_E_HOST_UNREACHABLE] = "host_unreachable",
    [TMESH_E_DNS] = "dns",
    [TMESH_E_POLICY] = "policy",
    [TMESH_E_WS_PROTOCOL] = "ws_protocol",
    [TMESH_E_WS_TEXT] = "ws_text",
    [TMESH_E_HTTP] = "http",
    [TMESH_E_TLS] = "tls",
    [TMESH_E_TLS_VERIFY] = "tls_verify",
    [TMESH_E_UNSUPPORTED] = "unsupported",
};

const char* tmesh_code_name(unsigned code) {
  return code < TMESH_CODE_COUNT ? names[code] : "unknown";
}
