#include "core/base/pool_charge.h"

#include "core/base/check.h"

static size_t blocks_of(size_t bytes) {
  return bytes / TMESH_BLOCK_BYTES + (bytes % TMESH_BLOCK_BYTES != 0);
}

void tmesh_pool_charge_init(struct tmesh_pool_charge* charge, struct tmesh_pool* pool) {
  *charge = (struct tmesh_pool_charge){.pool = pool};
}

bool tmesh_pool_charge_add(struct tmesh_pool_charge* charge, size_t bytes) {
  struct tmesh_pool* pool = charge->pool;
  const size_t max_bytes = pool->budget_count * TMESH_BLOCK_BYTES / 4;

  const bool is_within = bytes <= max_bytes && charge->bytes <= max_bytes - bytes;
  const size_t more_count = is_within ? blocks_of(charge->bytes + bytes) - blocks_of(charge->bytes) : 0;

  if (!is_within || more_count > pool->budget_count - pool->live_count) {
    pool->refused_count++;
    return false;
  }
  charge->bytes += bytes;
  pool->live_count += more_count;
  if (pool->live_count > pool->recent_peak_count) pool->recent_peak_count = pool->live_count;
  if (pool->live_count > pool->live_peak_count) pool->live_peak_count = pool->live_count;
  return true;
}

void tmesh_pool_charge_drop(struct tmesh_pool_charge* charge, size_t bytes) {
  TMESH_ASSERT(bytes <= charge->bytes);
  charge->pool->live_count -= blocks_of(charge->bytes) - blocks_of(charge->bytes - bytes);
  charge->bytes -= bytes;
}
