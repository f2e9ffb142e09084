/* Differential fuzzing of the WebSocket decoder: what core/wire/ws says about a stream
 * must be what a model says that reads the same stream with wslay's frame parser.
 *
 * The model adds what wslay's frame layer leaves to its caller, which is where our
 * decoder is stricter than a naive user of wslay would be:
 *   - RSV bits, reserved opcodes and wrong masking for the role
 *   - stray and missing continuations, text messages
 *   - the limit on a message
 *   - close payloads of one byte, close codes that may not be sent
 *   - nothing is read after a close
 * Two differences are in time only. We refuse a frame when its second byte is known to
 * be bad, wslay when the whole header is there: so where wslay waits for a header, an
 * error of ours is accepted, and nothing else. And wslay looks at a length before the
 * mask behind it is there, we after: so where wslay refused, we are given four bytes
 * more.
 *
 * Input: one byte of options (bit 0 role, bits 1-2 message limit, bits 3-7 chunk size),
 * then the stream. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#include "fuzz/fuzz.h"
#include "tests/core/wire/ws_transcript.h"

#define MASK_BYTES 4

struct source {
  const uint8_t* at;
  size_t left;
};

static ssize_t source_recv(uint8_t* buf, size_t len, int flags, void* user_data) {
  struct source* s = user_data;
  (void)flags;
  if (s->left == 0) return -1;
  if (len > s->left) len = s->left;
  memcpy(buf, s->at, len);
  s->at += len;
  s->left -= len;
  return (ssize_t)len;
}

struct model {
  struct ws_transcript said;
  enum tmesh_ws_role role;
  uint64_t max_bytes;
  uint64_t message_bytes;
  bool is_in_message;
  bool is_over;    /* an error or a close was written down */
  bool is_refused; /* by wslay itself */
  uint8_t control[TMESH_WS_CONTROL_MAX_BYTES];
};

static void model_error(struct model* m, const char* code) {
  ws_transcript_puts(&m->said, "!");
  ws_transcript_puts(&m->said, code);
  m->is_over = true;
}

/* A frame whose header is complete and passes wslay. */
static void model_header(struct model* m, const struct wslay_frame_iocb* f) {
  const bool is_control = f->opcode >= 8;
  const bool is_known = f->opcode <= 2 || (f->opcode >= 8 && f->opcode <= 10);

  if (f->rsv != 0 || !is_known || (f->mask != 0) != (m->role == TMESH_WS_SERVER)) {
    model_error(m, "ws_protocol");
  } else if (is_control) {
    if (f->opcode == WSLAY_CONNECTION_CLOSE && f->payload_length == 1) model_error(m, "ws_protocol");
  } else if ((f->opcode == WSLAY_CONTINUATION_FRAME) != m->is_in_message) {
    model_error(m, "ws_protocol");
  } else if (f->opcode == WSLAY_TEXT_FRAME) {
    model_error(m, "ws_text");
  } else if (f->payload_length > m->max_bytes - m->message_bytes) {
    model_error(m, "too_large");
  } else {
    m->message_bytes += f->payload_length;
    if (f->opcode == WSLAY_BINARY_FRAME) ws_transcript_puts(&m->said, "(");
    m->is_in_message = true;
  }
}

static void model_control(struct model* m, const struct wslay_frame_iocb* f) {
  const size_t n = (size_t)f->payload_length;
  const char* marks = f->opcode == WSLAY_PING ? "<>" : "[]";
  unsigned code = TMESH_WS_CLOSE_NO_STATUS;

  if (f->opcode != WSLAY_CONNECTION_CLOSE) {
    ws_transcript_put(&m->said, marks, 1);
    ws_transcript_hex(&m->said, m->control, n);
    ws_transcript_put(&m->said, marks + 1, 1);
    return;
  }
  if (n >= 2) code = (unsigned)m->control[0] << 8 | m->control[1];
  if (n >= 2 && !tmesh_ws_close_code_valid(code)) {
    model_error(m, "ws_protocol");
    return;
  }
  ws_transcript_close(&m->said, code, m->control + 2, n >= 2 ? n - 2 : 0);
  m->is_over = true;
}

static void model_end(struct model* m, const struct wslay_frame_iocb* f) {
  if (f->opcode >= 8) {
    model_control(m, f);
  } else if (f->fin) {
    ws_transcript_puts(&m->said, ")");
    m->is_in_message = false;
    m->message_bytes = 0;
  }
}

/* Returns true when wslay stopped inside a header. */
static bool model_run(struct model* m, const uint8_t* data, size_t size) {
  static const struct wslay_frame_callbacks callbacks = {.recv_callback = source_recv};
  struct source s = {data, size};
  wslay_frame_context_ptr ctx;
  uint64_t done = 0;
  bool is_in_frame = false;

  FUZZ_CHECK(wslay_frame_context_init(&ctx, &callbacks, &s) == 0);
  while (!m->is_over) {
    struct wslay_frame_iocb f;
    ssize_t n;
    memset(&f, 0, sizeof f);
    n = wslay_frame_recv(ctx, &f);
    if (n == WSLAY_ERR_WANT_READ) break;
    if (n < 0) {
      model_error(m, "ws_protocol");
      m->is_refused = true;
      break;
    }
    if (!is_in_frame) model_header(m, &f);
    if (m->is_over) break;
    if (f.opcode >= 8) {
      memcpy(m->control + done, f.data, f.data_length);
    } else {
      ws_transcript_hex(&m->said, f.data, f.data_length);
    }
    done += f.data_length;
    is_in_frame = done < f.payload_length;
    if (!is_in_frame) {
      model_end(m, &f);
      done = 0;
    }
  }
  wslay_frame_context_free(ctx);
  return !m->is_over && !is_in_frame;
}

static size_t fixed_chunk(void* context) {
  return *(const size_t*)context;
}

/* Once the model is between frames, ours may know more: that the next header is bad.
 * A frame's header without any payload byte shows in ours as "(" only. */
static bool is_early(const char* ours, const char* said, bool is_between_frames) {
  const size_t n = strlen(said);
  if (!is_between_frames || strncmp(ours, said, n) != 0) return false;
  ours += n;
  if (*ours == '(') ours++;
  return *ours == '\0' || *ours == '!';
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const uint64_t limits[] = {0, 16, 4096, TMESH_WS_MESSAGE_MAX_BYTES};
  struct model m = {.role = TMESH_WS_CLIENT};
  struct ws_transcript whole, chunked;
  uint8_t* padded;
  size_t chunk;
  bool is_between_frames;

  if (size == 0) return 0;
  if ((data[0] & 1) != 0) m.role = TMESH_WS_SERVER;
  m.max_bytes = limits[data[0] >> 1 & 3];
  chunk = (size_t)(data[0] >> 3) + 1;
  data++;
  size--;

  ws_transcript_init(&m.said);
  ws_transcript_init(&whole);
  ws_transcript_init(&chunked);
  is_between_frames = model_run(&m, data, size);
  padded = calloc(1, size + MASK_BYTES);
  FUZZ_CHECK(padded != NULL);
  memcpy(padded, data, size);
  if (m.is_refused) size += MASK_BYTES;
  ws_transcript_run(&whole, m.role, m.max_bytes, padded, size, NULL, NULL);
  ws_transcript_run(&chunked, m.role, m.max_bytes, padded, size, fixed_chunk, &chunk);
  free(padded);
  FUZZ_CHECK(strcmp(whole.text, chunked.text) == 0);
  FUZZ_CHECK(strcmp(whole.text, m.said.text) == 0 || is_early(whole.text, m.said.text, is_between_frames));
  ws_transcript_free(&m.said);
  ws_transcript_free(&whole);
  ws_transcript_free(&chunked);
  return 0;
}
