/* The HTTP/1.1 upgrade to WebSocket (RFC 6455 section 4).
 *
 * Client side: a request builder and an incremental parser of the answer. Server
 * side: the pure functions an HTTP server needs to check a request and to answer it;
 * parsing requests is the business of cpp/http. Sans-I/O, no clock, no callbacks. The
 * builder writes into the caller's buffer; a response parser is one heap object of
 * about 4 KiB that lives for the length of a handshake. One thread per object.
 *
 * Bounds: a request or an answer's header block is at most 16 KiB, at most 8
 * sub-protocols are offered. Extensions are never offered and an answer with one is
 * refused: compressing a tunnel costs processor time and gains nothing.
 */
#ifndef TMESH_WIRE_WS_UPGRADE_H
#define TMESH_WIRE_WS_UPGRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What common servers and proxies accept as a header block at most. */
#define TMESH_WS_UPGRADE_MAX_BYTES 16384u
#define TMESH_WS_KEY_BYTES 16u
/* Base64 of 16 bytes, and of a SHA-1, each with its terminating NUL. */
#define TMESH_WS_KEY_TEXT_BYTES 25u
#define TMESH_WS_ACCEPT_TEXT_BYTES 29u
/* Our clients offer four; the rest is room for later versions. */
#define TMESH_WS_PROTOCOLS_MAX 8u

/* Why an upgrade failed; a closed set for counters and for telling the user. */
enum tmesh_ws_upgrade_error {
  TMESH_WS_UPGRADE_OK = 0,
  TMESH_WS_UPGRADE_NOT_HTTP,      /* not an HTTP/1.1 response */
  TMESH_WS_UPGRADE_TOO_LARGE,     /* more than 16 KiB of header */
  TMESH_WS_UPGRADE_STATUS,        /* a status other than 101 */
  TMESH_WS_UPGRADE_NO_UPGRADE,    /* no "Upgrade: websocket" */
  TMESH_WS_UPGRADE_NO_CONNECTION, /* no "Connection: Upgrade" */
  TMESH_WS_UPGRADE_NO_ACCEPT,     /* no Sec-WebSocket-Accept */
  TMESH_WS_UPGRADE_BAD_ACCEPT,    /* one that does not answer our key */
  TMESH_WS_UPGRADE_BAD_PROTOCOL,  /* a sub-protocol that was not offered, or two */
  TMESH_WS_UPGRADE_EXTENSION,     /* an extension we did not offer */
  TMESH_WS_UPGRADE_ERROR_COUNT,
};

/* One line for a person that names the header at fault. Static text, "unknown" outside
 * the enum. */
const char* tmesh_ws_upgrade_error_text(unsigned error);

/* --- client: request --------------------------------------------------------- */

struct tmesh_ws_field {
  const char* name;
  const char* value;
};

struct tmesh_ws_request {
  const char* path;                   /* origin form: begins with '/' */
  const char* host;                   /* host[:port], IPv6 in brackets */
  const char* origin;                 /* the one Origin; deployed servers require it */
  const char* token;                  /* bearer token, or NULL for no Authorization */
  const uint8_t* key;                 /* TMESH_WS_KEY_BYTES random bytes, new for each request */
  const char* const* protocols;       /* offers in order of preference; NULL with count 0 */
  size_t protocol_count;              /* <= TMESH_WS_PROTOCOLS_MAX, asserted */
  const struct tmesh_ws_field* extra; /* further header fields; NULL with count 0 */
  size_t extra_count;
};

/* Writes the request into out[0..cap_bytes) and its size into *len_bytes; all strings
 * stay the caller's. The bytes contain the token: wipe them after sending.
 * OK;
 * TMESH_E_INVALID (session) if a value holds a byte that could end its line or field
 * (control characters; in path, host, origin, token, protocols and names also spaces
 * and non-ASCII), or path does not begin with '/';
 * TMESH_E_TOO_LARGE (session) if it does not fit. */
TMESH_MUST_CHECK struct tmesh_status tmesh_ws_request_build(const struct tmesh_ws_request* request, char* out,
                                                            size_t cap_bytes, size_t* len_bytes);

/* --- client: response -------------------------------------------------------- */

struct tmesh_ws_response;

/* A parser for the answer to a request with this key and these offers, or NULL without
 * memory. The key is copied; `protocols` and its strings must outlive the parser. */
struct tmesh_ws_response* tmesh_ws_response_new(const uint8_t key[TMESH_WS_KEY_BYTES],
                                                const char* const* protocols, size_t protocol_count);
void tmesh_ws_response_free(struct tmesh_ws_response* r); /* NULL is fine */

/* Parses the next bytes of the answer; *used_bytes says how many belong to it.
 * AGAIN: all of them, and more are needed.
 * OK: a valid 101 is complete; the bytes after *used_bytes are WebSocket frames.
 * TMESH_E_HTTP, TMESH_E_TOO_LARGE (session): tmesh_ws_response_error says why.
 * Interim answers (1xx but 101) are skipped. After OK or an error every call returns
 * the same and uses nothing. */
TMESH_MUST_CHECK struct tmesh_status tmesh_ws_response_feed(struct tmesh_ws_response* r, const uint8_t* data,
                                                            size_t len_bytes, size_t* used_bytes);

/* Why it failed; TMESH_WS_UPGRADE_OK before an end and after success. */
enum tmesh_ws_upgrade_error tmesh_ws_response_error(const struct tmesh_ws_response* r);
/* The HTTP status, 0 until the header block of the final answer is complete. */
int tmesh_ws_response_http_status(const struct tmesh_ws_response* r);
/* After OK: the index of the selected offer, -1 if the server selected none. */
int tmesh_ws_response_protocol(const struct tmesh_ws_response* r);

/* --- server ------------------------------------------------------------------- */

/* Whether a Sec-WebSocket-Key is the base64 of 16 bytes: 22 characters and "==". */
bool tmesh_ws_key_valid(const char* key, size_t len_bytes);

/* Writes the Sec-WebSocket-Accept for a key as sent (section 4.2.2) and a NUL. The key
 * must be one that tmesh_ws_key_valid accepts, which is asserted. */
void tmesh_ws_accept_key(const char* key, size_t len_bytes, char out[TMESH_WS_ACCEPT_TEXT_BYTES]);

/* Walks a comma separated list (RFC 9110 section 5.6.1): white space around items is
 * dropped, empty items are skipped. `value` stays the caller's. */
struct tmesh_http_list {
  const char* at;
  size_t left_bytes;
};
static inline struct tmesh_http_list tmesh_http_list_init(const char* value, size_t len_bytes) {
  struct tmesh_http_list l = {value, len_bytes};
  return l;
}
/* The next item in *item (never empty, not terminated), or false at the end. */
bool tmesh_http_list_next(struct tmesh_http_list* l, const char** item, size_t* item_bytes);

/* Whether the list holds `token` as a whole item, ignoring ASCII case: what Connection
 * and Upgrade need ("keep-alive, Upgrade"). */
bool tmesh_http_list_has(const char* value, size_t len_bytes, const char* token);

#ifdef __cplusplus
}
#endif

#endif
