#include "core/mux/mux.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/mux/mux_internal.h"

/* LESSONS W2 of every window whose size nobody chose. */
_Static_assert(TMESH_WINDOW_INITIAL_BYTES - TMESH_WINDOW_THRESHOLD_BYTES >= TMESH_DATA_MAX_BYTES,
               "a sender whose bytes were all consumed has credit for one frame");
/* LESSONS W3: the cap on what deployed peers grant is above what they start with. */
_Static_assert(TMESH_WINDOW_LEGACY_CAP_BYTES >= 2 * TMESH_WINDOW_INITIAL_BYTES,
               "credit that a deployed peer means is never cut");

struct tmesh_status tmesh_mux_init(struct tmesh_mux* m, const struct tmesh_mux_config* config) {
  TMESH_ASSERT(config->pool != NULL && config->events != NULL && config->events->on_control != NULL);
  TMESH_ASSERT(config->is_opener || config->events->on_open != NULL);
  TMESH_ASSERT(config->initial_window_bytes >= TMESH_WINDOW_INITIAL_BYTES);
  TMESH_ASSERT(config->inbound_max_bytes > 0);
  TMESH_ASSERT(config->streams_max > 0);
  /* W1: what the peer may grant at once finds room. W2: as above. */
  if (config->outbound_max_bytes < TMESH_WINDOW_INITIAL_BYTES ||
      config->window_threshold_bytes > config->initial_window_bytes - TMESH_DATA_MAX_BYTES) {
    return tmesh_err_session(TMESH_E_INVALID);
  }
  memset(m, 0, sizeof *m);
  m->config = *config;
  if (config->violations_max == 0) m->config.violations_max = TMESH_WINDOW_VIOLATIONS_MAX;
  if (config->violations_period_us == 0) m->config.violations_period_us = TMESH_WINDOW_VIOLATIONS_PERIOD_US;
  tmesh_idmap_init(&m->streams);
  tmesh_list_init(&m->all);
  tmesh_list_init(&m->events);
  tmesh_list_init(&m->marks);
  tmesh_list_init(&m->retired);
  tmesh_fair_writer_init(&m->writer);
  tmesh_chunkq_init(&m->datagram, m->config.pool);
  m->writer.coalesce_us = m->config.coalesce_us;
  m->next_id = 1;
  m->frame_payload = malloc(TMESH_METADATA_MAX_BYTES);
  m->batch = malloc(TMESH_BATCH_MAX_ITEMS * sizeof *m->batch);
  if (m->frame_payload == NULL || m->batch == NULL) {
    free(m->frame_payload);
    free(m->batch);
    m->frame_payload = NULL;
    m->batch = NULL;
    return tmesh_err_session(TMESH_E_NO_MEMORY);
  }
  return tmesh_ok();
}

void tmesh_mux_dirty(struct tmesh_mux* m) {
  if (m->config.events->on_dirty != NULL) m->config.events->on_dirty(m->config.events_ctx);
}

void tmesh_mux_stream_moved(struct tmesh_stream* s) {
  const struct tmesh_mux_config* c = &s->mux->config;
  s->moved_us = c->events->now_us != NULL ? c->events->now_us(c->events_ctx) : s->mux->now_us;
}

void tmesh_mux_schedule(struct tmesh_stream* s) {
  if (tmesh_fair_writer_update(&s->mux->writer, s)) tmesh_mux_dirty(s->mux);
}

static void drop_control(struct tmesh_mux* m) {
  while (m->control_count > 0) {
    free(m->control[m->control_head].payload);
    m->control[m->control_head].payload = NULL;
    m->control_head = (m->control_head + 1) % TMESH_CONTROL_QUEUE_MAX_FRAMES;
    m->control_count--;
  }
  m->pong_pending = false;
  m->unknown_resets_pending = 0;
}

void tmesh_mux_fail(struct tmesh_mux* m, struct tmesh_status why) {
  if (!tmesh_is_ok(m->failed)) return;
  TMESH_ASSERT(why.code != TMESH_OK && why.code != TMESH_E_AGAIN);
  why.scope = TMESH_SCOPE_SESSION;
  m->failed = why;
  m->frame_stream = NULL;
  tmesh_chunkq_clear(&m->datagram);
  struct tmesh_list* node = m->all.next;
  while (node != &m->all) {
    struct tmesh_stream* s = TMESH_CONTAINER(node, struct tmesh_stream, in_all);
    node = node->next;
    if (!tmesh_mux_stream_over(s)) {
      tmesh_mux_stream_end(s, TMESH_EV_RESET, why);
      tmesh_mux_stream_event(s, TMESH_STREAM_EV_OVER);
    } else if (s->state == TMESH_STREAM_CLOSED && !tmesh_stream_all_written(s)) {
      /* Both directions had ended, but the last batch will never be reported. */
      s->over = why;
      s->events = 0;
      tmesh_mux_stream_event(s, TMESH_STREAM_EV_OVER);
    }
    tmesh_mux_stream_unmark_all(s);
    tmesh_mux_stream_settle(s);
  }
  drop_control(m);
  tmesh_mux_dirty(m);
}

struct tmesh_status tmesh_mux_session_error(struct tmesh_mux* m, struct tmesh_status why) {
  tmesh_mux_fail(m, why);
  return m->failed;
}

void tmesh_mux_close(struct tmesh_mux* m) {
  struct tmesh_list* node;
  while ((node = tmesh_list_first(&m->all)) != NULL) {
    struct tmesh_stream* s = TMESH_CONTAINER(node, struct tmesh_stream, in_all);
    TMESH_ASSERT(s->is_released);
    tmesh_mux_stream_unmark_all(s);
    tmesh_mux_stream_settle(s);
  }
  TMESH_ASSERT(m->live_count == 0 && m->streams.count == 0);
  drop_control(m);
  tmesh_chunkq_clear(&m->datagram);
  tmesh_mux_retired_free(m);
  tmesh_idmap_close(&m->streams);
  free(m->frame_payload);
  free(m->batch);
  m->frame_payload = NULL;
  m->batch = NULL;
}

/* What tmesh_mux_open can refuse without having allocated anything. */
static struct tmesh_status may_open(struct tmesh_mux* m, const struct tmesh_open_params* p) {
  if (!tmesh_is_ok(m->failed) || m->is_draining) return tmesh_err_stream(TMESH_E_STATE);
  if (p->is_strict && !m->config.has_open_result) return tmesh_err_stream(TMESH_E_UNSUPPORTED);
  if (m->live_count >= m->config.streams_max || m->next_id == UINT32_MAX ||
      tmesh_pool_pressure(m->config.pool) >= TMESH_PRESSURE_OPENS) {
    m->stats.queue_full_count++;
    return tmesh_err_stream(TMESH_E_LIMIT);
  }
  return tmesh_ok();
}

static struct tmesh_stream* open_stream(struct tmesh_mux* m, const char* payload, size_t len_bytes) {
  char* copy = malloc(len_bytes);
  if (copy == NULL) return NULL;
  struct tmesh_stream* s = tmesh_mux_stream_new(m, m->next_id);
  if (s == NULL) {
    free(copy);
    return NULL;
  }
  m->next_id++;
  memcpy(copy, payload, len_bytes);
  s->open_payload = copy;
  s->open_payload_len_bytes = (uint32_t)len_bytes;
  return s;
}

struct tmesh_stream* tmesh_mux_open(struct tmesh_mux* m, const struct tmesh_open_params* params,
                                    struct tmesh_status* why) {
  TMESH_ASSERT(m->config.is_opener);
  *why = may_open(m, params);
  if (!tmesh_is_ok(*why)) return NULL;
  char payload[TMESH_OPEN_STREAM_MAX_BYTES];
  size_t len_bytes;
  *why = tmesh_open_stream_encode(params->open, payload, sizeof payload, &len_bytes);
  if (!tmesh_is_ok(*why)) {
    why->scope = TMESH_SCOPE_STREAM;
    return NULL;
  }
  struct tmesh_stream* s = open_stream(m, payload, len_bytes);
  if (s == NULL) {
    *why = tmesh_err_stream(TMESH_E_NO_MEMORY);
    return NULL;
  }
  s->is_opener = true;
  s->is_strict = params->is_strict;
  s->is_datagram = params->open->protocol == TMESH_OPEN_UDP;
  s->has_early_data = s->is_strict && m->config.has_early_data && !s->is_datagram;
  s->open_window_bytes = m->config.has_flow_control && !s->is_datagram ? params->window_bytes : 0;
  tmesh_recv_window_init(&s->recv, s->open_window_bytes, m->config.window_threshold_bytes);
  /* The acceptor's window is never transmitted; deployed peers hold exactly this one (WIRE 1.9). */
  tmesh_send_window_init(&s->send, s->open_window_bytes > 0 ? TMESH_WINDOW_INITIAL_BYTES : 0,
                         m->config.peer_is_ours ? UINT32_MAX : TMESH_WINDOW_LEGACY_CAP_BYTES);
  TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_OPEN));
  /* A legacy open is optimistic: nobody will answer it (requirement B10). */
  if (!s->is_strict) TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_ACCEPTED));
  m->stats.opens_count++;
  tmesh_mux_stream_mark(s, TMESH_MARK_OPEN);
  return s;
}

bool tmesh_mux_dispatch(struct tmesh_mux* m) {
  /* Streams that join while callbacks run wait for the next call, so that two ends
   * which keep waking each other cannot hold the loop. */
  struct tmesh_list turn;
  tmesh_list_init(&turn);
  struct tmesh_list* node;
  while ((node = tmesh_list_first(&m->events)) != NULL) {
    tmesh_list_remove(node);
    tmesh_list_push_back(&turn, node);
  }
  while ((node = tmesh_list_first(&turn)) != NULL) {
    struct tmesh_stream* s = TMESH_CONTAINER(node, struct tmesh_stream, in_events);
    tmesh_list_remove(node);
    uint32_t id = s->id;
    unsigned events = s->events;
    size_t written_bytes = s->written_bytes;
    s->events = 0;
    if ((events & TMESH_STREAM_EV_OVER) != 0 && (events & TMESH_STREAM_EV_RESULT) != 0) {
      /* The answer first; the end in the next call, to whoever has the stream by then. */
      events = TMESH_STREAM_EV_RESULT;
      s->events = TMESH_STREAM_EV_OVER;
      tmesh_list_push_back(&m->events, &s->in_events);
    }
    s->on_event(s->user, s, events);
    /* The callee may have released s. */
    if ((events & TMESH_STREAM_EV_WRITTEN) != 0 && tmesh_idmap_get(&m->streams, id) == s &&
        s->written_bytes >= written_bytes) {
      s->written_bytes -= written_bytes;
    }
  }
  return !tmesh_list_empty(&m->events);
}

void tmesh_mux_set_time(struct tmesh_mux* m, uint64_t now_us) {
  if (now_us <= m->now_us) return;
  m->now_us = now_us;
  tmesh_growth_tick(&m->rounds, now_us);
  if (tmesh_fair_writer_tick(&m->writer, now_us)) tmesh_mux_dirty(m);
}

void tmesh_mux_set_coalesce(struct tmesh_mux* m, uint32_t coalesce_us) {
  m->config.coalesce_us = coalesce_us;
  if (tmesh_fair_writer_coalesce(&m->writer, coalesce_us)) tmesh_mux_dirty(m);
}

void tmesh_mux_set_rtt(struct tmesh_mux* m, uint64_t rtt_us) {
  m->rounds.rtt_us = rtt_us;
}

uint64_t tmesh_mux_due_us(const struct tmesh_mux* m) {
  return tmesh_list_empty(&m->writer.held) ? UINT64_MAX : m->writer.held_due_us;
}

static bool is_stalled(const struct tmesh_stream* s) {
  return s->in_eof && !tmesh_mux_stream_over(s) && s->out.len_bytes > 0 &&
         tmesh_send_window_available(&s->send, 1) == 0;
}

size_t tmesh_mux_reset_stalled(struct tmesh_mux* m, uint64_t now_us, uint64_t limit_us) {
  size_t count = 0;
  struct tmesh_list* node = m->all.next;
  while (node != &m->all) {
    struct tmesh_stream* s = TMESH_CONTAINER(node, struct tmesh_stream, in_all);
    node = node->next;
    if (!is_stalled(s)) {
      s->stalled_since_us = 0;
    } else if (s->stalled_since_us == 0) {
      s->stalled_since_us = now_us == 0 ? 1 : now_us;
    } else if (now_us - s->stalled_since_us >= limit_us) {
      /* A timeout is no violation: it cannot end the session. */
      (void)!tmesh_is_ok(tmesh_mux_stream_fail(s, tmesh_err_stream(TMESH_E_TIMEOUT)));
      count++;
    }
  }
  return count;
}
