/* Which stream has to give its memory back when the pool is empty. */
#include "core/base/check.h"
#include "core/mux/mux_internal.h"

struct tmesh_stream* tmesh_mux_largest_stalled(const struct tmesh_mux* m, const struct tmesh_stream* keep,
                                               size_t* held_bytes) {
  struct tmesh_stream* best = NULL;
  bool best_is_stalled = false;
  *held_bytes = 0;
  for (const struct tmesh_list* n = m->all.next; n != &m->all; n = n->next) {
    struct tmesh_stream* s = TMESH_CONTAINER(n, struct tmesh_stream, in_all);
    if (s == keep || tmesh_mux_stream_over(s)) continue;
    size_t held = tmesh_chunkq_held_bytes(&s->in) + tmesh_chunkq_held_bytes(&s->out);
    bool is_stalled = m->now_us - s->moved_us >= TMESH_STALLED_MIN_US;
    if (held == 0 || is_stalled < best_is_stalled) continue;
    if (is_stalled == best_is_stalled && held <= *held_bytes) continue;
    best = s;
    best_is_stalled = is_stalled;
    *held_bytes = held;
  }
  return best;
}

void tmesh_mux_evict(struct tmesh_stream* s) {
  TMESH_ASSERT(!tmesh_mux_stream_over(s));
  s->mux->stats.memory_resets_count++;
  /* Our own need is no violation of the peer: it cannot end the session. */
  (void)!tmesh_is_ok(tmesh_mux_stream_fail(s, tmesh_err_stream(TMESH_E_NO_MEMORY)));
}
