#include "core/mux/fair_writer.h"

#include "core/mux/stream.h"

/* Bytes of the item at the head of s, or 0 with *is_half_close. False: nothing may be sent now. */
static bool head_item(const struct tmesh_stream* s, uint32_t* len_bytes, bool* is_half_close) {
  *len_bytes = 0;
  *is_half_close = false;
  if (s->state != TMESH_STREAM_OPEN && s->state != TMESH_STREAM_HALF_CLOSED_REMOTE) return false;
  if (s->out.len_bytes > 0) {
    uint32_t want =
        s->out.len_bytes < TMESH_DATA_MAX_BYTES ? (uint32_t)s->out.len_bytes : TMESH_DATA_MAX_BYTES;
    *len_bytes = tmesh_send_window_available(&s->send, want);
    return *len_bytes > 0;
  }
  *is_half_close = s->out_eof && !s->out_eof_pulled;
  return *is_half_close;
}

void tmesh_fair_writer_init(struct tmesh_fair_writer* w) {
  tmesh_list_init(&w->active);
}

bool tmesh_fair_writer_update(struct tmesh_fair_writer* w, struct tmesh_stream* s) {
  uint32_t len_bytes;
  bool is_half_close;
  if (!head_item(s, &len_bytes, &is_half_close)) {
    tmesh_fair_writer_remove(w, s);
    return false;
  }
  if (!tmesh_list_linked(&s->in_active)) {
    /* The quantum of its first visit; later ones are added when it goes to the back. */
    s->deficit_bytes = TMESH_QUANTUM_BYTES;
    tmesh_list_push_back(&w->active, &s->in_active);
  }
  return true;
}

void tmesh_fair_writer_remove(struct tmesh_fair_writer* w, struct tmesh_stream* s) {
  (void)w;
  s->deficit_bytes = 0;
  if (tmesh_list_linked(&s->in_active)) tmesh_list_remove(&s->in_active);
}

bool tmesh_fair_writer_next(struct tmesh_fair_writer* w, struct tmesh_send_item* item) {
  for (;;) {
    struct tmesh_list* front = tmesh_list_first(&w->active);
    if (front == NULL) return false;
    struct tmesh_stream* s = TMESH_CONTAINER(front, struct tmesh_stream, in_active);
    uint32_t len_bytes;
    bool is_half_close;
    if (!head_item(s, &len_bytes, &is_half_close)) {
      tmesh_fair_writer_remove(w, s);
      continue;
    }
    if (len_bytes > s->deficit_bytes) {
      /* The visit is over. What is left of the deficit is kept, so that an item
       * larger than one quantum is sent after enough rounds. */
      s->deficit_bytes += TMESH_QUANTUM_BYTES;
      tmesh_list_remove(front);
      tmesh_list_push_back(&w->active, front);
      continue;
    }
    s->deficit_bytes -= len_bytes;
    *item = (struct tmesh_send_item){s, len_bytes, is_half_close};
    return true;
  }
}
