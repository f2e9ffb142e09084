/* Invariants, for tests, simulation and fuzzers: O(everything). */
#include "core/base/check.h"
#include "core/mux/mux_internal.h"

static bool has_item(const struct tmesh_stream* s) {
  if (s->state == TMESH_STREAM_OPENING) {
    return tmesh_stream_may_send_early(s) && s->out.len_bytes > 0 &&
           tmesh_send_window_available(&s->send, 1) > 0;
  }
  if (s->state != TMESH_STREAM_OPEN && s->state != TMESH_STREAM_HALF_CLOSED_REMOTE) return false;
  uint32_t len_bytes;
  if (s->out.len_bytes > 0 && s->is_datagram) return tmesh_datagram_is_ready(&s->out, &len_bytes);
  if (s->out.len_bytes > 0) return tmesh_send_window_available(&s->send, 1) > 0;
  return s->out_eof && !s->out_eof_pulled;
}

/* What a receive window can have become. */
static uint32_t largest_window(const struct tmesh_stream* s) {
  uint32_t first_bytes = s->is_opener ? s->open_window_bytes : TMESH_WINDOW_INITIAL_BYTES;
  uint32_t max_bytes = s->mux->config.has_window_growth ? s->mux->config.window_max_bytes : 0;
  return first_bytes > max_bytes ? first_bytes : max_bytes;
}

static void check_windows(const struct tmesh_stream* s) {
  const struct tmesh_recv_window* r = &s->recv;
  if (r->is_limited && s->state != TMESH_STREAM_RESET) {
    TMESH_ASSERT((uint64_t)r->credit_bytes + r->consumed_bytes + s->in.len_bytes <= r->size_bytes);
    TMESH_ASSERT(s->update_bytes <= r->credit_bytes && r->credit_bytes <= r->size_bytes);
    TMESH_ASSERT(r->size_bytes <= largest_window(s));
    /* A peer without credit is only ever waiting for our consumer, never for us: when
     * all it sent was consumed, at least one frame of credit is on its way (W2). */
    if (r->size_bytes >= 2 * TMESH_DATA_MAX_BYTES && r->credit_bytes < TMESH_DATA_MAX_BYTES) {
      TMESH_ASSERT(r->consumed_bytes < r->threshold_bytes);
    }
  }
  TMESH_ASSERT(!s->send.is_limited || s->send.credit_bytes <= s->send.cap_bytes);
}

void tmesh_stream_check(const struct tmesh_stream* s) {
  bool is_over = tmesh_mux_stream_over(s);
  TMESH_ASSERT(s->id != 0 && s->state != TMESH_STREAM_IDLE && s->state < TMESH_STREAM_STATE_COUNT);
  tmesh_chunkq_check(&s->in);
  tmesh_chunkq_check(&s->out);
  check_windows(s);
  TMESH_ASSERT(tmesh_list_linked(&s->in_active) == has_item(s));
  TMESH_ASSERT(tmesh_list_linked(&s->in_active) == (s->place != TMESH_PLACE_NONE));
  TMESH_ASSERT(s->place == TMESH_PLACE_RING || s->deficit_bytes == 0);
  TMESH_ASSERT(s->first_bytes <= TMESH_FRESH_MAX_BYTES);
  if (s->place == TMESH_PLACE_FRESH) TMESH_ASSERT(s->first_bytes < TMESH_FRESH_MAX_BYTES);
  if (s->place == TMESH_PLACE_RING) TMESH_ASSERT(s->first_bytes == TMESH_FRESH_MAX_BYTES);
  if (s->place == TMESH_PLACE_HELD) {
    TMESH_ASSERT(s->is_datagram ? s->turn_count == TMESH_DATAGRAM_TURN_COUNT
                                : s->out.len_bytes < TMESH_COALESCE_BELOW_BYTES);
    TMESH_ASSERT(!s->out_eof && !s->is_due);
  }
  if (s->state == TMESH_STREAM_OPENING && s->is_strict) {
    size_t early_bytes = s->has_early_data ? TMESH_EARLY_DATA_MAX_BYTES : 0;
    TMESH_ASSERT(s->early_in_bytes <= early_bytes && s->in.len_bytes <= s->early_in_bytes);
    TMESH_ASSERT(s->first_bytes + s->out.len_bytes <= early_bytes);
  }
  /* What is charged for the largest item was not there a visit ago. */
  TMESH_ASSERT(s->deficit_bytes < TMESH_FRAME_HEADER_BYTES + TMESH_DATAGRAM_MAX_BYTES + TMESH_QUANTUM_BYTES);
  if (s->is_datagram) {
    TMESH_ASSERT(!s->recv.is_limited && !s->send.is_limited && !s->has_early_data);
    tmesh_datagram_check(&s->out, !s->out_eof); /* of `in` a splice may have taken a part of the first one */
  }
  TMESH_ASSERT(tmesh_list_linked(&s->in_marks) == (s->marks != 0));
  TMESH_ASSERT(((s->marks & TMESH_MARK_OPEN) != 0) == (s->open_payload != NULL));
  TMESH_ASSERT(((s->marks & TMESH_MARK_WINDOW_UPDATE) != 0) == (s->update_bytes != 0));
  TMESH_ASSERT((s->marks & TMESH_MARK_OPEN) == 0 || s->is_opener);
  TMESH_ASSERT((s->marks & TMESH_MARK_OPEN_RESULT) == 0 || (!s->is_opener && s->is_strict));
  TMESH_ASSERT(tmesh_list_linked(&s->in_events) == (s->events != 0 && s->on_event != NULL));
  TMESH_ASSERT(s->out.len_bytes <= s->out_max_bytes);
  TMESH_ASSERT(!s->out_eof_pulled || (s->out_eof && s->out.len_bytes == 0));
  TMESH_ASSERT(!s->out_eof_written || (s->out_eof_pulled && s->batched_bytes == 0));
  if (s->state == TMESH_STREAM_RESET) {
    TMESH_ASSERT((s->in.len_bytes == 0 || s->is_opener) && s->out.len_bytes == 0);
    TMESH_ASSERT(s->batched_bytes == 0 && s->written_bytes == 0);
  }
  if (is_over) TMESH_ASSERT(s->out.len_bytes == 0);
  if (s->is_released) TMESH_ASSERT(is_over && s->marks != 0 && s->events == 0 && s->on_event == NULL);
  if (!is_over && !s->recv.is_limited) TMESH_ASSERT(s->in.len_bytes <= s->mux->config.inbound_max_bytes);
}

static size_t batched_bytes(const struct tmesh_mux* m, uint32_t id) {
  size_t sum = 0;
  for (size_t i = 0; i < m->batch_count; i++) {
    if (m->batch[i].id == id) sum += m->batch[i].bytes;
  }
  return sum;
}

void tmesh_mux_check(const struct tmesh_mux* m) {
  size_t streams = 0, live = 0, marked = 0, active = 0, held = 0, linked = 0;
  for (const struct tmesh_list* n = m->all.next; n != &m->all; n = n->next) {
    const struct tmesh_stream* s = TMESH_CONTAINER(n, const struct tmesh_stream, in_all);
    TMESH_ASSERT(s->mux == m && tmesh_idmap_get(&m->streams, s->id) == s);
    tmesh_stream_check(s);
    streams++;
    if (!tmesh_mux_stream_over(s)) live++;
    if (s->marks != 0) marked++;
    if (s->place == TMESH_PLACE_HELD) held++;
    if (s->place != TMESH_PLACE_NONE && s->place != TMESH_PLACE_HELD) active++;
    if (!tmesh_mux_stream_over(s)) TMESH_ASSERT(s->batched_bytes == batched_bytes(m, s->id));
    if (!tmesh_is_ok(m->failed)) TMESH_ASSERT(tmesh_mux_stream_over(s) && s->marks == 0 && !s->is_released);
  }
  tmesh_chunkq_check(&m->datagram);
  TMESH_ASSERT(m->datagram.len_bytes == 0 || (m->frame_stream != NULL && m->frame_stream->is_datagram));
  TMESH_ASSERT(streams == m->streams.count && live == m->live_count && marked == m->marks_count);
  TMESH_ASSERT(m->live_count <= m->config.streams_max);
  for (const struct tmesh_list* n = m->writer.fresh.next; n != &m->writer.fresh; n = n->next) linked++;
  for (const struct tmesh_list* n = m->writer.ring.next; n != &m->writer.ring; n = n->next) linked++;
  TMESH_ASSERT(linked == active + 1); /* the mark of the round */
  TMESH_ASSERT(tmesh_list_linked(&m->writer.round));
  TMESH_ASSERT(m->writer.fresh_left_bytes <= TMESH_QUANTUM_BYTES);
  TMESH_ASSERT(tmesh_fair_writer_is_idle(&m->writer) == (active == 0));
  linked = 0;
  for (const struct tmesh_list* n = m->writer.held.next; n != &m->writer.held; n = n->next) linked++;
  TMESH_ASSERT(linked == held && (held == 0 || m->writer.held_due_us > m->now_us));
  uint32_t last_open_id = 0;
  linked = 0;
  for (const struct tmesh_list* n = m->marks.next; n != &m->marks; n = n->next) {
    const struct tmesh_stream* s = TMESH_CONTAINER(n, const struct tmesh_stream, in_marks);
    linked++;
    if ((s->marks & TMESH_MARK_OPEN) == 0) continue;
    TMESH_ASSERT(s->id > last_open_id); /* OPENs leave in id order */
    last_open_id = s->id;
  }
  TMESH_ASSERT(linked == marked);
  TMESH_ASSERT(m->control_count <= TMESH_CONTROL_QUEUE_MAX_FRAMES);
  TMESH_ASSERT(m->retired_count <= TMESH_RETIRED_MAX_STREAMS);
  TMESH_ASSERT(m->batch_count <= TMESH_BATCH_MAX_ITEMS && (m->batch_count == 0 || m->is_batch_open));
}
