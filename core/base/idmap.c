#include "core/base/idmap.h"

#include <stdlib.h>

#include "core/base/check.h"

#define CAPACITY_MIN ((size_t)16)

/* Peers choose the keys, so where a key belongs must not be known to them: with a fixed
 * hash, 20,000 ids of one run cost 40 us per look-up. Two multiplications, because ids
 * that count up would otherwise stay evenly spaced, which an unlucky seed bunches up. */
static size_t home(const struct tmesh_idmap* m, uint32_t key) {
  uint64_t x = key * m->seed;
  x = (x ^ x >> 32) * UINT64_C(0x9E3779B97F4A7C15);
  return (size_t)(x >> (64 - __builtin_ctzll(m->capacity)));
}

/* Where things lie in this process: no peer sees it, and it differs from run to run and
 * from map to map (splitmix64 spreads the bits that do). */
static uint64_t seed_of(const struct tmesh_idmap* m) {
  uint64_t x = (uint64_t)(uintptr_t)m ^ (uint64_t)(uintptr_t)&tmesh_idmap_init << 24;
  x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
  return (x ^ x >> 31) | 1;
}

void tmesh_idmap_init(struct tmesh_idmap* m) {
  *m = (struct tmesh_idmap){.seed = seed_of(m)};
}

void tmesh_idmap_close(struct tmesh_idmap* m) {
  free(m->slots);
  tmesh_idmap_init(m);
}

void* tmesh_idmap_get(const struct tmesh_idmap* m, uint32_t key) {
  if (m->capacity == 0) return NULL;
  for (size_t i = home(m, key); m->slots[i].key != 0; i = (i + 1) & (m->capacity - 1)) {
    if (m->slots[i].key == key) return m->slots[i].value;
  }
  return NULL;
}

static void insert(struct tmesh_idmap* m, uint32_t key, void* value) {
  size_t i = home(m, key);
  while (m->slots[i].key != 0) {
    TMESH_ASSERT(m->slots[i].key != key);
    i = (i + 1) & (m->capacity - 1);
  }
  m->slots[i].key = key;
  m->slots[i].value = value;
}

/* False leaves the map as it was. */
static bool resize(struct tmesh_idmap* m, size_t capacity) {
  struct tmesh_idmap other = {.seed = m->seed, .capacity = capacity, .count = m->count};
  other.slots = calloc(capacity, sizeof *other.slots);
  if (other.slots == NULL) return false;
  for (size_t i = 0; i < m->capacity; i++) {
    if (m->slots[i].key != 0) insert(&other, m->slots[i].key, m->slots[i].value);
  }
  free(m->slots);
  *m = other;
  return true;
}

static bool grow(struct tmesh_idmap* m) {
  return resize(m, m->capacity == 0 ? CAPACITY_MIN : m->capacity * 2);
}

struct tmesh_status tmesh_idmap_put(struct tmesh_idmap* m, uint32_t key, void* value) {
  TMESH_ASSERT(key != 0 && value != NULL);
  /* At most three quarters full keeps probe runs short. */
  if ((m->count + 1) * 4 > m->capacity * 3 && !grow(m)) return tmesh_err_stream(TMESH_E_NO_MEMORY);
  insert(m, key, value);
  m->count++;
  return tmesh_ok();
}

void* tmesh_idmap_remove(struct tmesh_idmap* m, uint32_t key) {
  if (m->capacity == 0) return NULL;
  size_t mask = m->capacity - 1;
  size_t i = home(m, key);
  while (m->slots[i].key != key) {
    if (m->slots[i].key == 0) return NULL;
    i = (i + 1) & mask;
  }
  void* value = m->slots[i].value;
  /* Close the gap by moving later members of the run back (no tombstones). */
  size_t gap = i;
  for (size_t j = (i + 1) & mask; m->slots[j].key != 0; j = (j + 1) & mask) {
    size_t want = home(m, m->slots[j].key);
    if (((j - want) & mask) >= ((j - gap) & mask)) {
      m->slots[gap] = m->slots[j];
      gap = j;
    }
  }
  m->slots[gap].key = 0;
  m->slots[gap].value = NULL;
  m->count--;
  /* A quarter full afterwards, so that the next doubling is far. Without memory for it the
   * large table simply stays. */
  if (m->capacity > CAPACITY_MIN && m->count * 8 < m->capacity) (void)resize(m, m->capacity / 2);
  return value;
}
