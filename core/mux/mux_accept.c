/* OPEN_STREAM at an acceptor: which ids may open, and refusals that need no user. */
#include "core/base/check.h"
#include "core/mux/mux_internal.h"

static uint64_t* seen_word(struct tmesh_mux* m, uint32_t id) {
  return &m->seen[(id % TMESH_SEEN_WINDOW_IDS) / 64];
}
static uint64_t seen_bit(uint32_t id) {
  return UINT64_C(1) << (id % 64);
}

bool tmesh_mux_id_is_seen(const struct tmesh_mux* m, uint32_t id) {
  if (m->config.is_opener) return id < m->next_id;
  if (id > m->highest_id) return false;
  /* What fell out of the window counts as seen: a peer that is so far behind cannot be told apart
   * from one that reuses ids. */
  if (m->highest_id - id >= TMESH_SEEN_WINDOW_IDS) return true;
  return (m->seen[(id % TMESH_SEEN_WINDOW_IDS) / 64] & seen_bit(id)) != 0;
}

/* Clears what the window uncovers when id becomes the highest. By words where it can be: a
 * peer that jumps far with every open must not cost 4,096 steps each time. */
static void forget_ids_below(struct tmesh_mux* m, uint32_t id) {
  uint32_t left = id - m->highest_id;
  if (left > TMESH_SEEN_WINDOW_IDS) left = TMESH_SEEN_WINDOW_IDS;
  while (left > 0) {
    uint32_t at = id - (left - 1);
    bool is_word = at % 64 == 0 && left >= 64;
    *seen_word(m, at) &= is_word ? 0 : ~seen_bit(at);
    left -= is_word ? 64 : 1;
  }
}

/* Remembers id; false if it may not be used (any more). */
static bool claim_id(struct tmesh_mux* m, uint32_t id) {
  if (tmesh_mux_id_is_seen(m, id)) return false;
  /* Ids of deployed peers may arrive slightly out of order (WIRE D); ours do not. */
  if (m->config.peer_is_ours && id < m->highest_id) return false;
  if (id > m->highest_id) {
    forget_ids_below(m, id);
    m->highest_id = id;
  }
  *seen_word(m, id) |= seen_bit(id);
  return true;
}

void tmesh_mux_reset_unknown(struct tmesh_mux* m, uint32_t id) {
  for (unsigned i = 0; i < TMESH_UNKNOWN_RESETS_MAX; i++) {
    if (m->unknown_resets[i] == id) return;
  }
  unsigned slot = m->unknown_resets_next;
  m->unknown_resets[slot] = id;
  m->unknown_resets_pending = (uint16_t)(m->unknown_resets_pending | (1u << slot));
  m->unknown_resets_next = (uint8_t)((slot + 1) % TMESH_UNKNOWN_RESETS_MAX);
  tmesh_mux_dirty(m);
}

static struct tmesh_status duplicate(struct tmesh_mux* m, uint32_t id) {
  struct tmesh_stream* s = tmesh_idmap_get(&m->streams, id);
  struct tmesh_status why = tmesh_err_stream(TMESH_E_DUPLICATE_STREAM);
  if (s != NULL && !tmesh_mux_stream_over(s)) return tmesh_mux_stream_fail(s, why);
  m->stats.stream_errors_count[why.code]++;
  m->stats.protocol_resets_count++;
  tmesh_mux_reset_unknown(m, id);
  return tmesh_ok();
}

/* Answers an open no user will see. The stream was never live and goes with its answer. */
static void refuse(struct tmesh_mux* m, const struct tmesh_frame_header* h, bool is_strict,
                   struct tmesh_open_result result) {
  struct tmesh_stream* s = tmesh_mux_stream_new(m, h->stream_id);
  if (s == NULL) {
    tmesh_mux_reset_unknown(m, h->stream_id); /* the best that can be said without memory */
    return;
  }
  s->is_strict = is_strict;
  s->result = result;
  s->state = TMESH_STREAM_RESET;
  s->over = tmesh_err_stream(TMESH_E_REFUSED);
  s->is_released = true;
  tmesh_mux_stream_mark(s, is_strict ? TMESH_MARK_OPEN_RESULT : TMESH_MARK_RESET);
}

static struct tmesh_stream* install(struct tmesh_mux* m, const struct tmesh_frame_header* h, bool is_strict,
                                    bool is_datagram) {
  struct tmesh_stream* s = tmesh_mux_stream_new(m, h->stream_id);
  if (s == NULL) return NULL;
  bool has_windows = m->config.has_flow_control && h->window_bytes > 0 && !is_datagram;
  s->is_strict = is_strict;
  s->is_datagram = is_datagram;
  s->has_early_data = is_strict && m->config.has_early_data && !is_datagram;
  /* Not the configured window: the opener assumes exactly this one (requirement E3). */
  tmesh_recv_window_init(&s->recv, has_windows ? TMESH_WINDOW_INITIAL_BYTES : 0,
                         m->config.window_threshold_bytes);
  tmesh_send_window_init(&s->send, has_windows ? h->window_bytes : 0,
                         m->config.peer_is_ours ? UINT32_MAX : TMESH_WINDOW_LEGACY_CAP_BYTES);
  TMESH_ASSERT(tmesh_mux_stream_step(s, TMESH_EV_OPEN));
  return s;
}

static struct tmesh_status deliver(struct tmesh_mux* m, struct tmesh_stream* s,
                                   const struct tmesh_open_stream* open) {
  uint32_t id = s->id;
  m->config.events->on_open(m->config.events_ctx, s, open);
  /* s may be gone. */
  s = tmesh_idmap_get(&m->streams, id);
  if (s != NULL && !s->is_released && s->on_event == NULL) {
    struct tmesh_open_result nobody =
        tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR, false);
    if (s->state == TMESH_STREAM_OPENING) tmesh_stream_answer(s, &nobody);
    tmesh_stream_release(s);
  }
  return m->failed;
}

struct tmesh_status tmesh_mux_accept(struct tmesh_mux* m, const struct tmesh_frame_header* h,
                                     const uint8_t* payload, size_t len_bytes) {
  /* The flag means nothing on a link without open results (requirement B4). */
  bool is_strict = m->config.has_open_result && (h->flags & TMESH_FLAG_STRICT_OPEN) != 0;
  m->stats.opens_count++;
  if (!claim_id(m, h->stream_id)) return duplicate(m, h->stream_id);
  if (m->marks_count > (size_t)m->config.streams_max + TMESH_UNPULLED_MAX_STREAMS) {
    return tmesh_mux_session_error(m, tmesh_err_session(TMESH_E_CONTROL_EXHAUSTED));
  }
  struct tmesh_open_stream open;
  struct tmesh_status st = payload == NULL ? tmesh_err_stream(TMESH_E_TOO_LARGE)
                                           : tmesh_open_stream_decode(&open, payload, len_bytes);
  if (!tmesh_is_ok(st)) {
    m->stats.stream_errors_count[st.code]++;
    m->stats.protocol_resets_count++;
    refuse(m, h, is_strict, tmesh_open_refuse(TMESH_STAGE_PROTOCOL, TMESH_OPEN_INTERNAL_ERROR, false));
    return tmesh_ok();
  }
  if (m->live_count >= m->config.streams_max || tmesh_pool_pressure(m->config.pool) >= TMESH_PRESSURE_OPENS) {
    m->stats.queue_full_count++;
    refuse(m, h, is_strict, tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true));
    return tmesh_ok();
  }
  struct tmesh_stream* s = install(m, h, is_strict, open.protocol == TMESH_OPEN_UDP);
  if (s == NULL) {
    m->stats.stream_errors_count[TMESH_E_NO_MEMORY]++;
    tmesh_mux_reset_unknown(m, h->stream_id);
    return tmesh_ok();
  }
  return deliver(m, s, &open);
}
