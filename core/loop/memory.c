#include "core/loop/memory.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <stdlib.h>

#include "core/base/check.h"
#include "core/loop/link_internal.h"
#include "core/loop/tcp_internal.h"
#include "core/mux/mux.h"

/* What a read may need at least: its bytes can be for many streams. */
#define LINK_RESERVE_BLOCKS ((size_t)32)
/* A heap that is trimmed while it is busy is filled again page by page. */
#define TRIM_AFTER_TICKS 3u

/* --- levels ---------------------------------------------------------------------- */

static size_t socket_limit(const struct tmesh_loop* loop) {
  return loop->pool.budget_count - loop->pool.budget_count / 8;
}

/* A little lower, so that one look serves more than one block. */
static size_t stalled_target(const struct tmesh_loop* loop) {
  return socket_limit(loop) - loop->pool.budget_count / 32 - 1;
}

static size_t nearly_empty(const struct tmesh_loop* loop) {
  return loop->pool.budget_count - loop->pool.budget_count / 32;
}

bool tmesh_memory_may_read(const struct tmesh_loop* loop) {
  return loop->pool.live_count < socket_limit(loop);
}

bool tmesh_memory_is_short(const struct tmesh_loop* loop) {
  const size_t budget = loop->pool.budget_count;
  size_t reserve = budget / 32;
  if (reserve < LINK_RESERVE_BLOCKS) reserve = LINK_RESERVE_BLOCKS;
  if (reserve > budget / 8) reserve = budget / 8;
  return loop->pool.live_count >= budget - reserve;
}

/* --- who gives way ----------------------------------------------------------------- */

/* A stream, or a socket whose write waits for the kernel. */
struct victim {
  struct tmesh_stream* stream;
  struct tmesh_tcp* tcp;
  size_t held_count; /* blocks */
  bool is_stalled;
};

struct victims {
  struct victim heap[TMESH_MEMORY_VICTIMS_MAX]; /* the least worthy of eviction is at 0 */
  size_t count;
};

static bool gives_way_after(const struct victim* a, const struct victim* b) {
  if (a->is_stalled != b->is_stalled) return b->is_stalled;
  return a->held_count < b->held_count;
}

static void swap(struct victim* a, struct victim* b) {
  const struct victim c = *a;
  *a = *b;
  *b = c;
}

static void sift_up(struct victims* v, size_t i) {
  for (; i > 0 && gives_way_after(&v->heap[i], &v->heap[(i - 1) / 2]); i = (i - 1) / 2) {
    swap(&v->heap[i], &v->heap[(i - 1) / 2]);
  }
}

static void sift_down(struct victims* v) {
  for (size_t i = 0;;) {
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < v->count; child++) {
      if (gives_way_after(&v->heap[child], &v->heap[least])) least = child;
    }
    if (least == i) return;
    swap(&v->heap[i], &v->heap[least]);
    i = least;
  }
}

/* Keeps the TMESH_MEMORY_VICTIMS_MAX first ones. */
static void offer(struct victims* v, const struct victim* one) {
  if (one->held_count == 0) return;
  if (v->count < TMESH_MEMORY_VICTIMS_MAX) {
    v->heap[v->count] = *one;
    sift_up(v, v->count++);
  } else if (gives_way_after(&v->heap[0], one)) {
    v->heap[0] = *one;
    sift_down(v);
  }
}

static bool is_stalled(const struct tmesh_loop* loop, uint64_t moved_us, uint64_t now_us) {
  const struct tmesh_loop_memory* m = &loop->memory;
  return now_us - m->awake_from_us >= m->stalled_us && now_us >= moved_us &&
         now_us - moved_us >= m->stalled_us;
}

/* After a gap nothing had a chance to move: perhaps the process was stopped. */
static void note_awake(struct tmesh_loop_memory* m, uint64_t now_us) {
  if (now_us - m->seen_us >= m->stalled_us) m->awake_from_us = now_us;
  m->seen_us = now_us;
}

static void offer_streams(struct victims* v, const struct tmesh_link* l, const struct tmesh_stream* keep,
                          uint64_t now_us) {
  for (const struct tmesh_list* n = l->mux.all.next; n != &l->mux.all; n = n->next) {
    TMESH_ASSERT(n != NULL); /* a ring; the analyzer cannot know */
    struct tmesh_stream* s = TMESH_CONTAINER(n, struct tmesh_stream, in_all);
    if (s == keep || tmesh_stream_is_over((enum tmesh_stream_state)s->state)) continue;
    const size_t arriving_count = l->mux.frame_stream == s ? l->mux.datagram.block_count : 0;
    const struct victim one = {.stream = s,
                               .held_count = s->in.block_count + s->out.block_count + arriving_count,
                               .is_stalled = is_stalled(l->loop, s->moved_us, now_us)};
    offer(v, &one);
  }
}

static int by_order(const void* a, const void* b) {
  if (gives_way_after(a, b)) return 1;
  return gives_way_after(b, a) ? -1 : 0;
}

static void find_victims(struct tmesh_loop* loop, const struct tmesh_stream* keep, struct victims* v) {
  const uint64_t now_us = tmesh_loop_now_us(loop);

  v->count = 0;
  for (struct tmesh_list* n = loop->memory.links.next; n != &loop->memory.links; n = n->next) {
    offer_streams(v, TMESH_CONTAINER(n, struct tmesh_link, in_memory), keep, now_us);
  }
  for (struct tmesh_list* n = loop->memory.writers.next; n != &loop->memory.writers; n = n->next) {
    struct tmesh_tcp* t = TMESH_CONTAINER(n, struct tmesh_tcp, in_writers);
    const struct victim one = {.tcp = t,
                               .held_count = t->in.block_count + t->out.block_count,
                               .is_stalled = is_stalled(loop, t->waiting_since_us, now_us)};
    /* A slow reader alone is no reason: its bytes are bounded by its window. */
    if (one.is_stalled) offer(v, &one);
  }
  qsort(v->heap, v->count, sizeof v->heap[0], by_order);
}

/* What is stalled goes until the sockets can go on; what only happens to be large, for as
 * much as is needed now, which what comes back later does not help. */
static void relieve(struct tmesh_loop* loop, const struct tmesh_stream* keep, bool also_moving) {
  struct victims v;
  size_t coming_count = 0; /* blocks of sockets, which come back when those are closed */

  loop->memory.looks_count++;
  find_victims(loop, keep, &v);
  for (size_t i = 0; i < v.count; i++) {
    const struct victim* one = &v.heap[i];
    if (!one->is_stalled && !also_moving) return;
    const size_t target = one->is_stalled ? stalled_target(loop) : nearly_empty(loop);
    const bool is_urgent = also_moving && loop->pool.live_count > nearly_empty(loop);
    if (!is_urgent && loop->pool.live_count <= target + coming_count) return;
    loop->memory.evicted_count++;
    if (one->stream != NULL) {
      tmesh_mux_evict(one->stream);
    } else {
      coming_count += one->held_count;
      tmesh_tcp_break(one->tcp, TMESH_E_NO_MEMORY);
    }
  }
}

void tmesh_memory_full(struct tmesh_loop* loop, const struct tmesh_stream* keep) {
  struct tmesh_loop_memory* m = &loop->memory;

  note_awake(m, tmesh_loop_now_us(loop));
  if (m->full_poll_count != loop->poll_count) {
    m->full_poll_count = loop->poll_count;
    m->full_looks = 0;
  }
  /* Then the system refused and not the budget: a read needs a few blocks at most. */
  if (loop->pool.live_count <= nearly_empty(loop)) return;
  if (m->full_looks >= TMESH_MEMORY_LOOKS_PER_ITERATION_MAX) return;
  m->full_looks++;
  relieve(loop, keep, true);
}

/* --- sockets that rest --------------------------------------------------------------- */

static void wake(struct tmesh_loop* loop) {
  size_t room = socket_limit(loop) - loop->pool.live_count;
  for (struct tmesh_list* n; room > 0 && (n = tmesh_list_first(&loop->memory.starved)) != NULL; room--) {
    tmesh_tcp_fed(TMESH_CONTAINER(n, struct tmesh_tcp, in_starved));
  }
}

/* --- links that rest ------------------------------------------------------------------- */

/* All of them: each reads once before it rests again. */
static void on_rested(uv_timer_t* timer) {
  struct tmesh_loop* loop = timer->data;
  for (struct tmesh_list* n; (n = tmesh_list_first(&loop->memory.resting)) != NULL;) {
    tmesh_list_remove(n);
    tmesh_link_rested(TMESH_CONTAINER(n, struct tmesh_link, in_resting));
  }
}

void tmesh_memory_rest(struct tmesh_loop* loop, struct tmesh_link* link) {
  if (tmesh_list_linked(&link->in_resting)) return;
  tmesh_list_push_back(&loop->memory.resting, &link->in_resting);
  loop->memory.rests_count++;
  if (uv_is_active((uv_handle_t*)&loop->memory.rest_timer)) return;
  const int rc = uv_timer_start(&loop->memory.rest_timer, on_rested, TMESH_MEMORY_REST_MS, 0);
  TMESH_ASSERT(rc == 0);
}

/* --- memory goes back ------------------------------------------------------------------ */

static void trim_cache(struct tmesh_loop* loop) {
  struct tmesh_loop_memory* m = &loop->memory;
  size_t peak = 0;

  m->peaks[m->tick_count % TMESH_MEMORY_PEAKS] = tmesh_pool_take_peak(&loop->pool);
  for (size_t i = 0; i < TMESH_MEMORY_PEAKS; i++) {
    if (m->peaks[i] > peak) peak = m->peaks[i];
  }
  const size_t freed =
      tmesh_pool_trim(&loop->pool, peak > loop->pool.live_count ? peak - loop->pool.live_count : 0);
  tmesh_memory_freed(loop, freed * sizeof(struct tmesh_block));
}

static void trim_heap(struct tmesh_loop* loop) {
  struct tmesh_loop_memory* m = &loop->memory;
  const bool is_calm = m->freed_bytes - m->freed_before_bytes < TMESH_MEMORY_TRIM_BYTES / 4;

  m->freed_before_bytes = m->freed_bytes;
  if (m->freed_bytes < TMESH_MEMORY_TRIM_BYTES) {
    m->untrimmed_ticks = 0;
    return;
  }
  if (!is_calm && ++m->untrimmed_ticks < TRIM_AFTER_TICKS) return;
  m->freed_bytes = m->freed_before_bytes = 0;
  m->untrimmed_ticks = 0;
  m->trims_count++;
#if defined(__GLIBC__)
  (void)malloc_trim(0);
#endif
}

static bool has_to_return(const struct tmesh_loop* loop) {
  return loop->pool.cached_count > 0 || loop->memory.freed_bytes >= TMESH_MEMORY_TRIM_BYTES;
}

static void on_tick(uv_timer_t* timer) {
  struct tmesh_loop* loop = timer->data;

  loop->memory.tick_count++;
  trim_cache(loop);
  trim_heap(loop);
  if (!has_to_return(loop)) uv_timer_stop(timer);
}

int tmesh_memory_init(struct tmesh_loop* loop) {
  struct tmesh_loop_memory* m = &loop->memory;

  tmesh_list_init(&m->links);
  tmesh_list_init(&m->writers);
  tmesh_list_init(&m->starved);
  tmesh_list_init(&m->resting);
  m->stalled_us = TMESH_MEMORY_STALLED_US;
  m->tick_ms = TMESH_MEMORY_TICK_MS;
  m->full_poll_count = UINT64_MAX;
  m->timer.data = loop;
  m->rest_timer.data = loop;
  m->look_timer.data = loop;
  int rc = uv_timer_init(&loop->uv, &m->timer);
  if (rc == 0) rc = uv_timer_init(&loop->uv, &m->rest_timer);
  if (rc == 0) rc = uv_timer_init(&loop->uv, &m->look_timer);
  uv_unref((uv_handle_t*)&m->timer);
  uv_unref((uv_handle_t*)&m->rest_timer);
  uv_unref((uv_handle_t*)&m->look_timer);
  return rc;
}

/* The flushes around the poll do the work. */
static void on_look(uv_timer_t* timer) {
  (void)timer;
}

static void look(struct tmesh_loop* loop) {
  struct tmesh_loop_memory* m = &loop->memory;
  const uint64_t now_us = tmesh_loop_now_us(loop);

  if (now_us >= m->next_look_us) {
    m->next_look_us = now_us + TMESH_MEMORY_LOOK_US;
    relieve(loop, NULL, false);
  }
  if (uv_is_active((uv_handle_t*)&m->look_timer)) return;
  const int rc = uv_timer_start(&m->look_timer, on_look, TMESH_MEMORY_LOOK_US / 1000, 0);
  TMESH_ASSERT(rc == 0);
}

void tmesh_memory_flush(struct tmesh_loop* loop) {
  struct tmesh_loop_memory* m = &loop->memory;

  note_awake(m, tmesh_loop_now_us(loop));
  if (!tmesh_memory_may_read(loop) &&
      (!tmesh_list_empty(&m->starved) || tmesh_pool_pressure(&loop->pool) >= TMESH_PRESSURE_OPENS)) {
    look(loop);
  }
  if (!tmesh_list_empty(&m->starved) && tmesh_memory_may_read(loop)) wake(loop);
  if (!tmesh_list_empty(&m->resting) && !tmesh_memory_is_short(loop)) on_rested(&m->rest_timer);
  if (has_to_return(loop) && !uv_is_active((uv_handle_t*)&m->timer)) {
    const int rc = uv_timer_start(&m->timer, on_tick, m->tick_ms, m->tick_ms);
    TMESH_ASSERT(rc == 0);
  }
}
