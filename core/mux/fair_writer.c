#include "core/mux/fair_writer.h"

#include "core/mux/datagram.h"
#include "core/mux/stream.h"

_Static_assert(TMESH_FRESH_MAX_BYTES <= TMESH_QUANTUM_BYTES, "an item of a fresh stream fits a round");
_Static_assert(TMESH_FRESH_MAX_BYTES == TMESH_EARLY_DATA_MAX_BYTES,
               "early data is what a stream sends first");

static bool is_fresh(const struct tmesh_stream* s) {
  return s->first_bytes < TMESH_FRESH_MAX_BYTES;
}

/* The item at the head of s; false: nothing may be sent now. */
static bool head_item(const struct tmesh_stream* s, struct tmesh_send_item* item) {
  item->len_bytes = 0;
  item->queued_bytes = 0;
  item->is_half_close = false;
  const bool is_open = s->state == TMESH_STREAM_OPEN || s->state == TMESH_STREAM_HALF_CLOSED_REMOTE;
  if (!is_open && !tmesh_stream_may_send_early(s)) return false;
  if (s->out.len_bytes > 0 && s->is_datagram) {
    if (!tmesh_datagram_is_ready(&s->out, &item->len_bytes)) return false;
    item->queued_bytes = TMESH_DATAGRAM_PREFIX_BYTES + item->len_bytes;
    return true;
  }
  if (s->out.len_bytes > 0) {
    uint32_t want = is_fresh(s) ? TMESH_FRESH_MAX_BYTES - s->first_bytes : TMESH_DATA_MAX_BYTES;
    if (s->out.len_bytes < want) want = (uint32_t)s->out.len_bytes;
    item->len_bytes = tmesh_send_window_available(&s->send, want);
    item->queued_bytes = item->len_bytes;
    return item->len_bytes > 0;
  }
  item->is_half_close = is_open && s->out_eof && !s->out_eof_pulled;
  return item->is_half_close;
}

/* What an item counts for. */
static uint32_t cost(const struct tmesh_stream* s, const struct tmesh_send_item* item) {
  return s->is_datagram && !item->is_half_close ? item->len_bytes + TMESH_FRAME_HEADER_BYTES
                                                : item->len_bytes;
}

void tmesh_fair_writer_init(struct tmesh_fair_writer* w) {
  tmesh_list_init(&w->fresh);
  tmesh_list_init(&w->ring);
  tmesh_list_init(&w->round);
  tmesh_list_push_back(&w->ring, &w->round);
  tmesh_list_init(&w->held);
  w->fresh_left_bytes = TMESH_QUANTUM_BYTES;
  w->coalesce_us = 0;
  w->item_max_bytes = TMESH_DATA_MAX_BYTES;
  w->now_us = 0;
  w->held_due_us = 0;
}

/* Whether what s could send now is a small item too soon after another one, or one datagram too many of
 * this turn. Times are compared by their low 32 bits: a stream that is silent for 71 minutes may be held
 * for once. */
static bool is_too_soon(const struct tmesh_fair_writer* w, const struct tmesh_stream* s) {
  if (w->coalesce_us == 0 || s->is_due || s->out_eof) return false;
  const bool is_enough = s->is_datagram ? s->turn_count < TMESH_DATAGRAM_TURN_COUNT
                                        : s->out.len_bytes >= TMESH_COALESCE_BELOW_BYTES;
  return !is_enough && (uint32_t)w->now_us - s->small_us < w->coalesce_us;
}

static void hold(struct tmesh_fair_writer* w, struct tmesh_stream* s) {
  uint64_t due_us = w->now_us + w->coalesce_us - ((uint32_t)w->now_us - s->small_us);
  if (tmesh_list_empty(&w->held) || due_us < w->held_due_us) w->held_due_us = due_us;
  tmesh_list_push_back(&w->held, &s->in_active);
}

bool tmesh_fair_writer_update(struct tmesh_fair_writer* w, struct tmesh_stream* s) {
  struct tmesh_send_item item;
  uint8_t place = TMESH_PLACE_NONE;
  if (head_item(s, &item)) {
    if (is_fresh(s) && cost(s, &item) > TMESH_FRESH_MAX_BYTES - s->first_bytes) {
      s->first_bytes = TMESH_FRESH_MAX_BYTES;
    }
    place = is_too_soon(w, s) ? TMESH_PLACE_HELD : is_fresh(s) ? TMESH_PLACE_FRESH : TMESH_PLACE_RING;
  }
  if (place != s->place) {
    tmesh_fair_writer_remove(w, s);
    s->place = place;
    if (place == TMESH_PLACE_HELD) hold(w, s);
    if (place == TMESH_PLACE_FRESH) tmesh_list_push_back(&w->fresh, &s->in_active);
    if (place == TMESH_PLACE_RING) {
      /* The quantum of its first visit; later ones are added when it goes to the back. */
      s->deficit_bytes = TMESH_QUANTUM_BYTES;
      tmesh_list_push_back(&w->ring, &s->in_active);
    }
  }
  return place != TMESH_PLACE_NONE;
}

void tmesh_fair_writer_remove(struct tmesh_fair_writer* w, struct tmesh_stream* s) {
  (void)w;
  s->deficit_bytes = 0;
  if (s->place == TMESH_PLACE_NONE) return;
  s->place = TMESH_PLACE_NONE;
  tmesh_list_remove(&s->in_active);
}

/* All go together, but datagrams whose turn it is not: a few more of them each time would be many. */
static bool let_go(struct tmesh_fair_writer* w) {
  bool has_any = false;
  struct tmesh_list waited;
  struct tmesh_list* node;
  /* `waited` takes the place of `held`, which is empty then. */
  tmesh_list_init(&waited);
  tmesh_list_push_back(&w->held, &waited);
  tmesh_list_remove(&w->held);
  while ((node = tmesh_list_first(&waited)) != NULL) {
    struct tmesh_stream* s = TMESH_CONTAINER(node, struct tmesh_stream, in_active);
    tmesh_fair_writer_remove(w, s);
    s->is_due = !s->is_datagram;
    if (tmesh_fair_writer_update(w, s)) has_any = true;
  }
  return has_any;
}

bool tmesh_fair_writer_tick(struct tmesh_fair_writer* w, uint64_t now_us) {
  w->now_us = now_us;
  return !tmesh_list_empty(&w->held) && now_us >= w->held_due_us && let_go(w);
}

bool tmesh_fair_writer_coalesce(struct tmesh_fair_writer* w, uint32_t coalesce_us) {
  w->coalesce_us = coalesce_us;
  return let_go(w);
}

/* The next item of s, cut to what the link wants at once. */
static bool next_item(const struct tmesh_fair_writer* w, const struct tmesh_stream* s,
                      struct tmesh_send_item* item) {
  if (!head_item(s, item)) return false;
  if (w->coalesce_us == 0 && item->len_bytes > w->item_max_bytes && !s->is_datagram) {
    item->len_bytes = w->item_max_bytes;
    item->queued_bytes = item->len_bytes;
  }
  return true;
}

/* Turns begin at the same time for all, so that no more than one moment is waited for. */
static void count_datagram(const struct tmesh_fair_writer* w, struct tmesh_stream* s) {
  if (w->coalesce_us == 0) return;
  const uint32_t turn_us = (uint32_t)(w->now_us - w->now_us % w->coalesce_us);
  if (turn_us != s->small_us) s->turn_count = 0;
  s->small_us = turn_us;
  if (s->turn_count < TMESH_DATAGRAM_TURN_COUNT) s->turn_count++;
}

/* The item is on its way. */
static void charge(struct tmesh_fair_writer* w, const struct tmesh_send_item* item) {
  struct tmesh_stream* s = item->stream;
  s->is_due = false;
  if (s->is_datagram) {
    count_datagram(w, s);
  } else if (item->len_bytes > 0 && item->len_bytes < TMESH_COALESCE_BELOW_BYTES) {
    s->small_us = (uint32_t)w->now_us;
  }
}

static bool next_fresh(struct tmesh_fair_writer* w, struct tmesh_send_item* item) {
  struct tmesh_list* front;
  while ((front = tmesh_list_first(&w->fresh)) != NULL) {
    struct tmesh_stream* s = TMESH_CONTAINER(front, struct tmesh_stream, in_active);
    item->stream = s;
    if (!next_item(w, s, item)) {
      tmesh_fair_writer_remove(w, s);
      continue;
    }
    const uint32_t cost_bytes = cost(s, item);
    if (cost_bytes > w->fresh_left_bytes) return false;
    w->fresh_left_bytes -= cost_bytes;
    s->first_bytes = (uint16_t)(s->first_bytes + cost_bytes);
    charge(w, item);
    return true;
  }
  return false;
}

/* False: the visit of the stream at the front is over, or it had nothing to send. */
static bool visit(struct tmesh_fair_writer* w, struct tmesh_list* front, struct tmesh_send_item* item) {
  struct tmesh_stream* s = TMESH_CONTAINER(front, struct tmesh_stream, in_active);
  item->stream = s;
  if (!next_item(w, s, item)) {
    tmesh_fair_writer_remove(w, s);
    return false;
  }
  const uint32_t cost_bytes = cost(s, item);
  if (cost_bytes > s->deficit_bytes) {
    /* What is left of the deficit is kept, so that an item larger than one quantum is
     * sent after enough rounds. */
    s->deficit_bytes += TMESH_QUANTUM_BYTES;
    tmesh_list_remove(front);
    tmesh_list_push_back(&w->ring, front);
    return false;
  }
  s->deficit_bytes -= cost_bytes;
  charge(w, item);
  return true;
}

bool tmesh_fair_writer_next(struct tmesh_fair_writer* w, struct tmesh_send_item* item) {
  for (;;) {
    if (next_fresh(w, item)) return true;
    struct tmesh_list* front = tmesh_list_first(&w->ring);
    if (front != &w->round) {
      if (visit(w, front, item)) return true;
      continue;
    }
    if (tmesh_fair_writer_is_idle(w)) return false;
    w->fresh_left_bytes = TMESH_QUANTUM_BYTES;
    tmesh_list_remove(front);
    tmesh_list_push_back(&w->ring, front);
  }
}
