/* Frame codec (WIRE 1.1-1.5): a 16-byte big-endian header and a payload.
 *
 * Pure functions over caller-owned memory; no allocation. The decoder is
 * incremental: it takes the bytes of one WebSocket message in any pieces and
 * yields the header once and then the payload as it arrives, so that DATA needs no
 * assembly buffer. Checks run in the order version, type, length, stream id,
 * window. All header errors have SESSION scope: a peer whose framing is broken
 * cannot be followed any further (requirement C6).
 */
#ifndef TMESH_PROTO_FRAME_H
#define TMESH_PROTO_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/proto/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

enum tmesh_frame_type {
  TMESH_FRAME_OPEN_STREAM = 1,
  TMESH_FRAME_DATA = 2,
  TMESH_FRAME_HALF_CLOSE = 3,
  TMESH_FRAME_RESET = 4,
  TMESH_FRAME_WINDOW_UPDATE = 5,
  TMESH_FRAME_GOAWAY = 6,
  TMESH_FRAME_PING = 7,
  TMESH_FRAME_PONG = 8,
  TMESH_FRAME_AGENT_HELLO = 9,
  TMESH_FRAME_AGENT_METADATA_UPDATE = 10,
  TMESH_FRAME_AGENT_METADATA_ACK = 11,
  TMESH_FRAME_TRACE_START = 12,
  TMESH_FRAME_TRACE_HOP = 13,
  TMESH_FRAME_TRACE_END = 14,
  TMESH_FRAME_OPEN_RESULT = 15,
  TMESH_FRAME_CLIENT_HELLO = 16,
  TMESH_FRAME_CLIENT_METADATA_UPDATE = 17,
  TMESH_FRAME_CLIENT_METADATA_ACK = 18,
  TMESH_FRAME_TYPE_MAX = 18,
};

#define TMESH_FLAG_FIN 0x0001u
#define TMESH_FLAG_ACK 0x0002u
#define TMESH_FLAG_STRICT_OPEN 0x0004u /* OPEN_STREAM: exactly one OPEN_RESULT before any DATA */

struct tmesh_frame_header {
  uint8_t type;   /* enum tmesh_frame_type */
  uint16_t flags; /* unknown bits are kept and ignored */
  uint32_t stream_id;
  uint32_t length_bytes; /* of the payload */
  uint32_t window_bytes; /* OPEN_STREAM: opener's receive window; WINDOW_UPDATE: increment; else 0 */
};

/* The largest payload a type may carry; 0 for an unknown type. */
uint32_t tmesh_frame_payload_max(unsigned type);
/* Whether the type belongs to a stream (stream id must not be 0). */
bool tmesh_frame_is_stream_scoped(unsigned type);
/* Stable upper-case name, "UNKNOWN" outside the enum. */
const char* tmesh_frame_type_name(unsigned type);

/* Writes 16 bytes. INVALID-class codes as for decode, so that we cannot send what we would refuse. */
TMESH_MUST_CHECK struct tmesh_status tmesh_frame_header_encode(uint8_t out[TMESH_FRAME_HEADER_BYTES],
                                                               const struct tmesh_frame_header* header);
/* FRAME_VERSION, FRAME_TYPE, FRAME_LENGTH, FRAME_STREAM_ID (session); WINDOW_ZERO
 * has STREAM scope when the frame names a stream (requirement E3), and then the
 * header is filled. */
TMESH_MUST_CHECK struct tmesh_status tmesh_frame_header_decode(struct tmesh_frame_header* header,
                                                               const uint8_t in[TMESH_FRAME_HEADER_BYTES]);

/* --- incremental decoding of one message ---------------------------------------- */

enum tmesh_frame_event_kind {
  TMESH_FRAME_EVENT_NONE = 0, /* all input taken, more needed */
  TMESH_FRAME_EVENT_HEADER,   /* decoder.header is valid */
  TMESH_FRAME_EVENT_PAYLOAD,  /* piece of the payload, pointing into the input */
  TMESH_FRAME_EVENT_END,      /* the payload is complete; bytes after it are ignored */
};

struct tmesh_frame_event {
  enum tmesh_frame_event_kind kind;
  const uint8_t* data;
  size_t len_bytes;
};

struct tmesh_frame_decoder {
  struct tmesh_frame_header header;
  uint8_t partial[TMESH_FRAME_HEADER_BYTES];
  uint8_t partial_len_bytes;
  uint8_t phase; /* header, payload, end delivered */
  uint32_t payload_left_bytes;
};

/* Call at the start of every message. */
void tmesh_frame_decoder_begin(struct tmesh_frame_decoder* d);
/* Takes bytes from data and yields one event; call again with the rest until
 * *used == len and the event is NONE (or END, after which the rest of the message
 * is skipped). A message that starts with a STREAM-scoped WINDOW_ZERO header still
 * yields HEADER; mux finds the zero window itself. */
TMESH_MUST_CHECK struct tmesh_status tmesh_frame_decode(struct tmesh_frame_decoder* d, const uint8_t* data,
                                                        size_t len, size_t* used,
                                                        struct tmesh_frame_event* event);
/* At the end of the message: TRUNCATED (session) unless END was delivered. */
TMESH_MUST_CHECK struct tmesh_status tmesh_frame_decoder_finish(const struct tmesh_frame_decoder* d);

#ifdef __cplusplus
}
#endif

#endif
