/* How a stream comes to be, changes state and goes. */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/mux/mux_internal.h"

struct tmesh_stream* tmesh_mux_stream_new(struct tmesh_mux* m, uint32_t id) {
  struct tmesh_list* cached = tmesh_list_first(&m->retired);
  struct tmesh_stream* s;
  if (cached != NULL) {
    tmesh_list_remove(cached);
    m->retired_count--;
    s = TMESH_CONTAINER(cached, struct tmesh_stream, in_all);
  } else {
    s = malloc(sizeof *s);
    if (s == NULL) return NULL;
  }
  memset(s, 0, sizeof *s);
  tmesh_list_init(&s->in_all);
  tmesh_list_init(&s->in_events);
  tmesh_list_init(&s->in_marks);
  tmesh_list_init(&s->in_active);
  if (!tmesh_is_ok(tmesh_idmap_put(&m->streams, id, s))) {
    free(s);
    return NULL;
  }
  s->mux = m;
  s->id = id;
  s->state = TMESH_STREAM_IDLE;
  s->out_max_bytes = m->config.outbound_max_bytes;
  tmesh_chunkq_init(&s->in, m->config.pool);
  tmesh_chunkq_init(&s->out, m->config.pool);
  tmesh_list_push_back(&m->all, &s->in_all);
  return s;
}

void tmesh_mux_stream_settle(struct tmesh_stream* s) {
  struct tmesh_mux* m = s->mux;
  if (!s->is_released || s->marks != 0) return;
  TMESH_ASSERT(tmesh_mux_stream_over(s));
  TMESH_ASSERT(m->frame_stream != s);
  tmesh_chunkq_clear(&s->in);
  tmesh_chunkq_clear(&s->out);
  tmesh_fair_writer_remove(&m->writer, s);
  tmesh_list_remove(&s->in_events);
  tmesh_list_remove(&s->in_all);
  TMESH_ASSERT(tmesh_idmap_remove(&m->streams, s->id) == s);
  if (m->retired_count < TMESH_RETIRED_MAX_STREAMS) {
    tmesh_list_push_front(&m->retired, &s->in_all);
    m->retired_count++;
  } else {
    free(s);
  }
}

void tmesh_mux_retired_free(struct tmesh_mux* m) {
  struct tmesh_list* node = m->retired.next;
  while (node != &m->retired) {
    struct tmesh_stream* s = TMESH_CONTAINER(node, struct tmesh_stream, in_all);
    node = node->next;
    free(s);
  }
  tmesh_list_init(&m->retired);
  m->retired_count = 0;
}

bool tmesh_mux_stream_step(struct tmesh_stream* s, enum tmesh_stream_event event) {
  enum tmesh_stream_state next = tmesh_stream_next((enum tmesh_stream_state)s->state, event);
  if (next == TMESH_STREAM_STATE_COUNT) return false;
  bool was_live = s->state != TMESH_STREAM_IDLE && !tmesh_mux_stream_over(s);
  s->state = (uint8_t)next;
  bool is_live = !tmesh_mux_stream_over(s);
  if (is_live && !was_live) s->mux->live_count++;
  if (was_live && !is_live) {
    TMESH_ASSERT(s->mux->live_count > 0);
    s->mux->live_count--;
  }
  return true;
}

bool tmesh_mux_stream_end(struct tmesh_stream* s, enum tmesh_stream_event event, struct tmesh_status why) {
  struct tmesh_mux* m = s->mux;
  TMESH_ASSERT(!tmesh_mux_stream_over(s));
  bool is_known_to_peer = (s->marks & TMESH_MARK_OPEN) == 0;
  TMESH_ASSERT(tmesh_mux_stream_step(s, event) && tmesh_mux_stream_over(s));
  s->over = why;
  if (m->frame_stream == s) {
    m->frame_stream = NULL;
    tmesh_chunkq_clear(&m->datagram);
  }
  tmesh_fair_writer_remove(&m->writer, s);
  tmesh_mux_stream_unmark_all(s);
  tmesh_chunkq_clear(&s->in);
  tmesh_chunkq_clear(&s->out);
  s->batched_bytes = 0;
  s->written_bytes = 0;
  s->events = 0;
  tmesh_list_remove(&s->in_events);
  return is_known_to_peer;
}

/* Counts a window violation; true when it is one too many. A period begins with its first
 * violation, so that what is spread over more time never adds up. */
static bool is_violation_storm(struct tmesh_mux* m) {
  m->stats.window_violations_count++;
  if (m->violations_count == 0 || m->now_us - m->violations_since_us > m->config.violations_period_us) {
    m->violations_since_us = m->now_us;
    m->violations_count = 0;
  }
  m->violations_count++;
  return m->violations_count >= m->config.violations_max;
}

static bool is_window_violation(unsigned code) {
  return code == TMESH_E_WINDOW_EXCEEDED || code == TMESH_E_WINDOW_ZERO || code == TMESH_E_WINDOW_OVERFLOW;
}

struct tmesh_status tmesh_mux_stream_fail(struct tmesh_stream* s, struct tmesh_status why) {
  struct tmesh_mux* m = s->mux;
  TMESH_ASSERT(why.scope == TMESH_SCOPE_STREAM);
  bool is_storm = false;
  m->stats.stream_errors_count[why.code]++;
  if (why.code == TMESH_E_BACKPRESSURE) {
    m->stats.legacy_backpressure_count++;
  } else if (is_window_violation(why.code)) {
    is_storm = is_violation_storm(m);
  } else if (why.code == TMESH_E_TIMEOUT) {
    m->stats.stalled_resets_count++;
  } else if (why.code != TMESH_E_NO_MEMORY) {
    m->stats.protocol_resets_count++;
  }
  if (tmesh_mux_stream_end(s, TMESH_EV_RESET, why)) tmesh_mux_stream_mark(s, TMESH_MARK_RESET);
  tmesh_mux_stream_event(s, TMESH_STREAM_EV_OVER);
  if (is_storm) {
    return tmesh_mux_session_error(m, tmesh_err_session(TMESH_E_WINDOW_EXCEEDED));
  }
  return tmesh_ok();
}

void tmesh_mux_evict(struct tmesh_stream* s) {
  TMESH_ASSERT(!tmesh_mux_stream_over(s));
  s->mux->stats.memory_resets_count++;
  /* Our own need is no violation of the peer: it cannot end the session. */
  (void)!tmesh_is_ok(tmesh_mux_stream_fail(s, tmesh_err_stream(TMESH_E_NO_MEMORY)));
}

void tmesh_mux_stream_event(struct tmesh_stream* s, unsigned events) {
  if (s->is_released) return;
  s->events = (uint8_t)(s->events | events);
  if (s->on_event == NULL) return; /* attach will queue it */
  if (!tmesh_list_linked(&s->in_events)) tmesh_list_push_back(&s->mux->events, &s->in_events);
  tmesh_mux_dirty(s->mux);
}

void tmesh_mux_stream_mark(struct tmesh_stream* s, unsigned mark) {
  struct tmesh_mux* m = s->mux;
  s->marks = (uint8_t)(s->marks | mark);
  if (!tmesh_list_linked(&s->in_marks)) {
    tmesh_list_push_back(&m->marks, &s->in_marks);
    m->marks_count++;
  }
  tmesh_mux_dirty(m);
}

void tmesh_mux_stream_unmark_all(struct tmesh_stream* s) {
  if (tmesh_list_linked(&s->in_marks)) {
    tmesh_list_remove(&s->in_marks);
    s->mux->marks_count--;
  }
  s->marks = 0;
  s->update_bytes = 0;
  free(s->open_payload);
  s->open_payload = NULL;
  s->open_payload_len_bytes = 0;
}
