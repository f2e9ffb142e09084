/* WebSocket codec (RFC 6455), both roles.
 *
 * Sans-I/O: the encoder writes headers and masks payload, the decoder turns bytes
 * into events in the caller's own read buffer. Nothing here allocates, keeps a
 * pointer to a buffer between calls, reads a clock, or calls back; one thread per
 * decoder. We speak binary messages without extensions (section 5.8 bits must be
 * zero) and send every message as one FIN frame, because deployed peers do not
 * reassemble; any legal fragmentation is accepted.
 *
 * Bounds: a message is at most max_message_bytes over all its fragments, a control
 * payload at most 125 bytes (section 5.5). A decoder is about 200 bytes.
 */
#ifndef TMESH_WIRE_WS_H
#define TMESH_WIRE_WS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* 2 bytes, 8 of extended length, 4 of mask. */
#define TMESH_WS_HEADER_MAX_BYTES 14u
/* RFC 6455 section 5.5. */
#define TMESH_WS_CONTROL_MAX_BYTES 125u
/* A whole control frame: control lengths always fit the short form. */
#define TMESH_WS_CONTROL_FRAME_MAX_BYTES (2u + 4u + TMESH_WS_CONTROL_MAX_BYTES)
/* The largest protocol frame: 16 bytes of header and 1 MiB of payload. */
#define TMESH_WS_MESSAGE_MAX_BYTES ((1u << 20) + 16u)

enum tmesh_ws_opcode {
  TMESH_WS_OP_CONTINUATION = 0x0,
  TMESH_WS_OP_TEXT = 0x1,
  TMESH_WS_OP_BINARY = 0x2,
  TMESH_WS_OP_CLOSE = 0x8,
  TMESH_WS_OP_PING = 0x9,
  TMESH_WS_OP_PONG = 0xA,
};

/* Close codes this project sends or names (RFC 6455 section 7.4.1). */
enum tmesh_ws_close_code {
  TMESH_WS_CLOSE_NORMAL = 1000,
  TMESH_WS_CLOSE_GOING_AWAY = 1001,
  TMESH_WS_CLOSE_PROTOCOL = 1002,
  TMESH_WS_CLOSE_UNSUPPORTED_DATA = 1003,
  TMESH_WS_CLOSE_NO_STATUS = 1005, /* never on the wire: the close had no payload */
  TMESH_WS_CLOSE_POLICY = 1008,
  TMESH_WS_CLOSE_TOO_BIG = 1009,
  TMESH_WS_CLOSE_INTERNAL = 1011,
};

enum tmesh_ws_role {
  TMESH_WS_CLIENT, /* incoming frames must not be masked */
  TMESH_WS_SERVER, /* incoming frames must be masked */
};

enum tmesh_ws_event_kind {
  TMESH_WS_NONE,          /* nothing yet: every byte was consumed, feed more */
  TMESH_WS_MESSAGE_BEGIN, /* a binary message starts */
  TMESH_WS_MESSAGE_DATA,  /* its next bytes, never empty */
  TMESH_WS_MESSAGE_END,   /* it is complete (possibly with no DATA at all) */
  TMESH_WS_PING,
  TMESH_WS_PONG,
  TMESH_WS_CLOSE,
};

struct tmesh_ws_event {
  enum tmesh_ws_event_kind kind;
  /* MESSAGE_DATA: points into the buffer given to this call. PING, PONG, CLOSE
   * (the reason, not checked to be UTF-8): points into the decoder, valid until
   * its next call. Otherwise NULL and 0. */
  uint8_t* data;
  size_t len_bytes;
  /* CLOSE only: the code sent, or TMESH_WS_CLOSE_NO_STATUS. */
  uint16_t close_code;
};

/* Embedded by the owner of a link; the fields are private to ws.c. */
struct tmesh_ws_decoder {
  uint64_t message_max_bytes;
  uint64_t message_bytes;      /* of the current message, over its fragments; <= message_max_bytes */
  uint64_t payload_left_bytes; /* of the current frame */
  struct tmesh_status failed;  /* sticky; OK while the stream is good */
  uint8_t role;                /* enum tmesh_ws_role */
  uint8_t state;
  uint8_t opcode; /* of the current frame */
  bool is_final;  /* FIN of the current frame */
  bool is_in_message;
  uint8_t header_bytes;      /* collected so far */
  uint8_t header_need_bytes; /* known after the second byte; 2 before */
  uint8_t control_bytes;
  uint8_t mask_phase; /* payload offset modulo 4 */
  uint8_t mask[4];
  uint8_t header[TMESH_WS_HEADER_MAX_BYTES];
  uint8_t control[TMESH_WS_CONTROL_MAX_BYTES];
};

/* --- encoder ----------------------------------------------------------------- */

/* Writes a frame header (FIN set, no RSV bit, the shortest length form) and returns
 * its size, 2 to 14 bytes. `mask` is read only when is_masked; it must come from a
 * source a peer cannot predict (section 5.3). payload_bytes is at most 2^63-1, and at
 * most 125 for a control opcode: both are our own invariants and are asserted. */
size_t tmesh_ws_header_encode(uint8_t out[TMESH_WS_HEADER_MAX_BYTES], enum tmesh_ws_opcode opcode,
                              uint64_t payload_bytes, bool is_masked, const uint8_t mask[4]);

/* dst[i] = src[i] ^ mask[(offset + i) % 4] (section 5.3): masks and unmasks. Any
 * alignment; dst == src is allowed, any other overlap is not. */
void tmesh_ws_mask_copy(uint8_t* dst, const uint8_t* src, size_t n, const uint8_t mask[4], size_t offset);

/* Writes a whole control frame (PING, PONG or CLOSE) and returns its size. `payload`
 * may be NULL when payload_bytes is 0; payload_bytes <= 125 is asserted. */
size_t tmesh_ws_control_encode(uint8_t out[TMESH_WS_CONTROL_FRAME_MAX_BYTES], enum tmesh_ws_opcode opcode,
                               const uint8_t* payload, size_t payload_bytes, bool is_masked,
                               const uint8_t mask[4]);

/* Writes a CLOSE frame with a code and no reason and returns its size; with
 * TMESH_WS_CLOSE_NO_STATUS the payload is empty. The code must be one that may be
 * sent (tmesh_ws_close_code_valid), which is asserted. */
size_t tmesh_ws_close_encode(uint8_t out[TMESH_WS_CONTROL_FRAME_MAX_BYTES], uint16_t code, bool is_masked,
                             const uint8_t mask[4]);

/* Whether a code may appear in a CLOSE frame: 1000-1003, 1007-1014, 3000-4999
 * (RFC 6455 section 7.4 and the IANA registry). */
bool tmesh_ws_close_code_valid(unsigned code);

/* --- decoder ----------------------------------------------------------------- */

/* role is ours: a server requires masked frames, a client forbids them (section 5.1). */
void tmesh_ws_decoder_init(struct tmesh_ws_decoder* d, enum tmesh_ws_role role, uint64_t message_max_bytes);

/* Consumes up to len_bytes of `data` (payload in it is unmasked in place), stores how
 * many in *used_bytes, and yields at most one event. Call it again with the rest,
 * also when the rest is empty, until the event is NONE: the end of an empty message,
 * for one, needs no further byte.
 *
 * Fragments are delivered as one message: BEGIN, any number of DATA, END. Control
 * events may come between them.
 *
 * OK: *ev is set (kind NONE: all bytes were consumed).
 * SESSION scope, and then the same status on every later call, *used_bytes 0:
 * TMESH_E_WS_PROTOCOL  RSV bit, reserved opcode, stray or missing continuation,
 *                      fragmented or long control frame, wrong masking for the role,
 *                      a length not in its shortest form or over 2^63-1, a close
 *                      payload of one byte or with a code that may not be sent
 * TMESH_E_WS_TEXT      an otherwise legal text message starts
 * TMESH_E_TOO_LARGE    the message would pass message_max_bytes (known from the header,
 *                      before any of that payload is read)
 * TMESH_E_CLOSED       a call after the CLOSE event: nothing may follow it (section
 *                      5.5.1), so what follows is neither parsed nor delivered */
TMESH_MUST_CHECK struct tmesh_status tmesh_ws_decode(struct tmesh_ws_decoder* d, uint8_t* data,
                                                     size_t len_bytes, size_t* used_bytes,
                                                     struct tmesh_ws_event* ev);

/* Asserts every invariant of a decoder; for tests, simulation and fuzzers. */
void tmesh_ws_decoder_check(const struct tmesh_ws_decoder* d);

#ifdef __cplusplus
}
#endif

#endif
