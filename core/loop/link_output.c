/* Output of a link: one batch of whole WebSocket messages at a time, built in the
 * loop's buffer and handed to the kernel at once. Only what the kernel did not take is
 * kept by the link, so that blocked links are as cheap as the bytes they wait with. */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/loop/link_internal.h"

/* Every message but the last lies within the target, and the shortest (16 bytes) gets
 * a prefix of 6; then one largest message, a pong and a ping. */
#define BATCH_BUFFER_BYTES                                                                   \
  (TMESH_BATCH_MAX_BYTES + TMESH_BATCH_MAX_BYTES / 16u * 6u + TMESH_PULL_MESSAGE_MAX_BYTES + \
   TMESH_WS_HEADER_MAX_BYTES + 2u * TMESH_WS_CONTROL_FRAME_MAX_BYTES)
/* Rests differ by a little each time; memory is taken in steps so that it can be used again. */
#define REST_GRAIN_BYTES 16384u

/* --- building a batch ------------------------------------------------------------ */

static void new_mask(struct tmesh_link* l) {
  if (!l->is_client) return;
  if (!tmesh_loop_random(l->loop, l->mask, sizeof l->mask)) l->is_mask_missing = true;
}

static uint8_t* sink_begin(void* ctx, size_t len_bytes) {
  struct tmesh_link* l = ctx;
  uint8_t* at = l->loop->batch_buffer + l->batch_len_bytes;

  TMESH_ASSERT(l->batch_len_bytes + TMESH_WS_HEADER_MAX_BYTES + len_bytes <= BATCH_BUFFER_BYTES);
  new_mask(l);
  l->batch_len_bytes += tmesh_ws_header_encode(at, TMESH_WS_OP_BINARY, len_bytes, l->is_client, l->mask);
  l->message_begin_bytes = l->batch_len_bytes;
  l->batch_len_bytes += len_bytes;
  return l->loop->batch_buffer + l->message_begin_bytes;
}

static void sink_end(void* ctx) {
  struct tmesh_link* l = ctx;
  uint8_t* at = l->loop->batch_buffer + l->message_begin_bytes;
  if (l->is_client) {
    tmesh_ws_mask_copy(at, at, l->batch_len_bytes - l->message_begin_bytes, l->mask, 0);
  }
}

static void add_control(struct tmesh_link* l, enum tmesh_ws_opcode opcode, const uint8_t* payload, size_t n) {
  new_mask(l);
  l->batch_len_bytes += tmesh_ws_control_encode(l->loop->batch_buffer + l->batch_len_bytes, opcode, payload,
                                                n, l->is_client, l->mask);
}

/* --- how much at once ---------------------------------------------------------------- */

static void set_batch(struct tmesh_link* l, uint64_t bytes) {
  if (bytes > TMESH_BATCH_MAX_BYTES) bytes = TMESH_BATCH_MAX_BYTES;
  if (bytes < TMESH_BATCH_MIN_BYTES) bytes = TMESH_BATCH_MIN_BYTES;
  l->batch_bytes = (uint32_t)bytes;
  tmesh_mux_set_item_max(&l->mux, bytes < TMESH_DATA_MAX_BYTES ? (uint32_t)bytes : TMESH_DATA_MAX_BYTES);
  const uint32_t lowat =
      bytes < TMESH_BATCH_FIRST_BYTES ? TMESH_LINK_LOWAT_NARROW_BYTES : TMESH_LINK_LOWAT_BYTES;
  if (lowat == l->lowat_bytes) return;
  l->lowat_bytes = lowat;
  tmesh_transport_set_lowat(l->transport, lowat);
}

/* A whole batch went at once, and there was more: perhaps the path takes more. */
static void went_at_once(struct tmesh_link* l) {
  l->measured_bytes += l->batch_len_bytes;
  if (l->batch_len_bytes >= l->batch_bytes) set_batch(l, 2u * (uint64_t)l->batch_bytes);
}

/* The kernel was full and took the rest. */
static void went_late(struct tmesh_link* l) {
  const uint64_t now_us = tmesh_loop_now_us(l->loop);
  if (l->measured_from_us != 0 && now_us > l->measured_from_us) {
    set_batch(l, l->measured_bytes * TMESH_BATCH_US / (now_us - l->measured_from_us));
  }
  l->measured_from_us = now_us;
  l->measured_bytes = 0;
}

/* Returns false when there is nothing to send, or the link just ended. */
static bool build_batch(struct tmesh_link* l) {
  struct tmesh_sink sink = {l, sink_begin, sink_end};

  l->batch_len_bytes = 0;
  if (l->owes_pong) add_control(l, TMESH_WS_OP_PONG, l->pong, l->pong_len_bytes);
  if (l->owes_ping) add_control(l, TMESH_WS_OP_PING, NULL, 0);
  l->owes_pong = false;
  l->owes_ping = false;
  l->is_batch_open = tmesh_mux_pull(&l->mux, &sink, l->batch_bytes) > 0;
  if (l->is_mask_missing) {
    tmesh_link_go_down(l, tmesh_err_session(TMESH_E_IO)); /* a mask that can be guessed is none */
    return false;
  }
  if (l->batch_len_bytes == 0) l->measured_from_us = 0;
  return l->batch_len_bytes > 0;
}

/* --- writing it ------------------------------------------------------------------ */

static void batch_written(struct tmesh_link* l) {
  if (!l->is_batch_open) return;
  l->is_batch_open = false;
  tmesh_mux_written(&l->mux);
}

/* One buffer stays with the loop, so that a link that is full now and then costs no
 * allocation each time. */
static void free_rest(struct tmesh_link* l) {
  if (l->rest == NULL) return;
  if (l->loop->spare_rest == NULL) {
    l->loop->spare_rest = l->rest;
    l->loop->spare_rest_cap_bytes = l->rest_cap_bytes;
  } else {
    free(l->rest);
  }
  l->rest = NULL;
  l->rest_cap_bytes = 0;
}

static bool take_rest(struct tmesh_link* l, size_t n) {
  if (n <= l->rest_cap_bytes) return true;
  free(l->rest);
  l->rest = NULL;
  l->rest_cap_bytes = 0;
  if (l->loop->spare_rest != NULL && n <= l->loop->spare_rest_cap_bytes) {
    l->rest = l->loop->spare_rest;
    l->rest_cap_bytes = l->loop->spare_rest_cap_bytes;
    l->loop->spare_rest = NULL;
    return true;
  }
  const size_t cap = (n + REST_GRAIN_BYTES - 1) / REST_GRAIN_BYTES * REST_GRAIN_BYTES;
  l->rest = malloc(cap);
  if (l->rest != NULL) l->rest_cap_bytes = cap;
  return l->rest != NULL;
}

static struct tmesh_status write_rest(struct tmesh_link* l, const uint8_t* data, size_t n) {
  if (!take_rest(l, n)) return tmesh_err_session(TMESH_E_NO_MEMORY);
  if (n > 0) memcpy(l->rest, data, n);
  l->is_writing = true;
  return tmesh_transport_write(l->transport, l->rest, n);
}

static void send_batch(struct tmesh_link* l) {
  size_t taken = 0;
  bool is_flushed = false;
  struct tmesh_status st =
      tmesh_transport_push(l->transport, l->loop->batch_buffer, l->batch_len_bytes, &taken, &is_flushed);

  if (tmesh_is_ok(st) && taken == l->batch_len_bytes && is_flushed) {
    went_at_once(l);
    batch_written(l);
    return;
  }
  if (tmesh_is_ok(st)) st = write_rest(l, l->loop->batch_buffer + taken, l->batch_len_bytes - taken);
  if (!tmesh_is_ok(st)) tmesh_link_go_down(l, st);
}

void tmesh_link_output_once(struct tmesh_link* l) {
  if (!l->is_writing && !l->is_down && build_batch(l)) send_batch(l);
}

void tmesh_link_output(struct tmesh_link* l) {
  size_t burst_bytes = 0;

  while (!l->is_writing && !l->is_down) {
    if (burst_bytes >= TMESH_WRITE_BURST_BYTES) {
      tmesh_link_kick(l);
      return;
    }
    if (!build_batch(l)) break;
    burst_bytes += l->batch_len_bytes;
    send_batch(l);
  }
  if (!l->is_writing) free_rest(l);
}

void tmesh_link_output_written(struct tmesh_link* l) {
  l->is_writing = false;
  l->measured_bytes += l->batch_len_bytes;
  went_late(l);
  batch_written(l);
  tmesh_link_kick(l);
}

void tmesh_link_output_close(struct tmesh_link* l) {
  if (l->is_writing || l->close_code == 0) return;
  new_mask(l);
  if (l->is_mask_missing) return;
  const size_t n = tmesh_ws_close_encode(l->close_frame, l->close_code, l->is_client, l->mask);
  l->is_writing = true;
  /* Best effort: without it the peer sees the end of the connection only. */
  const struct tmesh_status st = tmesh_transport_write(l->transport, l->close_frame, n);
  (void)st;
}

struct tmesh_status tmesh_link_output_init(struct tmesh_link* l) {
  if (l->loop->batch_buffer == NULL) l->loop->batch_buffer = malloc(BATCH_BUFFER_BYTES);
  l->batch_bytes = TMESH_BATCH_FIRST_BYTES;
  l->lowat_bytes = TMESH_LINK_LOWAT_BYTES;
  return l->loop->batch_buffer != NULL ? tmesh_ok() : tmesh_err_session(TMESH_E_NO_MEMORY);
}

void tmesh_link_output_free(struct tmesh_link* l) {
  free_rest(l);
}
