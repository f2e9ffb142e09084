#include "core/base/pool.h"

#include <stdlib.h>

#include "core/base/check.h"

void tmesh_pool_init(struct tmesh_pool* pool, size_t budget_bytes, size_t cached_max_bytes) {
  *pool = (struct tmesh_pool){0};
  pool->budget_count = budget_bytes / TMESH_BLOCK_BYTES;
  if (pool->budget_count == 0) pool->budget_count = 1;
  pool->cached_max = cached_max_bytes / TMESH_BLOCK_BYTES;
}

void tmesh_pool_close(struct tmesh_pool* pool) {
  TMESH_ASSERT(pool->live_count == 0);
  (void)tmesh_pool_trim(pool, 0);
}

struct tmesh_block* tmesh_pool_get(struct tmesh_pool* pool) {
  struct tmesh_block* b = NULL;
  if (pool->live_count < pool->budget_count) {
    b = pool->free_list;
    if (b != NULL) {
      pool->free_list = b->next;
      pool->cached_count--;
    } else {
      b = malloc(sizeof *b);
    }
  }
  if (b == NULL) {
    pool->refused_count++;
    return NULL;
  }
  b->next = NULL;
  b->begin_bytes = 0;
  b->end_bytes = 0;
  pool->live_count++;
  if (pool->live_count > pool->recent_peak_count) {
    pool->recent_peak_count = pool->live_count;
    if (pool->live_count > pool->live_peak_count) pool->live_peak_count = pool->live_count;
  }
  return b;
}

void tmesh_pool_put(struct tmesh_pool* pool, struct tmesh_block* block) {
  TMESH_ASSERT(pool->live_count > 0);
  pool->live_count--;
  if (pool->cached_count >= pool->cached_max) {
    free(block);
    return;
  }
  block->next = pool->free_list;
  pool->free_list = block;
  pool->cached_count++;
}

size_t tmesh_pool_trim(struct tmesh_pool* pool, size_t keep_count) {
  size_t freed_count = 0;
  while (pool->cached_count > keep_count) {
    struct tmesh_block* b = pool->free_list;
    pool->free_list = b->next;
    pool->cached_count--;
    freed_count++;
    free(b);
  }
  return freed_count;
}

size_t tmesh_pool_take_peak(struct tmesh_pool* pool) {
  const size_t peak_count = pool->recent_peak_count;
  pool->recent_peak_count = pool->live_count;
  return peak_count;
}
