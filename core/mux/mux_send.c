/* What goes out, in which order, and what wakes the link.
 *
 * The link asks (pull) when its socket can take more. Nobody asks an idle link, so
 * everything that makes output possible calls on_dirty. The edges, with the test of
 * each in tests/sim/test_wakeup_edges.c:
 *
 *   what happened                                  | who wakes the link
 *   -----------------------------------------------+----------------------------------------------
 *   bytes appended to an idle stream               | stream_out_added -> fair_writer_update
 *   credit arrived while the link was idle         | window_update -> fair_writer_update
 *   credit arrived while a batch was in flight     | the same; mux_written sees output and repeats it
 *   bytes appended too soon after a small frame    | the link's timer at tmesh_mux_due_us -> mux_set_time,
 *                                                  |   or bytes or the end that make them worth a frame
 *   HALF_CLOSE queued at zero credit, out empty    | stream_finish -> fair_writer_update (costs no credit)
 *   HALF_CLOSE behind bytes without credit         | the credit that lets the last byte out; the
 *                                                  |   HALF_CLOSE follows in the same visit
 *   OPEN_RESULT accepted with bytes or EOF waiting | open_result / stream_answer -> fair_writer_update
 *   early bytes appended while opening             | stream_out_added -> fair_writer_update (behind the OPEN)
 *   early bytes arrived while opening              | EV_READABLE -> splice pumps -> stream_out_added
 *   OPEN_RESULT accepted, a splice wants room      | EV_RESULT -> splice pumps -> stream_out_added
 *   our answer, a splice wants room                | stream_answer -> EV_WRITTEN with 0 bytes -> the same
 *   room appeared in `out`                         | EV_WRITTEN -> splice pumps -> stream_out_added
 *   room appeared with only a HALF_CLOSE behind    | EV_WRITTEN -> splice sees in empty + eof -> finish
 *   HALF_CLOSE written, nothing else follows       | EV_WRITTEN with 0 bytes (the splice is drained)
 *   consumer caught up, peer out of credit         | stream_consumed -> mark WINDOW_UPDATE
 *   reading was paused for lack of room            | splice -> end_ops.consumed (the socket resumes)
 *   RESET, OPEN, OPEN_RESULT                       | the mark
 *   PING from the peer, a control frame of ours    | receive / mux_control
 *   the batch was written and more waits           | mux_written
 *   a pull ended at its target or batch limit      | mux_written, likewise
 */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/mux/mux_internal.h"

struct tmesh_status tmesh_mux_control(struct tmesh_mux* m, uint8_t type, const void* payload,
                                      size_t len_bytes) {
  if (!tmesh_is_ok(m->failed)) return m->failed;
  TMESH_ASSERT(!tmesh_frame_is_stream_scoped(type) && len_bytes <= TMESH_METADATA_MAX_BYTES);
  if (m->control_count == TMESH_CONTROL_QUEUE_MAX_FRAMES) {
    return tmesh_mux_session_error(m, tmesh_err_session(TMESH_E_CONTROL_EXHAUSTED));
  }
  uint32_t at = (m->control_head + m->control_count) % TMESH_CONTROL_QUEUE_MAX_FRAMES;
  struct tmesh_control_item* item = &m->control[at];
  uint8_t* to = item->small;
  item->payload = NULL;
  if (len_bytes > sizeof item->small) {
    item->payload = malloc(len_bytes);
    if (item->payload == NULL) return tmesh_mux_session_error(m, tmesh_err_session(TMESH_E_NO_MEMORY));
    to = item->payload;
  }
  if (len_bytes > 0) memcpy(to, payload, len_bytes);
  item->type = type;
  item->len_bytes = (uint16_t)len_bytes;
  m->control_count++;
  if (type == TMESH_FRAME_GOAWAY) m->is_draining = true;
  tmesh_mux_dirty(m);
  return tmesh_ok();
}

bool tmesh_mux_has_output(const struct tmesh_mux* m) {
  if (!tmesh_is_ok(m->failed)) return false;
  return m->control_count > 0 || m->pong_pending || m->marks_count > 0 || m->unknown_resets_pending != 0 ||
         !tmesh_fair_writer_is_idle(&m->writer);
}

/* Starts a message in the sink: the header is written, the place of the payload returned. */
static uint8_t* begin(struct tmesh_mux* m, struct tmesh_sink* sink, struct tmesh_frame_header h,
                      size_t* done_bytes) {
  size_t len_bytes = TMESH_FRAME_HEADER_BYTES + (size_t)h.length_bytes;
  uint8_t* at = sink->begin(sink->ctx, len_bytes);
  TMESH_ASSERT(at != NULL);
  TMESH_ASSERT(tmesh_is_ok(tmesh_frame_header_encode(at, &h)));
  *done_bytes += len_bytes;
  m->stats.frames_out_count++;
  return at + TMESH_FRAME_HEADER_BYTES;
}

static void put(struct tmesh_mux* m, struct tmesh_sink* sink, struct tmesh_frame_header h,
                const void* payload, size_t* done_bytes) {
  uint8_t* at = begin(m, sink, h, done_bytes);
  if (payload != NULL && h.length_bytes > 0) memcpy(at, payload, h.length_bytes);
  sink->end(sink->ctx);
}

static void pull_control(struct tmesh_mux* m, struct tmesh_sink* sink, size_t* done_bytes) {
  struct tmesh_control_item* item = &m->control[m->control_head];
  struct tmesh_frame_header h = {.type = item->type, .length_bytes = item->len_bytes};
  put(m, sink, h, item->payload != NULL ? item->payload : item->small, done_bytes);
  free(item->payload);
  item->payload = NULL;
  m->control_head = (m->control_head + 1) % TMESH_CONTROL_QUEUE_MAX_FRAMES;
  m->control_count--;
}

static void pull_pong(struct tmesh_mux* m, struct tmesh_sink* sink, size_t* done_bytes) {
  struct tmesh_frame_header h = {.type = TMESH_FRAME_PONG, .length_bytes = m->pong_len_bytes};
  m->pong_pending = false;
  put(m, sink, h, m->pong, done_bytes);
}

static void pull_open(struct tmesh_stream* s, struct tmesh_sink* sink, size_t* done_bytes) {
  struct tmesh_frame_header h = {.type = TMESH_FRAME_OPEN_STREAM,
                                 .flags = s->is_strict ? TMESH_FLAG_STRICT_OPEN : 0,
                                 .stream_id = s->id,
                                 .length_bytes = s->open_payload_len_bytes,
                                 .window_bytes = s->open_window_bytes};
  put(s->mux, sink, h, s->open_payload, done_bytes);
  free(s->open_payload);
  s->open_payload = NULL;
  s->open_payload_len_bytes = 0;
}

static void pull_open_result(struct tmesh_stream* s, struct tmesh_sink* sink, size_t* done_bytes) {
  char payload[TMESH_OPEN_RESULT_MAX_BYTES];
  size_t len_bytes;
  TMESH_ASSERT(tmesh_is_ok(tmesh_open_result_encode(&s->result, payload, sizeof payload, &len_bytes)));
  struct tmesh_frame_header h = {
      .type = TMESH_FRAME_OPEN_RESULT, .stream_id = s->id, .length_bytes = (uint32_t)len_bytes};
  put(s->mux, sink, h, payload, done_bytes);
}

/* One pending mark of the first stream in the FIFO, in the order a peer must see them. */
static void pull_mark(struct tmesh_mux* m, struct tmesh_sink* sink, size_t* done_bytes) {
  struct tmesh_stream* s = TMESH_CONTAINER(tmesh_list_first(&m->marks), struct tmesh_stream, in_marks);
  uint8_t mark;
  if ((s->marks & TMESH_MARK_OPEN) != 0) {
    mark = TMESH_MARK_OPEN;
    pull_open(s, sink, done_bytes);
  } else if ((s->marks & TMESH_MARK_OPEN_RESULT) != 0) {
    mark = TMESH_MARK_OPEN_RESULT;
    pull_open_result(s, sink, done_bytes);
  } else if ((s->marks & TMESH_MARK_WINDOW_UPDATE) != 0) {
    mark = TMESH_MARK_WINDOW_UPDATE;
    struct tmesh_frame_header h = {
        .type = TMESH_FRAME_WINDOW_UPDATE, .stream_id = s->id, .window_bytes = s->update_bytes};
    s->update_bytes = 0;
    put(m, sink, h, NULL, done_bytes);
  } else {
    mark = TMESH_MARK_RESET;
    struct tmesh_frame_header h = {.type = TMESH_FRAME_RESET, .stream_id = s->id};
    m->stats.resets_out_count++;
    put(m, sink, h, NULL, done_bytes);
  }
  s->marks = (uint8_t)(s->marks & ~mark);
  if (s->marks != 0) return;
  tmesh_mux_stream_unmark_all(s);
  tmesh_mux_stream_settle(s);
}

static void pull_unknown_reset(struct tmesh_mux* m, struct tmesh_sink* sink, size_t* done_bytes) {
  unsigned slot = 0;
  while ((m->unknown_resets_pending & (1u << slot)) == 0) slot++;
  m->unknown_resets_pending = (uint16_t)(m->unknown_resets_pending & ~(1u << slot));
  struct tmesh_frame_header h = {.type = TMESH_FRAME_RESET, .stream_id = m->unknown_resets[slot]};
  m->stats.resets_out_count++;
  put(m, sink, h, NULL, done_bytes);
}

static void record(struct tmesh_mux* m, uint32_t id, uint32_t bytes) {
  TMESH_ASSERT(m->batch != NULL && m->batch_count < TMESH_BATCH_MAX_ITEMS);
  struct tmesh_batch_record* last = m->batch_count == 0 ? NULL : &m->batch[m->batch_count - 1];
  if (last != NULL && last->id == id && bytes > 0) { /* nothing follows a HALF_CLOSE */
    last->bytes += bytes;
    return;
  }
  m->batch[m->batch_count++] = (struct tmesh_batch_record){id, bytes};
}

static bool pull_data(struct tmesh_mux* m, struct tmesh_sink* sink, size_t* done_bytes) {
  struct tmesh_send_item item;
  if (m->batch_count == TMESH_BATCH_MAX_ITEMS || !tmesh_fair_writer_next(&m->writer, &item)) return false;
  struct tmesh_stream* s = item.stream;
  if (item.is_half_close) {
    struct tmesh_frame_header h = {.type = TMESH_FRAME_HALF_CLOSE, .stream_id = s->id};
    put(m, sink, h, NULL, done_bytes);
    s->out_eof_pulled = true;
    TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_HALF_CLOSE_OUT));
  } else {
    struct tmesh_frame_header h = {
        .type = TMESH_FRAME_DATA, .stream_id = s->id, .length_bytes = item.len_bytes};
    uint8_t* at = begin(m, sink, h, done_bytes);
    tmesh_chunkq_consume(&s->out, item.queued_bytes - item.len_bytes);
    TMESH_ASSERT(tmesh_chunkq_read(&s->out, at, item.len_bytes) == item.len_bytes);
    sink->end(sink->ctx);
    tmesh_send_window_take(&s->send, item.len_bytes);
    s->batched_bytes += item.queued_bytes;
    s->moved_us = m->now_us;
    m->stats.data_bytes_out += item.len_bytes;
  }
  record(m, s->id, item.queued_bytes);
  tmesh_fair_writer_update(&m->writer, s);
  return true;
}

size_t tmesh_mux_pull(struct tmesh_mux* m, struct tmesh_sink* sink, size_t target_bytes) {
  TMESH_ASSERT(!m->is_batch_open);
  if (!tmesh_is_ok(m->failed)) return 0;
  size_t done_bytes = 0;
  while (done_bytes < target_bytes) {
    if (m->control_count > 0) {
      pull_control(m, sink, &done_bytes);
    } else if (m->pong_pending) {
      pull_pong(m, sink, &done_bytes);
    } else if (m->marks_count > 0) {
      pull_mark(m, sink, &done_bytes);
    } else if (m->unknown_resets_pending != 0) {
      pull_unknown_reset(m, sink, &done_bytes);
    } else if (!pull_data(m, sink, &done_bytes)) {
      break;
    }
  }
  m->is_batch_open = done_bytes > 0;
  return done_bytes;
}

void tmesh_mux_written(struct tmesh_mux* m) {
  TMESH_ASSERT(m->is_batch_open);
  m->is_batch_open = false;
  for (size_t i = 0; i < m->batch_count; i++) {
    struct tmesh_stream* s = tmesh_idmap_get(&m->streams, m->batch[i].id);
    if (s == NULL || s->state == TMESH_STREAM_RESET || !tmesh_is_ok(m->failed)) continue;
    TMESH_ASSERT(m->batch[i].bytes <= s->batched_bytes);
    s->batched_bytes -= m->batch[i].bytes;
    s->written_bytes += m->batch[i].bytes;
    if (m->batch[i].bytes == 0) s->out_eof_written = true;
    tmesh_mux_stream_event(s, TMESH_STREAM_EV_WRITTEN);
  }
  m->batch_count = 0;
  if (tmesh_mux_has_output(m)) tmesh_mux_dirty(m);
}
