#include "core/wire/ws.h"

#include <string.h>

#include "core/base/check.h"

enum {
  STATE_HEADER,      /* collecting the 2 to 14 header bytes */
  STATE_PAYLOAD,     /* inside the payload of a data frame */
  STATE_CONTROL,     /* inside the payload of a control frame */
  STATE_MESSAGE_END, /* the message is complete, END not yet delivered */
  STATE_FAILED,      /* `failed` is set */
};

#define FIN_BIT 0x80u
#define RSV_BITS 0x70u
#define OPCODE_BITS 0x0Fu
#define MASK_BIT 0x80u
#define LENGTH_BITS 0x7Fu
#define LENGTH_16 126u
#define LENGTH_64 127u

static bool is_control(unsigned opcode) {
  return (opcode & 0x8u) != 0;
}

/* --- encoder ----------------------------------------------------------------- */

static void put_be(uint8_t* out, uint64_t v, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) out[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
}

size_t tmesh_ws_header_encode(uint8_t out[TMESH_WS_HEADER_MAX_BYTES], enum tmesh_ws_opcode opcode,
                              uint64_t payload_bytes, bool is_masked, const uint8_t mask[4]) {
  const uint8_t mask_bit = is_masked ? MASK_BIT : 0;
  size_t n = 2;

  TMESH_ASSERT(payload_bytes <= INT64_MAX);
  TMESH_ASSERT(!is_control(opcode) || payload_bytes <= TMESH_WS_CONTROL_MAX_BYTES);
  out[0] = (uint8_t)(FIN_BIT | opcode);
  if (payload_bytes < LENGTH_16) {
    out[1] = (uint8_t)(mask_bit | payload_bytes);
  } else if (payload_bytes <= UINT16_MAX) {
    out[1] = mask_bit | LENGTH_16;
    put_be(out + 2, payload_bytes, 2);
    n += 2;
  } else {
    out[1] = mask_bit | LENGTH_64;
    put_be(out + 2, payload_bytes, 8);
    n += 8;
  }
  if (is_masked) {
    memcpy(out + n, mask, 4);
    n += 4;
  }
  return n;
}

static void xor_word(uint8_t* dst, const uint8_t* src, uint64_t pattern) {
  uint64_t word;
  memcpy(&word, src, sizeof word);
  word ^= pattern;
  memcpy(dst, &word, sizeof word);
}

void tmesh_ws_mask_copy(uint8_t* dst, const uint8_t* src, size_t n, const uint8_t mask[4], size_t offset) {
  uint8_t bytes[8];
  uint64_t pattern;
  size_t i = 0;

  for (size_t k = 0; k < sizeof bytes; k++) bytes[k] = mask[(offset + k) & 3];
  memcpy(&pattern, bytes, sizeof pattern);
  /* Four words a turn: the per-word loop alone is bound by its counter. */
  for (; n - i >= 32; i += 32) {
    xor_word(dst + i, src + i, pattern);
    xor_word(dst + i + 8, src + i + 8, pattern);
    xor_word(dst + i + 16, src + i + 16, pattern);
    xor_word(dst + i + 24, src + i + 24, pattern);
  }
  for (; n - i >= 8; i += 8) xor_word(dst + i, src + i, pattern);
  for (; i < n; i++) dst[i] = (uint8_t)(src[i] ^ bytes[i & 7]);
}

size_t tmesh_ws_control_encode(uint8_t out[TMESH_WS_CONTROL_FRAME_MAX_BYTES], enum tmesh_ws_opcode opcode,
                               const uint8_t* payload, size_t payload_bytes, bool is_masked,
                               const uint8_t mask[4]) {
  uint8_t header[TMESH_WS_HEADER_MAX_BYTES];
  size_t n;

  TMESH_ASSERT(is_control(opcode));
  n = tmesh_ws_header_encode(header, opcode, payload_bytes, is_masked, mask);
  memcpy(out, header, n);
  if (payload_bytes == 0) return n;
  if (is_masked) {
    tmesh_ws_mask_copy(out + n, payload, payload_bytes, mask, 0);
  } else {
    memcpy(out + n, payload, payload_bytes);
  }
  return n + payload_bytes;
}

bool tmesh_ws_close_code_valid(unsigned code) {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

size_t tmesh_ws_close_encode(uint8_t out[TMESH_WS_CONTROL_FRAME_MAX_BYTES], uint16_t code, bool is_masked,
                             const uint8_t mask[4]) {
  uint8_t payload[2];

  if (code == TMESH_WS_CLOSE_NO_STATUS) {
    return tmesh_ws_control_encode(out, TMESH_WS_OP_CLOSE, NULL, 0, is_masked, mask);
  }
  TMESH_ASSERT(tmesh_ws_close_code_valid(code));
  put_be(payload, code, 2);
  return tmesh_ws_control_encode(out, TMESH_WS_OP_CLOSE, payload, sizeof payload, is_masked, mask);
}

/* --- decoder ----------------------------------------------------------------- */

static void expect_header(struct tmesh_ws_decoder* d) {
  d->state = STATE_HEADER;
  d->header_bytes = 0;
  d->header_need_bytes = 2;
}

void tmesh_ws_decoder_init(struct tmesh_ws_decoder* d, enum tmesh_ws_role role, uint64_t message_max_bytes) {
  TMESH_ASSERT(message_max_bytes <= INT64_MAX);
  memset(d, 0, sizeof *d);
  d->role = (uint8_t)role;
  d->message_max_bytes = message_max_bytes;
  expect_header(d);
}

static struct tmesh_status fail(struct tmesh_ws_decoder* d, enum tmesh_code code) {
  d->state = STATE_FAILED;
  d->failed = tmesh_err_session(code);
  return d->failed;
}

/* What the first two bytes alone can tell. */
static enum tmesh_code check_head(const struct tmesh_ws_decoder* d) {
  const unsigned opcode = d->header[0] & OPCODE_BITS;
  const unsigned length = d->header[1] & LENGTH_BITS;
  const bool is_final = (d->header[0] & FIN_BIT) != 0;
  const bool is_masked = (d->header[1] & MASK_BIT) != 0;

  if ((d->header[0] & RSV_BITS) != 0) return TMESH_E_WS_PROTOCOL;
  if (is_masked != (d->role == TMESH_WS_SERVER)) return TMESH_E_WS_PROTOCOL;
  switch (opcode) {
    case TMESH_WS_OP_CONTINUATION:
      return d->is_in_message ? TMESH_OK : TMESH_E_WS_PROTOCOL;
    case TMESH_WS_OP_BINARY:
    case TMESH_WS_OP_TEXT: /* refused later, once the whole header is known to be legal */
      return d->is_in_message ? TMESH_E_WS_PROTOCOL : TMESH_OK;
    case TMESH_WS_OP_CLOSE:
      if (length == 1) return TMESH_E_WS_PROTOCOL; /* half a close code */
      break;
    case TMESH_WS_OP_PING:
    case TMESH_WS_OP_PONG:
      break;
    default:
      return TMESH_E_WS_PROTOCOL;
  }
  return is_final && length <= TMESH_WS_CONTROL_MAX_BYTES ? TMESH_OK : TMESH_E_WS_PROTOCOL;
}

static uint8_t header_size(uint8_t second) {
  const unsigned length = second & LENGTH_BITS;
  unsigned n = 2;

  if (length == LENGTH_16) n += 2;
  if (length == LENGTH_64) n += 8;
  if ((second & MASK_BIT) != 0) n += 4;
  return (uint8_t)n;
}

/* The payload length of a complete header, or false if it is not in its shortest form. */
static bool header_length(const uint8_t* header, uint64_t* length) {
  const unsigned form = header[1] & LENGTH_BITS;
  const unsigned bytes = form == LENGTH_16 ? 2 : form == LENGTH_64 ? 8 : 0;

  *length = bytes == 0 ? form : 0;
  for (unsigned i = 0; i < bytes; i++) *length = *length << 8 | header[2 + i];
  if (bytes == 2) return *length >= LENGTH_16;
  if (bytes == 8) return *length > UINT16_MAX && *length <= INT64_MAX;
  return true;
}

/* A complete, so far legal header: sets up the payload state. */
static struct tmesh_status begin_frame(struct tmesh_ws_decoder* d, struct tmesh_ws_event* ev) {
  uint64_t length;

  if (!header_length(d->header, &length)) return fail(d, TMESH_E_WS_PROTOCOL);
  d->opcode = d->header[0] & OPCODE_BITS;
  if (d->opcode == TMESH_WS_OP_TEXT) return fail(d, TMESH_E_WS_TEXT);
  d->is_final = (d->header[0] & FIN_BIT) != 0;
  if (d->role == TMESH_WS_SERVER) memcpy(d->mask, d->header + d->header_need_bytes - 4, 4);
  d->mask_phase = 0;
  d->payload_left_bytes = length;
  if (is_control(d->opcode)) {
    d->control_bytes = 0;
    d->state = STATE_CONTROL;
    return tmesh_ok();
  }
  if (length > d->message_max_bytes - d->message_bytes) return fail(d, TMESH_E_TOO_LARGE);
  d->message_bytes += length;
  if (d->opcode == TMESH_WS_OP_BINARY) {
    d->is_in_message = true;
    ev->kind = TMESH_WS_MESSAGE_BEGIN;
  }
  d->state = STATE_PAYLOAD;
  return tmesh_ok();
}

static size_t take_header(struct tmesh_ws_decoder* d, const uint8_t* data, size_t len_bytes) {
  size_t n = (size_t)(d->header_need_bytes - d->header_bytes);

  if (n > len_bytes) n = len_bytes;
  if (data != NULL && n > 0) memcpy(d->header + d->header_bytes, data, n);
  d->header_bytes = (uint8_t)(d->header_bytes + n);
  return n;
}

static void end_payload(struct tmesh_ws_decoder* d) {
  if (d->is_final) {
    d->state = STATE_MESSAGE_END;
  } else {
    expect_header(d);
  }
}

static size_t take_payload(struct tmesh_ws_decoder* d, uint8_t* data, size_t len_bytes,
                           struct tmesh_ws_event* ev) {
  size_t n = len_bytes;

  if (n > d->payload_left_bytes) n = (size_t)d->payload_left_bytes;
  if (n > 0) {
    if (d->role == TMESH_WS_SERVER) tmesh_ws_mask_copy(data, data, n, d->mask, d->mask_phase);
    d->mask_phase = (uint8_t)((d->mask_phase + n) & 3);
    d->payload_left_bytes -= n;
    ev->kind = TMESH_WS_MESSAGE_DATA;
    ev->data = data;
    ev->len_bytes = n;
  }
  if (d->payload_left_bytes == 0) end_payload(d);
  return n;
}

static size_t take_control(struct tmesh_ws_decoder* d, const uint8_t* data, size_t len_bytes) {
  size_t n = len_bytes;

  if (n > d->payload_left_bytes) n = (size_t)d->payload_left_bytes;
  if (data != NULL && n > 0) memcpy(d->control + d->control_bytes, data, n);
  d->control_bytes = (uint8_t)(d->control_bytes + n);
  d->payload_left_bytes -= n;
  return n;
}

static struct tmesh_status end_close(struct tmesh_ws_decoder* d, struct tmesh_ws_event* ev) {
  unsigned code = TMESH_WS_CLOSE_NO_STATUS;

  if (d->control_bytes >= 2) {
    code = (unsigned)d->control[0] << 8 | d->control[1];
    if (!tmesh_ws_close_code_valid(code)) return fail(d, TMESH_E_WS_PROTOCOL);
    ev->data = d->control + 2;
    ev->len_bytes = (size_t)(d->control_bytes - 2);
  }
  ev->kind = TMESH_WS_CLOSE;
  ev->close_code = (uint16_t)code;
  (void)fail(d, TMESH_E_CLOSED); /* what the calls after this one get */
  return tmesh_ok();
}

static struct tmesh_status end_control(struct tmesh_ws_decoder* d, struct tmesh_ws_event* ev) {
  if (d->role == TMESH_WS_SERVER) tmesh_ws_mask_copy(d->control, d->control, d->control_bytes, d->mask, 0);
  if (d->opcode == TMESH_WS_OP_CLOSE) return end_close(d, ev);
  ev->kind = d->opcode == TMESH_WS_OP_PING ? TMESH_WS_PING : TMESH_WS_PONG;
  ev->data = d->control;
  ev->len_bytes = d->control_bytes;
  expect_header(d);
  return tmesh_ok();
}

/* One turn of the state machine. *is_stuck: nothing can happen without more bytes. */
static struct tmesh_status step(struct tmesh_ws_decoder* d, uint8_t* data, size_t len_bytes,
                                size_t* used_bytes, struct tmesh_ws_event* ev, bool* is_stuck) {
  enum tmesh_code code;

  switch (d->state) {
    case STATE_HEADER:
      *used_bytes += take_header(d, data, len_bytes);
      *is_stuck = d->header_bytes < d->header_need_bytes;
      if (*is_stuck) return tmesh_ok();
      if (d->header_bytes == 2) {
        code = check_head(d);
        if (code != TMESH_OK) return fail(d, code);
        d->header_need_bytes = header_size(d->header[1]);
        if (d->header_need_bytes > 2) return tmesh_ok();
      }
      return begin_frame(d, ev);
    case STATE_PAYLOAD:
      *is_stuck = len_bytes == 0 && d->payload_left_bytes > 0;
      *used_bytes += take_payload(d, data, len_bytes, ev);
      return tmesh_ok();
    case STATE_CONTROL:
      *used_bytes += take_control(d, data, len_bytes);
      *is_stuck = d->payload_left_bytes > 0;
      return *is_stuck ? tmesh_ok() : end_control(d, ev);
    case STATE_MESSAGE_END:
      ev->kind = TMESH_WS_MESSAGE_END;
      d->is_in_message = false;
      d->message_bytes = 0;
      expect_header(d);
      return tmesh_ok();
    default:
      TMESH_ASSERT(d->state == STATE_FAILED);
      return d->failed;
  }
}

struct tmesh_status tmesh_ws_decode(struct tmesh_ws_decoder* d, uint8_t* data, size_t len_bytes,
                                    size_t* used_bytes, struct tmesh_ws_event* ev) {
  size_t used = 0;
  bool is_stuck = false;

  *used_bytes = 0;
  memset(ev, 0, sizeof *ev);
  while (!is_stuck && ev->kind == TMESH_WS_NONE) {
    uint8_t* at = len_bytes == used ? NULL : data + used;
    struct tmesh_status st = step(d, at, len_bytes - used, &used, ev, &is_stuck);
    if (!tmesh_is_ok(st)) return st;
  }
  *used_bytes = used;
  return tmesh_ok();
}

void tmesh_ws_decoder_check(const struct tmesh_ws_decoder* d) {
  TMESH_ASSERT(d->state <= STATE_FAILED);
  TMESH_ASSERT(d->message_bytes <= d->message_max_bytes);
  TMESH_ASSERT((d->state == STATE_FAILED) == !tmesh_is_ok(d->failed));
  TMESH_ASSERT(d->header_need_bytes >= 2 && d->header_need_bytes <= TMESH_WS_HEADER_MAX_BYTES);
  TMESH_ASSERT(d->header_bytes <= d->header_need_bytes);
  TMESH_ASSERT(d->control_bytes <= TMESH_WS_CONTROL_MAX_BYTES);
  TMESH_ASSERT(d->mask_phase <= 3);
  if (d->state == STATE_FAILED) return;
  TMESH_ASSERT(d->is_in_message || d->message_bytes == 0);
  if (d->state == STATE_PAYLOAD) {
    TMESH_ASSERT(d->is_in_message && d->payload_left_bytes <= d->message_bytes);
  }
  if (d->state == STATE_CONTROL) {
    TMESH_ASSERT(d->payload_left_bytes + d->control_bytes <= TMESH_WS_CONTROL_MAX_BYTES);
  }
  if (d->state == STATE_MESSAGE_END) TMESH_ASSERT(d->is_in_message && d->is_final);
}
