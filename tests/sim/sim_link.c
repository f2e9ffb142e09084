#include "sim_link.h"

#include <string.h>

uint64_t sim_seed, sim_step;

static struct sim_seen* seen_of(struct sim_link* l, uint32_t id) {
  SIM_CHECK(id > 0 && id < SIM_STREAMS_MAX);
  return &l->seen[id];
}

/* --- the observer -------------------------------------------------------------------- */

static void note_data(struct sim_side* s, struct sim_seen* o, uint64_t n) {
  int d = s->direction;
  SIM_CHECK(!o->is_half_closed[d]);
  if (o->is_strict && d == 1) SIM_CHECK(o->is_result_sent);
  if (o->is_strict && d == 0 && !o->is_result_delivered) {
    o->early_bytes += n;
    SIM_CHECK(o->early_bytes <= (s->mux.config.has_early_data ? TMESH_EARLY_DATA_MAX_BYTES : 0));
  }
  o->data_bytes[d] += n;
  /* The window is never exceeded. */
  if (o->has_windows) SIM_CHECK(o->data_bytes[d] <= o->credit_bytes[d]);
}

/* Fairness: nobody is served twice while another stream of the ring waits (HALF_CLOSE costs no
 * turn), but for first bytes, of which there is at most one quantum per round. */
static void note_served(struct sim_side* s, struct sim_seen* o, uint64_t n_bytes) {
  int d = s->direction;
  if (o->is_udp) return; /* a turn is so many bytes there, and one datagram may take several turns */
  bool is_fresh = o->data_bytes[d] <= TMESH_FRESH_MAX_BYTES;
  if (is_fresh) s->fresh_bytes += n_bytes;
  for (const struct tmesh_list* n = s->mux.writer.ring.next; n != &s->mux.writer.ring && !is_fresh;
       n = n->next) {
    if (n == &s->mux.writer.round) continue;
    const struct tmesh_stream* other = TMESH_CONTAINER(n, const struct tmesh_stream, in_active);
    struct sim_seen* w = seen_of(s->link, other->id);
    if (w != o && !w->is_udp && w->waiting_since[d] != 0) SIM_CHECK(o->last_served[d] < w->waiting_since[d]);
  }
  if (!is_fresh && o->waiting_since[d] != 0) {
    SIM_CHECK(s->fresh_bytes - o->fresh_before[d] <= 2 * (uint64_t)TMESH_QUANTUM_BYTES);
  }
  o->fresh_before[d] = s->fresh_bytes;
  s->items_count++;
  if (!is_fresh) o->last_served[d] = s->items_count;
  o->waiting_since[d] = s->items_count;
}

static void note_active(struct sim_side* s) {
  for (const struct tmesh_list* n = s->mux.all.next; n != &s->mux.all; n = n->next) {
    const struct tmesh_stream* stream = TMESH_CONTAINER(n, const struct tmesh_stream, in_all);
    struct sim_seen* o = seen_of(s->link, stream->id);
    if (!tmesh_list_linked(&stream->in_active) || stream->place == TMESH_PLACE_HELD) {
      o->waiting_since[s->direction] = 0;
    } else if (o->waiting_since[s->direction] == 0) {
      o->waiting_since[s->direction] = s->items_count + 1;
      o->fresh_before[s->direction] = s->fresh_bytes;
    }
  }
}

/* By how much the window of what comes to this side may have grown. */
static uint64_t growth_bytes(const struct sim_side* s, const struct sim_seen* o) {
  const struct tmesh_mux_config* c = &s->mux.config;
  uint64_t max_bytes = c->has_window_growth ? c->window_max_bytes : 0;
  uint64_t first_bytes = o->first_bytes[!s->direction];
  return max_bytes > first_bytes ? max_bytes - first_bytes : 0;
}

static bool is_datagram_stream(struct sim_side* s, uint32_t id) {
  const struct tmesh_stream* stream = tmesh_idmap_get(&s->mux.streams, id);
  return stream != NULL && stream->is_datagram;
}

static void observe_sent(struct sim_side* s, const struct tmesh_frame_header* h) {
  if (h->stream_id == 0) return;
  int d = s->direction;
  struct sim_seen* o = seen_of(s->link, h->stream_id);
  SIM_CHECK(!o->is_reset[d]); /* RESET is the last word */
  if (h->type != TMESH_FRAME_OPEN_STREAM) SIM_CHECK(o->is_open);
  switch (h->type) {
    case TMESH_FRAME_OPEN_STREAM:
      SIM_CHECK(d == 0 && h->stream_id > s->link->last_open_id);
      s->link->last_open_id = h->stream_id;
      o->is_open = true;
      o->is_strict = (h->flags & TMESH_FLAG_STRICT_OPEN) != 0;
      o->has_windows = h->window_bytes > 0;
      o->is_udp = is_datagram_stream(s, h->stream_id);
      if (o->is_udp) SIM_CHECK(!o->has_windows);
      o->credit_bytes[0] = TMESH_WINDOW_INITIAL_BYTES;
      o->credit_bytes[1] = h->window_bytes;
      o->first_bytes[0] = o->has_windows ? o->credit_bytes[0] : 0;
      o->first_bytes[1] = o->credit_bytes[1];
      break;
    case TMESH_FRAME_DATA:
      SIM_CHECK(o->is_udp ? h->length_bytes <= TMESH_DATAGRAM_MAX_BYTES
                          : h->length_bytes > 0 && h->length_bytes <= TMESH_DATA_MAX_BYTES);
      note_data(s, o, h->length_bytes);
      note_served(s, o, h->length_bytes);
      break;
    case TMESH_FRAME_HALF_CLOSE:
      SIM_CHECK(!o->is_half_closed[d]);
      if (o->is_strict) SIM_CHECK(d == 1 ? o->is_result_sent : o->is_result_delivered);
      o->is_half_closed[d] = true;
      break;
    case TMESH_FRAME_RESET:
      o->is_reset[d] = true;
      break;
    case TMESH_FRAME_WINDOW_UPDATE:
      SIM_CHECK(o->has_windows);
      o->announced_bytes[!d] += h->window_bytes;
      /* Never more credit than bytes that came, and what the window grew by. */
      SIM_CHECK(o->announced_bytes[!d] <= o->data_bytes[!d] + growth_bytes(s, o));
      break;
    case TMESH_FRAME_OPEN_RESULT:
      SIM_CHECK(d == 1 && o->is_strict && !o->is_result_sent);
      o->is_result_sent = true;
      break;
    default:
      SIM_CHECK(false);
  }
}

static void observe_delivered(struct sim_side* to, const struct tmesh_frame_header* h) {
  if (h->stream_id == 0) return;
  struct sim_seen* o = seen_of(to->link, h->stream_id);
  if (h->type == TMESH_FRAME_WINDOW_UPDATE) o->credit_bytes[to->direction] += h->window_bytes;
  if (h->type == TMESH_FRAME_OPEN_RESULT) o->is_result_delivered = true;
}

/* --- sending --------------------------------------------------------------------------- */

static uint8_t* sink_begin(void* ctx, size_t len_bytes) {
  struct sim_side* s = ctx;
  SIM_CHECK(s->batch_len + len_bytes <= s->link->target_bytes + TMESH_PULL_MESSAGE_MAX_BYTES);
  s->message_at = s->batch_len;
  s->message_len = len_bytes;
  s->batch_len += len_bytes;
  return s->batch + s->message_at;
}

static void sink_end(void* ctx) {
  struct sim_side* s = ctx;
  struct tmesh_frame_header h;
  SIM_CHECK(tmesh_is_ok(tmesh_frame_header_decode(&h, s->batch + s->message_at)));
  SIM_CHECK(s->message_len == TMESH_FRAME_HEADER_BYTES + h.length_bytes);
  observe_sent(s, &h);
}

bool sim_side_can_process(const struct sim_side* s, uint64_t now_us) {
  return s->is_dirty || tmesh_mux_due_us(&s->mux) <= now_us;
}
bool sim_side_can_write(const struct sim_side* s, uint64_t now_us) {
  return !s->link->is_cut && s->batch_sent < s->batch_len && s->free_at_us <= now_us;
}

void sim_side_process(struct sim_side* s, uint64_t now_us) {
  s->is_dirty = false;
  tmesh_mux_set_time(&s->mux, now_us);
  if (tmesh_mux_dispatch(&s->mux)) s->is_dirty = true;
  if (s->link->is_cut || s->mux.is_batch_open) return;
  struct tmesh_sink sink = {s, sink_begin, sink_end};
  s->batch_len = 0;
  s->batch_sent = 0;
  note_active(s);
  size_t n = tmesh_mux_pull(&s->mux, &sink, s->link->target_bytes);
  SIM_CHECK(n == s->batch_len);
  note_active(s); /* who left the ring in this pull */
}

void sim_side_write(struct sim_side* s, struct sim_rng* rng, uint64_t now_us) {
  size_t n = (size_t)sim_range(rng, 1, s->link->write_max_bytes);
  if (n > s->batch_len - s->batch_sent) n = s->batch_len - s->batch_sent;
  struct sim_chunk* c = malloc(sizeof *c + n);
  SIM_CHECK(c != NULL);
  c->next = NULL;
  c->len = n;
  c->used = 0;
  s->free_at_us = now_us;
  if (s->link->rate_bytes_per_s > 0) s->free_at_us += n * 1000000 / s->link->rate_bytes_per_s;
  c->at_us = s->free_at_us + s->link->latency_us + sim_below(rng, s->link->jitter_us + 1);
  if (c->at_us < s->last_at_us) c->at_us = s->last_at_us; /* TCP: in order */
  s->last_at_us = c->at_us;
  memcpy(c->bytes, s->batch + s->batch_sent, n);
  *s->tail = c;
  s->tail = &c->next;
  s->batch_sent += n;
  if (s->batch_sent == s->batch_len) tmesh_mux_written(&s->mux);
}

/* --- receiving --------------------------------------------------------------------------- */

bool sim_side_can_deliver(const struct sim_side* s, uint64_t now_us) {
  return !s->link->is_cut && s->head != NULL && s->head->at_us <= now_us;
}

static void receive(struct sim_side* to, const uint8_t* data, size_t len) {
  size_t at = 0;
  for (;;) {
    if (!to->is_in_message) {
      if (at == len) return;
      tmesh_frame_decoder_begin(&to->decoder);
      to->is_in_message = true;
    }
    size_t used;
    struct tmesh_frame_event event;
    SIM_CHECK(tmesh_is_ok(tmesh_frame_decode(&to->decoder, data + at, len - at, &used, &event)));
    at += used;
    struct tmesh_status st;
    switch (event.kind) {
      case TMESH_FRAME_EVENT_NONE:
        return;
      case TMESH_FRAME_EVENT_HEADER:
        observe_delivered(to, &to->decoder.header);
        st = tmesh_mux_frame_header(&to->mux, &to->decoder.header);
        break;
      case TMESH_FRAME_EVENT_PAYLOAD:
        st = tmesh_mux_frame_payload(&to->mux, event.data, event.len_bytes);
        break;
      case TMESH_FRAME_EVENT_END:
        st = tmesh_mux_frame_end(&to->mux);
        to->is_in_message = false;
        break;
    }
    SIM_CHECK(tmesh_is_ok(st)); /* nobody misbehaves here: no session error is ever right */
  }
}

void sim_side_deliver(struct sim_side* s, struct sim_rng* rng, uint64_t now_us) {
  struct sim_chunk* c = s->head;
  struct sim_side* to = &s->link->side[!s->direction];
  size_t n = sim_chance(rng, 50) ? c->len - c->used : (size_t)sim_range(rng, 1, c->len - c->used);
  tmesh_mux_set_time(&to->mux, now_us);
  receive(to, c->bytes + c->used, n);
  c->used += n;
  if (c->used < c->len) return;
  s->head = c->next;
  if (s->head == NULL) s->tail = &s->head;
  free(c);
}

/* --- life -------------------------------------------------------------------------------- */

void sim_link_init(struct sim_link* l, const struct tmesh_mux_config* opener,
                   const struct tmesh_mux_config* acceptor) {
  memset(l, 0, sizeof *l);
  l->seen = calloc(SIM_STREAMS_MAX, sizeof *l->seen);
  SIM_CHECK(l->seen != NULL);
  l->write_max_bytes = 65536;
  l->target_bytes = 65536;
  for (int i = 0; i < 2; i++) {
    struct sim_side* s = &l->side[i];
    s->link = l;
    s->direction = i;
    s->tail = &s->head;
    s->batch = malloc((1u << 18) + TMESH_PULL_MESSAGE_MAX_BYTES);
    SIM_CHECK(s->batch != NULL);
    SIM_CHECK(tmesh_is_ok(tmesh_mux_init(&s->mux, i == 0 ? opener : acceptor)));
  }
}

static void drop_pipe(struct sim_side* s) {
  while (s->head != NULL) {
    struct sim_chunk* c = s->head;
    s->head = c->next;
    free(c);
  }
  s->tail = &s->head;
}

void sim_link_cut(struct sim_link* l) {
  if (l->is_cut) return;
  l->is_cut = true;
  for (int i = 0; i < 2; i++) {
    drop_pipe(&l->side[i]);
    tmesh_mux_fail(&l->side[i].mux, tmesh_err_session(TMESH_E_CLOSED));
    l->side[i].is_dirty = true;
  }
}

void sim_link_close(struct sim_link* l) {
  for (int i = 0; i < 2; i++) {
    drop_pipe(&l->side[i]);
    tmesh_mux_close(&l->side[i].mux);
    free(l->side[i].batch);
  }
  free(l->seen);
}
