/* The result of a core operation: a code, and how far an error reaches.
 *
 * A status is returned by value and must be looked at. The scope is data: only
 * core/mux turns a STREAM status into a reset of that stream, and only
 * core/loop/link turns a SESSION status into the end of that link (requirement
 * C6). Codes are stable names for counters and logs; no text from the operating
 * system or a peer ever travels in a status.
 */
#ifndef TMESH_BASE_STATUS_H
#define TMESH_BASE_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TMESH_MUST_CHECK __attribute__((warn_unused_result))
#else
#define TMESH_MUST_CHECK
#endif

enum tmesh_scope {
  TMESH_SCOPE_NONE = 0,    /* success */
  TMESH_SCOPE_STREAM = 1,  /* ends one stream, the link lives */
  TMESH_SCOPE_SESSION = 2, /* ends the link and every stream on it */
};

enum tmesh_code {
  TMESH_OK = 0,
  TMESH_E_AGAIN,             /* not an error: more bytes or more room needed */
  TMESH_E_NO_MEMORY,         /* an allocation or a budget was refused */
  TMESH_E_INVALID,           /* malformed input that no code below names */
  TMESH_E_TOO_LARGE,         /* a length beyond its documented limit */
  TMESH_E_TRUNCATED,         /* input ended inside a unit */
  TMESH_E_STATE,             /* legal input at the wrong time */
  TMESH_E_FRAME_VERSION,     /* frame version is not 1 */
  TMESH_E_FRAME_TYPE,        /* unknown frame type */
  TMESH_E_FRAME_LENGTH,      /* payload length over the type's limit */
  TMESH_E_FRAME_STREAM_ID,   /* stream id 0 where one is needed */
  TMESH_E_FRAME_PAYLOAD,     /* payload does not decode */
  TMESH_E_DUPLICATE_STREAM,  /* OPEN_STREAM for an id already used */
  TMESH_E_UNKNOWN_STREAM,    /* frame for a stream that is not in the table */
  TMESH_E_WINDOW_ZERO,       /* WINDOW_UPDATE of 0 */
  TMESH_E_WINDOW_OVERFLOW,   /* credit would pass 2^32-1 */
  TMESH_E_WINDOW_EXCEEDED,   /* peer sent more than it was granted */
  TMESH_E_BACKPRESSURE,      /* a bounded data queue is full */
  TMESH_E_CONTROL_EXHAUSTED, /* the control queue is full */
  TMESH_E_LIMIT,             /* a count limit is reached */
  TMESH_E_TIMEOUT,
  TMESH_E_CANCELLED,
  TMESH_E_RESET,   /* the peer reset the stream */
  TMESH_E_CLOSED,  /* the link or socket is gone */
  TMESH_E_IO,      /* read or write failed */
  TMESH_E_REFUSED, /* connection refused */
  TMESH_E_NET_UNREACHABLE,
  TMESH_E_HOST_UNREACHABLE,
  TMESH_E_DNS,         /* the name does not resolve */
  TMESH_E_POLICY,      /* a rule forbids it */
  TMESH_E_WS_PROTOCOL, /* RFC 6455 violation */
  TMESH_E_WS_TEXT,     /* a text message where only binary is spoken */
  TMESH_E_HTTP,        /* malformed or unacceptable HTTP message */
  TMESH_E_TLS,         /* handshake or record failure */
  TMESH_E_TLS_VERIFY,  /* peer certificate or name not accepted */
  TMESH_E_UNSUPPORTED, /* a capability the other side lacks */
  TMESH_CODE_COUNT,
};

struct tmesh_status {
  uint8_t code;  /* enum tmesh_code */
  uint8_t scope; /* enum tmesh_scope; NONE exactly when code is OK or AGAIN */
};

static inline struct tmesh_status tmesh_ok(void) {
  struct tmesh_status st = {TMESH_OK, TMESH_SCOPE_NONE};
  return st;
}
static inline struct tmesh_status tmesh_again(void) {
  struct tmesh_status st = {TMESH_E_AGAIN, TMESH_SCOPE_NONE};
  return st;
}
static inline struct tmesh_status tmesh_err_stream(enum tmesh_code code) {
  struct tmesh_status st = {(uint8_t)code, TMESH_SCOPE_STREAM};
  return st;
}
static inline struct tmesh_status tmesh_err_session(enum tmesh_code code) {
  struct tmesh_status st = {(uint8_t)code, TMESH_SCOPE_SESSION};
  return st;
}
static inline bool tmesh_is_ok(struct tmesh_status st) {
  return st.code == TMESH_OK;
}

/* Stable lower-case name of a code ("window_exceeded"), for counters and logs.
 * Any value outside the enum gives "unknown". Static text. */
const char* tmesh_code_name(unsigned code);

#ifdef __cplusplus
}
#endif

#endif
