/* The memory of a loop: who gives way when the pool is short of blocks, and how what a
 * burst took goes back to the system.
 *
 * Shortage. Sockets stop taking blocks at seven eighths of the budget, so that the last
 * eighth is there for what a link has to take; they rest in `starved` and go on in their
 * order as blocks come back. When sockets rest or opens are refused (90 %), streams and
 * sockets whose bytes have not moved for a second are reset, the largest first, until
 * the sockets can go on: a look at all of them, once per 100 ms. When the pool
 * refuses bytes of a link, the same happens at once, and if nothing is stalled the largest
 * stream of all links goes, never the one the bytes are for; at most four such looks in an
 * iteration, each for up to 256 streams, so that a flood of small streams costs no look
 * per frame. What is refused then ends the stream it is for (core/mux).
 *
 * Before that, when few blocks are left, a link rests after each read for 20 ms, or until
 * blocks came back: what its peers may send is bounded by windows, the sum of which can be
 * far more than a small budget, and streams whose bytes do move must not be reset because
 * a link is faster than what is behind it. It rests no longer, because the credit that
 * lets our own bytes leave comes the same way.
 *
 * Return. While blocks are cached or much was freed a timer looks once a second: cached
 * blocks beyond what was live at once in the last three seconds are freed, and when
 * 256 KiB were freed and a second passed without much more (at the latest after three), the
 * heap is given back (malloc_trim; glibc only, other C libraries do it by themselves or
 * cannot). An idle process does not wake up for it, and it does not keep a loop alive.
 */
#ifndef TMESH_LOOP_MEMORY_H
#define TMESH_LOOP_MEMORY_H

#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_link;
struct tmesh_stream;

#define TMESH_MEMORY_STALLED_US UINT64_C(1000000)
#define TMESH_MEMORY_LOOK_US UINT64_C(100000)
#define TMESH_MEMORY_LOOKS_PER_ITERATION_MAX 4u
#define TMESH_MEMORY_VICTIMS_MAX 256u
#define TMESH_MEMORY_REST_MS 20u
#define TMESH_MEMORY_TICK_MS 1000u
#define TMESH_MEMORY_TRIM_BYTES 262144u

/* For loop.c only. */
int tmesh_memory_init(struct tmesh_loop* loop);
/* Before and after each poll. */
void tmesh_memory_flush(struct tmesh_loop* loop);

/* Whether a socket may take one more block. */
bool tmesh_memory_may_read(const struct tmesh_loop* loop);
/* Whether a link that has just read should rest: tmesh_memory_rest(). */
bool tmesh_memory_is_short(const struct tmesh_loop* loop);
/* Reading stops until tmesh_link_rested(). */
void tmesh_memory_rest(struct tmesh_loop* loop, struct tmesh_link* link);
/* The pool refused bytes that a link read for `keep`: frees some if that is possible. */
void tmesh_memory_full(struct tmesh_loop* loop, const struct tmesh_stream* keep);
/* About n bytes went back to the heap. */
static inline void tmesh_memory_freed(struct tmesh_loop* loop, size_t n) {
  loop->memory.freed_bytes += n;
}

#ifdef __cplusplus
}
#endif

#endif
