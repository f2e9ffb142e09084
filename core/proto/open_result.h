/* OPEN_RESULT payload (requirements B5-B7): {accepted, stage, code, retryable, retry_after_ms}. */
#ifndef TMESH_PROTO_OPEN_RESULT_H
#define TMESH_PROTO_OPEN_RESULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/proto/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tmesh_open_stage {
  TMESH_STAGE_AUTHORIZATION = 0,
  TMESH_STAGE_SELECTION,
  TMESH_STAGE_RELAY,
  TMESH_STAGE_QUEUE,
  TMESH_STAGE_DNS,
  TMESH_STAGE_CONNECT,
  TMESH_STAGE_POLICY,
  TMESH_STAGE_PROTOCOL,
  TMESH_STAGE_COUNT,
};

enum tmesh_open_code {
  TMESH_OPEN_OK = 0,
  TMESH_OPEN_FORBIDDEN,
  TMESH_OPEN_AGENT_OFFLINE,
  TMESH_OPEN_QUEUE_FULL,
  TMESH_OPEN_TIMEOUT,
  TMESH_OPEN_NETWORK_UNREACHABLE,
  TMESH_OPEN_HOST_UNREACHABLE,
  TMESH_OPEN_CONNECTION_REFUSED,
  TMESH_OPEN_UNSUPPORTED_CAPABILITY,
  TMESH_OPEN_INTERNAL_ERROR,
  TMESH_OPEN_CODE_COUNT,
};

struct tmesh_open_result {
  bool accepted;
  uint8_t stage; /* enum tmesh_open_stage */
  uint8_t code;  /* enum tmesh_open_code */
  bool retryable;
  uint32_t retry_after_ms;
};

static inline struct tmesh_open_result tmesh_open_accept(void) {
  struct tmesh_open_result r = {true, TMESH_STAGE_CONNECT, TMESH_OPEN_OK, false, 0};
  return r;
}
static inline struct tmesh_open_result tmesh_open_refuse(enum tmesh_open_stage stage,
                                                         enum tmesh_open_code code, bool retryable) {
  struct tmesh_open_result r = {false, (uint8_t)stage, (uint8_t)code, retryable, 0};
  return r;
}

/* Wire names; "unknown" outside the enum. */
const char* tmesh_open_stage_name(unsigned stage);
const char* tmesh_open_code_name(unsigned code);

/* All five keys in the fixed order, no spaces. accepted must equal (code == ok) and
 * both enums be in range (INVALID otherwise). *len_bytes <= 1024. No allocation. */
TMESH_MUST_CHECK struct tmesh_status tmesh_open_result_encode(const struct tmesh_open_result* r, char* out,
                                                              size_t cap_bytes, size_t* len_bytes);
/* STREAM scope on every error: TOO_LARGE over 1024 bytes, FRAME_PAYLOAD when not a
 * JSON object with the right types, when accepted, stage or code is missing, or when
 * accepted does not equal (code == ok). With accepted=false an unknown stage or code
 * makes the pair protocol / internal_error, a general failure (requirement B7);
 * with accepted=true it is FRAME_PAYLOAD. No allocation; *r is untouched on error. */
TMESH_MUST_CHECK struct tmesh_status tmesh_open_result_decode(struct tmesh_open_result* r, const void* data,
                                                              size_t len_bytes);

#ifdef __cplusplus
}
#endif

#endif
