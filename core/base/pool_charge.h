/* Memory outside of blocks that counts towards the budget of a pool: what a parser collects, for
 * instance. The holder says how much it holds; nothing is allocated here.
 *
 * The bytes of one charge count together, in whole blocks. They may be a quarter of the budget:
 * nothing can be taken back from who holds them, so they must not crowd the streams out. A plain
 * value; the pool outlives it. One thread.
 */
#ifndef TMESH_BASE_POOL_CHARGE_H
#define TMESH_BASE_POOL_CHARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/pool.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_pool_charge {
  struct tmesh_pool* pool;
  size_t bytes;
};

/* Nothing is held yet. */
void tmesh_pool_charge_init(struct tmesh_pool_charge* charge, struct tmesh_pool* pool);
/* That many more. False, counted as a refusal of the pool, when they are too many or the budget is
 * used up; nothing changed then. */
bool tmesh_pool_charge_add(struct tmesh_pool_charge* charge, size_t bytes);
/* That many fewer; no more than are held. */
void tmesh_pool_charge_drop(struct tmesh_pool_charge* charge, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
