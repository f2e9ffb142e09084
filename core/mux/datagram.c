#include "core/mux/datagram.h"

#include <string.h>

#include "core/base/check.h"
#include "core/mux/mux_internal.h"

void tmesh_datagram_prefix(uint8_t out[TMESH_DATAGRAM_PREFIX_BYTES], uint32_t len_bytes) {
  for (unsigned i = 0; i < TMESH_DATAGRAM_PREFIX_BYTES; i++) out[i] = (uint8_t)(len_bytes >> (24 - 8 * i));
}

static uint32_t length_of(const uint8_t prefix[TMESH_DATAGRAM_PREFIX_BYTES]) {
  uint32_t len_bytes = 0;
  for (unsigned i = 0; i < TMESH_DATAGRAM_PREFIX_BYTES; i++) len_bytes = len_bytes << 8 | prefix[i];
  return len_bytes;
}

bool tmesh_datagram_is_ready(const struct tmesh_chunkq* q, uint32_t* len_bytes) {
  uint8_t prefix[TMESH_DATAGRAM_PREFIX_BYTES];
  if (tmesh_chunkq_copy(q, prefix, sizeof prefix) < sizeof prefix) return false;
  *len_bytes = length_of(prefix);
  TMESH_ASSERT(*len_bytes <= TMESH_DATAGRAM_MAX_BYTES);
  return q->len_bytes - sizeof prefix >= *len_bytes;
}

/* Where the check is: in a prefix, of which `prefix_n` bytes are known, or in a datagram. */
struct walk {
  uint8_t prefix[TMESH_DATAGRAM_PREFIX_BYTES];
  size_t prefix_n;
  size_t left_bytes;
};

static size_t step(struct walk* w, const uint8_t* at, size_t n) {
  if (w->left_bytes > 0) {
    size_t part = w->left_bytes < n ? w->left_bytes : n;
    w->left_bytes -= part;
    return part;
  }
  w->prefix[w->prefix_n++] = *at;
  if (w->prefix_n < sizeof w->prefix) return 1;
  w->prefix_n = 0;
  w->left_bytes = length_of(w->prefix);
  TMESH_ASSERT(w->left_bytes <= TMESH_DATAGRAM_MAX_BYTES);
  return 1;
}

void tmesh_datagram_check(const struct tmesh_chunkq* q, bool may_be_cut) {
  struct walk w = {.prefix_n = 0};
  for (const struct tmesh_block* b = q->head; b != NULL; b = b->next) {
    for (uint32_t at = b->begin_bytes; at < b->end_bytes;) {
      at += (uint32_t)step(&w, b->data + at, b->end_bytes - at);
    }
  }
  TMESH_ASSERT(may_be_cut || (w.prefix_n == 0 && w.left_bytes == 0));
}

struct tmesh_status tmesh_stream_send_datagram(struct tmesh_stream* s, const void* data, size_t n) {
  TMESH_ASSERT(s->is_datagram && !s->is_released);
  if (s->state != TMESH_STREAM_OPEN && s->state != TMESH_STREAM_HALF_CLOSED_REMOTE) {
    return tmesh_err_stream(TMESH_E_STATE);
  }
  if (s->out_eof) return tmesh_err_stream(TMESH_E_STATE);
  struct tmesh_status st;
  if (n > TMESH_DATAGRAM_MAX_BYTES) {
    st = tmesh_err_stream(TMESH_E_TOO_LARGE);
  } else if (tmesh_stream_out_room(s) < TMESH_DATAGRAM_PREFIX_BYTES + n) {
    st = tmesh_err_stream(TMESH_E_LIMIT);
  } else {
    uint8_t prefix[TMESH_DATAGRAM_PREFIX_BYTES];
    tmesh_datagram_prefix(prefix, (uint32_t)n);
    st = tmesh_chunkq_append_two(&s->out, prefix, sizeof prefix, data, n);
  }
  if (tmesh_is_ok(st)) {
    tmesh_stream_out_added(s);
  } else {
    s->mux->stats.datagrams_dropped_count++;
  }
  return st;
}

bool tmesh_stream_peek_datagram(const struct tmesh_stream* s, void* out, size_t cap, size_t* len_bytes) {
  TMESH_ASSERT(s->is_datagram);
  uint32_t len;
  if (!tmesh_datagram_is_ready(&s->in, &len)) return false;
  *len_bytes = len;
  size_t skip = TMESH_DATAGRAM_PREFIX_BYTES;
  size_t left = len < cap ? len : cap;
  uint8_t* to = out;
  for (const struct tmesh_block* b = s->in.head; b != NULL && left > 0; b = b->next) {
    size_t have = b->end_bytes - b->begin_bytes;
    size_t skipped = have < skip ? have : skip;
    size_t part = have - skipped < left ? have - skipped : left;
    if (part > 0) memcpy(to, b->data + b->begin_bytes + skipped, part);
    skip -= skipped;
    to += part;
    left -= part;
  }
  return true;
}

void tmesh_stream_take_datagram(struct tmesh_stream* s) {
  uint32_t len;
  TMESH_ASSERT(s->is_datagram && tmesh_datagram_is_ready(&s->in, &len));
  const size_t n = TMESH_DATAGRAM_PREFIX_BYTES + (size_t)len;
  tmesh_chunkq_consume(&s->in, n);
  tmesh_stream_consumed(s, n);
}
