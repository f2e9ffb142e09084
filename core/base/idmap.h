/* Map from a 32-bit id to a pointer.
 *
 * Open addressing, grows by doubling at three quarters and halves at an eighth. Key 0 is
 * not allowed (stream ids start at 1). The map owns only its table. One allocation per
 * doubling or halving, none otherwise. The caller bounds the number of entries. Keys may be an enemy's
 * choice: no set of them is slow in every map.
 */
#ifndef TMESH_BASE_IDMAP_H
#define TMESH_BASE_IDMAP_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_idmap_slot {
  uint32_t key; /* 0 = empty */
  void* value;
};

struct tmesh_idmap {
  struct tmesh_idmap_slot* slots;
  size_t capacity; /* power of two, or 0 before the first put */
  size_t count;
  uint64_t seed; /* odd; which keys share a slot depends on it */
};

void tmesh_idmap_init(struct tmesh_idmap* m);
void tmesh_idmap_close(struct tmesh_idmap* m);
/* NULL if absent. */
void* tmesh_idmap_get(const struct tmesh_idmap* m, uint32_t key);
/* The key must be absent. NO_MEMORY (stream scope) leaves the map unchanged. */
TMESH_MUST_CHECK struct tmesh_status tmesh_idmap_put(struct tmesh_idmap* m, uint32_t key, void* value);
/* Returns the removed value, or NULL if the key was absent. */
void* tmesh_idmap_remove(struct tmesh_idmap* m, uint32_t key);

#ifdef __cplusplus
}
#endif

#endif
