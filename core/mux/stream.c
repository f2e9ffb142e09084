/* The user's side of a stream. */
#include "core/mux/stream.h"

#include "core/base/check.h"
#include "core/mux/mux_internal.h"

void tmesh_stream_attach(struct tmesh_stream* s, void* user, tmesh_stream_event_fn fn) {
  TMESH_ASSERT(!s->is_released && fn != NULL);
  s->user = user;
  s->on_event = fn;
  if (s->events != 0) tmesh_mux_stream_event(s, 0);
}

void tmesh_stream_detach(struct tmesh_stream* s) {
  TMESH_ASSERT(!s->is_released);
  s->user = NULL;
  s->on_event = NULL;
  tmesh_list_remove(&s->in_events);
}

/* Bytes, credit or the state changed: schedules the stream and wakes an idle link. */
static void reschedule(struct tmesh_stream* s) {
  tmesh_mux_schedule(s);
}

void tmesh_stream_answer(struct tmesh_stream* s, const struct tmesh_open_result* result) {
  TMESH_ASSERT(!s->is_released && !s->is_opener);
  if (s->state != TMESH_STREAM_OPENING) {
    TMESH_ASSERT(tmesh_mux_stream_over(s)); /* an open is answered once */
    return;
  }
  s->result = *result;
  if (!result->accepted) {
    tmesh_mux_stream_end(s, TMESH_EV_REFUSED, tmesh_err_stream(TMESH_E_REFUSED));
    tmesh_mux_stream_mark(s, s->is_strict ? TMESH_MARK_OPEN_RESULT : TMESH_MARK_RESET);
    return;
  }
  TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_ACCEPTED));
  /* A legacy opener may have sent everything, the HALF_CLOSE included, before we answered. */
  if (s->in_eof) TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_HALF_CLOSE_IN));
  if (s->is_strict) tmesh_mux_stream_mark(s, TMESH_MARK_OPEN_RESULT);
  if (s->waits_for_answer) tmesh_mux_stream_event(s, TMESH_STREAM_EV_WRITTEN);
  reschedule(s);
}

static size_t early_room(const struct tmesh_stream* s) {
  if (!tmesh_stream_may_send_early(s) || s->out_eof) return 0;
  size_t used_bytes = s->first_bytes + s->out.len_bytes;
  return used_bytes >= TMESH_EARLY_DATA_MAX_BYTES ? 0 : TMESH_EARLY_DATA_MAX_BYTES - used_bytes;
}

/* How much `out` holds at most. Nothing makes a sender of datagrams rest, so while memory is short
 * one block has to do; but what is missing of a datagram always has room, since nothing can leave
 * before it, and so has any when the queue is empty. */
static size_t out_limit(const struct tmesh_stream* s) {
  uint32_t len_bytes;
  if (!s->is_datagram || tmesh_pool_pressure(s->out.pool) == TMESH_PRESSURE_NONE) return s->out_max_bytes;
  if (!tmesh_datagram_is_ready(&s->out, &len_bytes)) return s->out_max_bytes;
  return s->out_max_bytes < TMESH_BLOCK_BYTES ? s->out_max_bytes : TMESH_BLOCK_BYTES;
}

size_t tmesh_stream_out_room(const struct tmesh_stream* s) {
  if (s->state == TMESH_STREAM_OPENING) return early_room(s);
  if (s->state != TMESH_STREAM_OPEN && s->state != TMESH_STREAM_HALF_CLOSED_REMOTE) return 0;
  const size_t limit_bytes = out_limit(s);
  if (s->out_eof || s->out.len_bytes >= limit_bytes) return 0;
  return limit_bytes - s->out.len_bytes;
}

void tmesh_stream_out_added(struct tmesh_stream* s) {
  TMESH_ASSERT(!s->out_eof_pulled && s->out.len_bytes <= s->out_max_bytes);
  tmesh_mux_stream_moved(s);
  reschedule(s);
}

size_t tmesh_stream_write(struct tmesh_stream* s, const void* data, size_t n) {
  TMESH_ASSERT(!s->is_datagram);
  size_t room = tmesh_stream_out_room(s);
  if (n > room) n = room;
  if (n == 0 || !tmesh_is_ok(tmesh_chunkq_append(&s->out, data, n))) return 0;
  tmesh_stream_out_added(s);
  return n;
}

void tmesh_stream_finish(struct tmesh_stream* s) {
  if (tmesh_mux_stream_over(s) || s->out_eof) return;
  s->out_eof = true;
  reschedule(s);
}

/* A window that limits the stream is doubled; the difference joins the next increment. */
static void grow_window(struct tmesh_stream* s, uint64_t per_rtt_bytes) {
  struct tmesh_recv_window* w = &s->recv;
  const uint32_t max_bytes = s->mux->config.window_max_bytes;
  if (per_rtt_bytes <= w->size_bytes / 2 || w->size_bytes >= max_bytes) return;
  uint32_t size_bytes = max_bytes - w->size_bytes < w->size_bytes ? max_bytes : w->size_bytes * 2;
  tmesh_recv_window_grow(w, size_bytes, s->mux->config.window_threshold_bytes);
  s->mux->stats.windows_grown_count++;
}

/* Bytes that are not credited make a grown window smaller. Returns what is left of n. */
static uint32_t shrink_window(struct tmesh_stream* s, uint32_t n) {
  struct tmesh_recv_window* w = &s->recv;
  if (w->size_bytes <= TMESH_WINDOW_INITIAL_BYTES) return n;
  uint32_t cut_bytes = w->size_bytes - TMESH_WINDOW_INITIAL_BYTES;
  if (cut_bytes > n) cut_bytes = n;
  tmesh_recv_window_shrink(w, cut_bytes, s->mux->config.window_threshold_bytes);
  if (w->size_bytes == TMESH_WINDOW_INITIAL_BYTES) s->mux->stats.windows_shrunk_count++;
  return n - cut_bytes;
}

/* Fits the window to the path and to memory. Returns how many of n consumed bytes the peer gets back. */
static uint32_t fit_window(struct tmesh_stream* s, uint32_t n) {
  if (!s->mux->config.has_window_growth || !s->recv.is_limited) return n;
  uint64_t per_rtt_bytes = tmesh_growth_count(&s->growth, &s->mux->rounds, n);
  if (tmesh_pool_pressure(s->mux->config.pool) != TMESH_PRESSURE_NONE) return shrink_window(s, n);
  grow_window(s, per_rtt_bytes);
  return n;
}

void tmesh_stream_consumed(struct tmesh_stream* s, size_t n) {
  if (s->state == TMESH_STREAM_RESET || n == 0) return;
  tmesh_mux_stream_moved(s);
  uint32_t back_bytes = s->in_eof ? (uint32_t)n : fit_window(s, (uint32_t)n);
  uint32_t delta = tmesh_recv_window_consume(&s->recv, back_bytes);
  /* After its HALF_CLOSE the peer has no use for credit. */
  if (delta == 0 || s->in_eof) return;
  s->update_bytes += delta;
  tmesh_mux_stream_mark(s, TMESH_MARK_WINDOW_UPDATE);
}

void tmesh_stream_reset(struct tmesh_stream* s) {
  if (tmesh_mux_stream_over(s)) return;
  if (tmesh_mux_stream_end(s, TMESH_EV_RESET, tmesh_err_stream(TMESH_E_CANCELLED))) {
    tmesh_mux_stream_mark(s, TMESH_MARK_RESET);
  }
}

void tmesh_stream_release(struct tmesh_stream* s) {
  TMESH_ASSERT(!s->is_released);
  tmesh_stream_reset(s);
  s->is_released = true;
  s->user = NULL;
  s->on_event = NULL;
  s->events = 0;
  tmesh_list_remove(&s->in_events);
  tmesh_chunkq_clear(&s->in);
  tmesh_mux_stream_settle(s);
}

bool tmesh_stream_is_done(const struct tmesh_stream* s) {
  return s->state == TMESH_STREAM_CLOSED;
}

bool tmesh_stream_all_written(const struct tmesh_stream* s) {
  return s->out.len_bytes == 0 && s->batched_bytes == 0 && (!s->out_eof || s->out_eof_written);
}
