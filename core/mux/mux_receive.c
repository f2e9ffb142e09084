/* Frames of the peer. Nothing here waits, and nothing here touches another stream than the frame's. */
#include <string.h>

#include "core/base/check.h"
#include "core/mux/mux_internal.h"

/* Early data of a strict opener (WIRE E): so much and no more. */
static bool is_early(const struct tmesh_stream* s) {
  return s->state == TMESH_STREAM_OPENING && !s->is_opener && s->has_early_data;
}

static bool is_legal(const struct tmesh_stream* s, enum tmesh_stream_event event) {
  /* A legacy opener does not wait for an answer: its bytes wait in `in` (requirement C9). */
  if (s->state == TMESH_STREAM_OPENING && !s->is_opener && !s->is_strict) return !s->in_eof;
  return tmesh_stream_next((enum tmesh_stream_state)s->state, event) != TMESH_STREAM_STATE_COUNT;
}

/* The live stream a frame is for; others are counted. */
static struct tmesh_stream* find(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_stream* s = tmesh_idmap_get(&m->streams, h->stream_id);
  if (s != NULL && !tmesh_mux_stream_over(s)) return s;
  if (s != NULL || tmesh_mux_id_is_seen(m, h->stream_id)) {
    /* Its end was told to the peer or by the peer: what is still under way needs no answer. */
    m->stats.late_frames_count++;
    return NULL;
  }
  m->stats.unknown_frames_count++;
  /* Whoever sends bytes to a stream we never had must learn that they go nowhere. */
  if (h->type == TMESH_FRAME_DATA && m->config.resets_unknown_data) tmesh_mux_reset_unknown(m, h->stream_id);
  return NULL;
}

/* Whether n bytes may come: within the window, or within the queue's bound without one. */
static struct tmesh_status receive_bytes(struct tmesh_stream* s, uint32_t n) {
  if (!s->recv.is_limited) {
    bool fits = s->in.len_bytes + n <= s->mux->config.inbound_max_bytes;
    return fits ? tmesh_ok() : tmesh_err_stream(TMESH_E_BACKPRESSURE);
  }
  /* Credit that waits to be pulled is not the peer's yet. Whoever uses it all the same
   * without ever reading would make the pending increment pass 2^32-1. */
  if (n > s->recv.credit_bytes - s->update_bytes) return tmesh_err_stream(TMESH_E_WINDOW_EXCEEDED);
  return tmesh_recv_window_receive(&s->recv, n);
}

static void drop_datagram(struct tmesh_mux* m) {
  m->frame_stream = NULL;
  tmesh_chunkq_clear(&m->datagram);
  m->stats.datagrams_dropped_count++;
}

/* The newest datagram goes when there is no room; the stream never (requirement E2). While memory
 * is short a queue holds one, or what fits in a block. */
static void begin_datagram(struct tmesh_mux* m, struct tmesh_stream* s, uint32_t n) {
  const bool is_short = s->in.len_bytes > 0 && tmesh_pool_pressure(m->config.pool) != TMESH_PRESSURE_NONE;
  const size_t queued_bytes = s->in.len_bytes + TMESH_DATAGRAM_PREFIX_BYTES + n;
  m->frame_stream = s;
  if (n > TMESH_DATAGRAM_MAX_BYTES || queued_bytes > m->config.inbound_max_bytes ||
      (is_short && queued_bytes > TMESH_BLOCK_BYTES)) {
    drop_datagram(m);
  }
}

static struct tmesh_status begin_data(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_stream* s = find(m, h);
  if (s == NULL) return tmesh_ok();
  bool is_allowed = is_early(s) ? h->length_bytes <= TMESH_EARLY_DATA_MAX_BYTES - s->early_in_bytes
                                : is_legal(s, TMESH_EV_DATA_IN);
  if (!is_allowed) return tmesh_mux_stream_fail(s, tmesh_err_stream(TMESH_E_STATE));
  if (s->is_datagram) {
    begin_datagram(m, s, h->length_bytes);
    return tmesh_ok();
  }
  struct tmesh_status st = receive_bytes(s, h->length_bytes);
  if (!tmesh_is_ok(st)) return tmesh_mux_stream_fail(s, st);
  if (is_early(s)) s->early_in_bytes = (uint16_t)(s->early_in_bytes + h->length_bytes);
  m->frame_stream = s;
  return tmesh_ok();
}

static struct tmesh_status half_close(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_stream* s = find(m, h);
  if (s == NULL) return tmesh_ok();
  if (!is_legal(s, TMESH_EV_HALF_CLOSE_IN)) return tmesh_mux_stream_fail(s, tmesh_err_stream(TMESH_E_STATE));
  s->in_eof = true;
  /* While a legacy open is unanswered the state follows with the answer. */
  if (s->state != TMESH_STREAM_OPENING) TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_HALF_CLOSE_IN));
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_READABLE);
  return tmesh_ok();
}

static void reset(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_stream* s = find(m, h);
  if (s == NULL) return;
  m->stats.resets_in_count++;
  /* What the side that was opened sent before is an answer the user may still want
   * (P-B8); it stays in `in` until the stream is released. */
  struct tmesh_chunkq answer = s->in;
  bool is_untold = (s->events & TMESH_STREAM_EV_RESULT) != 0 && s->result.accepted && answer.len_bytes > 0;
  if (s->is_opener) tmesh_chunkq_init(&s->in, m->config.pool);
  tmesh_mux_stream_end(s, TMESH_EV_RESET, tmesh_err_stream(TMESH_E_RESET));
  if (s->is_opener) s->in = answer;
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_OVER | (is_untold ? TMESH_STREAM_EV_RESULT : 0u));
}

static struct tmesh_status window_update(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_stream* s = find(m, h);
  if (s == NULL) return tmesh_ok();
  /* Nothing of what a peer that named growth gives may be lost, however old the stream (W3). */
  if (m->config.has_window_growth) tmesh_send_window_uncap(&s->send);
  struct tmesh_status st = tmesh_send_window_grant(&s->send, h->window_bytes);
  if (!tmesh_is_ok(st)) return tmesh_mux_stream_fail(s, st);
  s->stalled_since_us = 0;
  tmesh_mux_schedule(s);
  return tmesh_ok();
}

static struct tmesh_status open_result(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_stream* s = find(m, h);
  if (s == NULL) return tmesh_ok();
  if (!s->is_opener || !s->is_strict || s->state != TMESH_STREAM_OPENING) {
    return tmesh_mux_stream_fail(s, tmesh_err_stream(TMESH_E_STATE));
  }
  struct tmesh_status st = tmesh_open_result_decode(&s->result, m->frame_payload, m->frame_payload_len_bytes);
  if (!tmesh_is_ok(st)) return tmesh_mux_stream_fail(s, st);
  if (!s->result.accepted) {
    tmesh_mux_stream_end(s, TMESH_EV_REFUSED, tmesh_err_stream(TMESH_E_REFUSED));
  } else {
    TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_ACCEPTED));
    tmesh_mux_schedule(s);
  }
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_RESULT);
  return tmesh_ok();
}

static void ping(struct tmesh_mux* m) {
  m->pong_len_bytes = (uint16_t)m->frame_payload_len_bytes;
  memcpy(m->pong, m->frame_payload, m->frame_payload_len_bytes);
  m->pong_pending = true;
  tmesh_mux_dirty(m);
}

static struct tmesh_status control(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  struct tmesh_status st =
      m->config.events->on_control(m->config.events_ctx, h, m->frame_payload, m->frame_payload_len_bytes);
  if (!tmesh_is_ok(st)) return tmesh_mux_session_error(m, st);
  return m->failed;
}

/* How much of a payload is kept for frame_end; DATA goes straight into its stream. */
static size_t keep_max(unsigned type) {
  switch (type) {
    case TMESH_FRAME_OPEN_STREAM:
      return TMESH_OPEN_STREAM_MAX_BYTES;
    case TMESH_FRAME_DATA:
    case TMESH_FRAME_HALF_CLOSE:
    case TMESH_FRAME_RESET:
    case TMESH_FRAME_WINDOW_UPDATE:
    case TMESH_FRAME_GOAWAY:
      return 0;
    case TMESH_FRAME_PING:
    case TMESH_FRAME_PONG:
      return TMESH_ADVISORY_MAX_BYTES;
    case TMESH_FRAME_OPEN_RESULT:
      return TMESH_OPEN_RESULT_MAX_BYTES;
    default:
      return TMESH_METADATA_MAX_BYTES;
  }
}

struct tmesh_status tmesh_mux_frame_header(struct tmesh_mux* m, const struct tmesh_frame_header* h) {
  if (!tmesh_is_ok(m->failed)) return m->failed;
  TMESH_ASSERT(!m->is_in_frame);
  m->is_in_frame = true;
  m->frame = *h;
  m->frame_stream = NULL;
  m->frame_payload_len_bytes = 0;
  m->stats.frames_in_count++;
  if (h->type == TMESH_FRAME_OPEN_STREAM && m->config.is_opener) {
    return tmesh_mux_session_error(m, tmesh_err_session(TMESH_E_STATE));
  }
  return h->type == TMESH_FRAME_DATA ? begin_data(m, h) : tmesh_ok();
}

/* To `in`. Others may give memory back once. */
static struct tmesh_status append(struct tmesh_stream* s, const uint8_t* data, size_t n) {
  struct tmesh_mux* m = s->mux;
  struct tmesh_status st = tmesh_chunkq_append(&s->in, data, n);
  if (tmesh_is_ok(st) || m->config.events->on_memory_full == NULL) return st;
  m->config.events->on_memory_full(m->config.events_ctx, s);
  if (!tmesh_is_ok(m->failed)) return st;
  TMESH_ASSERT(m->frame_stream == s);
  return tmesh_chunkq_append(&s->in, data, n);
}

/* A piece of a datagram; without memory the datagram goes, and nobody gives way for it. One that comes in a
 * single piece goes where it belongs at once; what comes in several waits beside the stream until the last
 * one is there, because `in` holds whole datagrams and may be read at any time. */
static void datagram_piece(struct tmesh_mux* m, const uint8_t* data, size_t n) {
  struct tmesh_stream* s = m->frame_stream;
  uint8_t prefix[TMESH_DATAGRAM_PREFIX_BYTES];
  const bool is_first = m->datagram.len_bytes == 0;
  const bool is_whole = n == m->frame.length_bytes;
  tmesh_datagram_prefix(prefix, m->frame.length_bytes);
  if (is_first || s->in.len_bytes == 0) s->moved_us = m->now_us;
  if (!tmesh_is_ok(tmesh_chunkq_append_two(is_whole ? &s->in : &m->datagram, prefix,
                                           is_first ? sizeof prefix : 0, data, n))) {
    drop_datagram(m);
    return;
  }
  m->stats.data_bytes_in += n;
  if (!is_whole) return;
  m->frame_stream = NULL;
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_READABLE);
}

static void datagram_end(struct tmesh_mux* m) {
  struct tmesh_stream* s = m->frame_stream;
  if (m->frame.length_bytes == 0) {
    datagram_piece(m, NULL, 0);
    return;
  }
  const size_t n = TMESH_DATAGRAM_PREFIX_BYTES + (size_t)m->frame.length_bytes;
  TMESH_ASSERT(m->datagram.len_bytes == n);
  /* Whole blocks need no memory: they go by pointer where a copy is refused. */
  TMESH_ASSERT(tmesh_chunkq_move(&s->in, &m->datagram, n) == n);
  m->frame_stream = NULL;
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_READABLE);
}

struct tmesh_status tmesh_mux_frame_payload(struct tmesh_mux* m, const uint8_t* data, size_t n) {
  if (!tmesh_is_ok(m->failed)) return m->failed;
  TMESH_ASSERT(m->is_in_frame);
  if (n == 0) return tmesh_ok();
  if (m->frame.type != TMESH_FRAME_DATA) {
    size_t room = keep_max(m->frame.type) - m->frame_payload_len_bytes;
    if (n > room) n = room;
    if (n > 0) memcpy(m->frame_payload + m->frame_payload_len_bytes, data, n);
    m->frame_payload_len_bytes += n;
    return tmesh_ok();
  }
  struct tmesh_stream* s = m->frame_stream;
  if (s == NULL) return tmesh_ok();
  if (s->is_datagram) {
    datagram_piece(m, data, n);
    return tmesh_ok();
  }
  if (s->in.len_bytes == 0) s->moved_us = m->now_us;
  struct tmesh_status st = append(s, data, n);
  if (!tmesh_is_ok(m->failed)) return m->failed;
  if (!tmesh_is_ok(st)) return tmesh_mux_stream_fail(s, st);
  m->stats.data_bytes_in += n;
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_READABLE);
  return tmesh_ok();
}

struct tmesh_status tmesh_mux_frame_end(struct tmesh_mux* m) {
  if (!tmesh_is_ok(m->failed)) return m->failed;
  TMESH_ASSERT(m->is_in_frame);
  m->is_in_frame = false;
  if (m->frame_stream != NULL && m->frame_stream->is_datagram) datagram_end(m);
  m->frame_stream = NULL;
  const struct tmesh_frame_header* h = &m->frame;
  switch (h->type) {
    case TMESH_FRAME_OPEN_STREAM:
      return tmesh_mux_accept(m, h, h->length_bytes > TMESH_OPEN_STREAM_MAX_BYTES ? NULL : m->frame_payload,
                              m->frame_payload_len_bytes);
    case TMESH_FRAME_DATA:
      return tmesh_ok();
    case TMESH_FRAME_HALF_CLOSE:
      return half_close(m, h);
    case TMESH_FRAME_RESET:
      reset(m, h);
      return tmesh_ok();
    case TMESH_FRAME_WINDOW_UPDATE:
      return window_update(m, h);
    case TMESH_FRAME_OPEN_RESULT:
      return open_result(m, h);
    case TMESH_FRAME_GOAWAY:
      m->is_draining = true;
      if (m->config.events->on_goaway != NULL) m->config.events->on_goaway(m->config.events_ctx);
      return m->failed;
    case TMESH_FRAME_PING:
      ping(m);
      return tmesh_ok();
    case TMESH_FRAME_PONG:
      if (m->config.events->on_pong != NULL) {
        m->config.events->on_pong(m->config.events_ctx, m->frame_payload, m->frame_payload_len_bytes);
      }
      return m->failed;
    default:
      return control(m, h);
  }
}
