/* Runs a WebSocket decoder over bytes and writes down what it said as text, so that
 * two runs (other chunks, other fragments, another decoder) compare with strcmp.
 *
 *   (48656c)   a message and its bytes, whatever DATA pieces they came in
 *   <6869>     a ping, [6869] a pong, {1000:6279} a close with its reason
 *   !code      the status that ended it
 *
 * Shared by unit tests and the fuzz target; not thread safe, no state but its own.
 */
#ifndef TMESH_TESTS_WS_TRANSCRIPT_H
#define TMESH_TESTS_WS_TRANSCRIPT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/wire/ws.h"

struct ws_transcript {
  char* text;
  size_t len;
  size_t cap;
};

static inline void ws_transcript_init(struct ws_transcript* t) {
  t->cap = 256;
  t->len = 0;
  t->text = malloc(t->cap);
  TMESH_ASSERT(t->text != NULL);
  t->text[0] = '\0';
}

static inline void ws_transcript_free(struct ws_transcript* t) {
  free(t->text);
}

static inline void ws_transcript_put(struct ws_transcript* t, const char* s, size_t n) {
  while (t->cap - t->len <= n) {
    t->cap *= 2;
    t->text = realloc(t->text, t->cap);
    TMESH_ASSERT(t->text != NULL);
  }
  memcpy(t->text + t->len, s, n);
  t->len += n;
  t->text[t->len] = '\0';
}

static inline void ws_transcript_puts(struct ws_transcript* t, const char* s) {
  ws_transcript_put(t, s, strlen(s));
}

static inline void ws_transcript_hex(struct ws_transcript* t, const uint8_t* data, size_t n) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < n; i++) {
    const char pair[2] = {digits[data[i] >> 4], digits[data[i] & 15]};
    ws_transcript_put(t, pair, 2);
  }
}

static inline void ws_transcript_close(struct ws_transcript* t, unsigned code, const uint8_t* reason,
                                       size_t n) {
  char head[16];
  snprintf(head, sizeof head, "{%u:", code);
  ws_transcript_puts(t, head);
  ws_transcript_hex(t, reason, n);
  ws_transcript_puts(t, "}");
}

static inline void ws_transcript_event(struct ws_transcript* t, const struct tmesh_ws_event* ev) {
  switch (ev->kind) {
    case TMESH_WS_NONE:
      break;
    case TMESH_WS_MESSAGE_BEGIN:
      ws_transcript_puts(t, "(");
      break;
    case TMESH_WS_MESSAGE_DATA:
      TMESH_ASSERT(ev->len_bytes > 0);
      ws_transcript_hex(t, ev->data, ev->len_bytes);
      break;
    case TMESH_WS_MESSAGE_END:
      ws_transcript_puts(t, ")");
      break;
    case TMESH_WS_PING:
    case TMESH_WS_PONG:
      ws_transcript_puts(t, ev->kind == TMESH_WS_PING ? "<" : "[");
      ws_transcript_hex(t, ev->data, ev->len_bytes);
      ws_transcript_puts(t, ev->kind == TMESH_WS_PING ? ">" : "]");
      break;
    case TMESH_WS_CLOSE:
      ws_transcript_close(t, ev->close_code, ev->data, ev->len_bytes);
      break;
  }
}

/* Feeds one span until it is used up. False when the decoder failed, which is written
 * down; the end after a close is not, it is the same everywhere. */
static inline bool ws_transcript_feed(struct ws_transcript* t, struct tmesh_ws_decoder* d, uint8_t* data,
                                      size_t n) {
  for (;;) {
    struct tmesh_ws_event ev;
    size_t used;
    struct tmesh_status st = tmesh_ws_decode(d, data, n, &used, &ev);

    tmesh_ws_decoder_check(d);
    TMESH_ASSERT(used <= n);
    if (!tmesh_is_ok(st)) {
      TMESH_ASSERT(st.scope == TMESH_SCOPE_SESSION && used == 0 && ev.kind == TMESH_WS_NONE);
      if (st.code == TMESH_E_CLOSED) return false;
      ws_transcript_puts(t, "!");
      ws_transcript_puts(t, tmesh_code_name(st.code));
      return false;
    }
    ws_transcript_event(t, &ev);
    data += used;
    n -= used;
    if (ev.kind == TMESH_WS_NONE) {
      TMESH_ASSERT(n == 0);
      return true;
    }
  }
}

/* As many bytes as the next chunk takes; must be > 0. */
typedef size_t (*ws_transcript_chunk)(void* context);

/* Decodes a copy of the bytes in chunks of the given sizes (NULL: all at once). */
static inline void ws_transcript_run(struct ws_transcript* t, enum tmesh_ws_role role, uint64_t max_bytes,
                                     const uint8_t* bytes, size_t n, ws_transcript_chunk chunk,
                                     void* context) {
  struct tmesh_ws_decoder d;
  size_t done = 0;
  bool is_good = true;

  tmesh_ws_decoder_init(&d, role, max_bytes);
  while (is_good && done < n) {
    size_t size = chunk == NULL ? n : chunk(context);
    uint8_t* copy;
    if (size > n - done) size = n - done;
    /* A heap block of just the chunk, so that a sanitizer sees any step beyond it. */
    copy = malloc(size);
    TMESH_ASSERT(copy != NULL);
    memcpy(copy, bytes + done, size);
    is_good = ws_transcript_feed(t, &d, copy, size);
    free(copy);
    done += size;
  }
}

#endif
