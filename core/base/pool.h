/* Pool of fixed blocks for stream bytes.
 *
 * Every byte that waits in a queue of this program lives in a block. A block
 * belongs to exactly one queue at a time and moves between queues by pointer, so
 * there are no reference counts. The pool keeps freed blocks for reuse (no malloc
 * per frame after warm-up) up to `cached_max`, and refuses to go beyond
 * `budget_bytes` of live blocks: that is the process's bound on queued bytes
 * (requirement G1). One thread. Blocks are handed out uninitialised.
 */
#ifndef TMESH_BASE_POOL_H
#define TMESH_BASE_POOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One block carries one full DATA frame payload, so bulk moves without copies. */
#define TMESH_BLOCK_BYTES 32768u

struct tmesh_block {
  struct tmesh_block* next;
  uint32_t begin_bytes; /* first unread byte in data */
  uint32_t end_bytes;   /* one past the last valid byte; begin <= end <= TMESH_BLOCK_BYTES */
  uint8_t data[TMESH_BLOCK_BYTES];
};

struct tmesh_pool {
  struct tmesh_block* free_list;
  size_t cached_count;
  size_t cached_max;
  size_t live_count; /* blocks handed out */
  size_t live_peak_count;
  size_t recent_peak_count; /* the most live blocks since tmesh_pool_take_peak() */
  size_t budget_count;      /* live_count never passes it */
  uint64_t refused_count;   /* allocations refused by the budget or the system */
};

/* budget_bytes is rounded down to whole blocks (at least one); cached_max_bytes
 * likewise (may be 0). Allocates nothing. */
void tmesh_pool_init(struct tmesh_pool* pool, size_t budget_bytes, size_t cached_max_bytes);
/* Frees cached blocks; all blocks must have been returned. */
void tmesh_pool_close(struct tmesh_pool* pool);
/* An empty block owned by the caller, or NULL (counted) if the budget or memory is exhausted. */
struct tmesh_block* tmesh_pool_get(struct tmesh_pool* pool);
void tmesh_pool_put(struct tmesh_pool* pool, struct tmesh_block* block);
/* Gives cached blocks beyond keep_count back to the system; returns how many. */
size_t tmesh_pool_trim(struct tmesh_pool* pool, size_t keep_count);
/* The most blocks that were live at once since the last call. */
size_t tmesh_pool_take_peak(struct tmesh_pool* pool);
/* How near the budget is. What follows at each step is the users' business: windows stop
 * growing and shrink, new opens are refused, the largest stalled stream is reset. */
enum tmesh_pressure {
  TMESH_PRESSURE_NONE = 0,
  TMESH_PRESSURE_GROWTH, /* from 75 % of the budget */
  TMESH_PRESSURE_OPENS,  /* from 90 % */
  TMESH_PRESSURE_FULL,   /* not one block left */
};
static inline enum tmesh_pressure tmesh_pool_pressure(const struct tmesh_pool* pool) {
  if (pool->live_count >= pool->budget_count) return TMESH_PRESSURE_FULL;
  if (pool->live_count * 10 >= pool->budget_count * 9) return TMESH_PRESSURE_OPENS;
  if (pool->live_count * 4 >= pool->budget_count * 3) return TMESH_PRESSURE_GROWTH;
  return TMESH_PRESSURE_NONE;
}
static inline size_t tmesh_pool_live_bytes(const struct tmesh_pool* pool) {
  return pool->live_count * TMESH_BLOCK_BYTES;
}

#ifdef __cplusplus
}
#endif

#endif
