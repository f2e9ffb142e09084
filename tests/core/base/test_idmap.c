#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/idmap.h"
#include "tests/core/base/prng.h"

static char values[4096];
static void* value_for(uint32_t key) {
  return &values[key % sizeof values];
}

static void put(struct tmesh_idmap* m, uint32_t key) {
  struct tmesh_status st = tmesh_idmap_put(m, key, value_for(key));
  assert_int_equal(st.code, TMESH_OK);
}

static void an_empty_map_has_nothing_and_no_table(void** state) {
  (void)state;
  struct tmesh_idmap m;
  tmesh_idmap_init(&m);
  assert_null(tmesh_idmap_get(&m, 1));
  assert_null(tmesh_idmap_remove(&m, 1));
  assert_int_equal(m.capacity, 0);
  tmesh_idmap_close(&m);
}

static void what_is_put_is_found_and_what_is_removed_is_not(void** state) {
  (void)state;
  struct tmesh_idmap m;
  tmesh_idmap_init(&m);
  put(&m, 1);
  put(&m, UINT32_MAX);
  assert_ptr_equal(tmesh_idmap_get(&m, 1), value_for(1));
  assert_ptr_equal(tmesh_idmap_get(&m, UINT32_MAX), value_for(UINT32_MAX));
  assert_null(tmesh_idmap_get(&m, 2));
  assert_ptr_equal(tmesh_idmap_remove(&m, 1), value_for(1));
  assert_null(tmesh_idmap_get(&m, 1));
  assert_null(tmesh_idmap_remove(&m, 1));
  assert_int_equal(m.count, 1);
  tmesh_idmap_close(&m);
}

static void it_grows_by_doubling_and_stays_at_most_three_quarters_full(void** state) {
  (void)state;
  struct tmesh_idmap m;
  tmesh_idmap_init(&m);
  size_t capacity = 0;
  for (uint32_t key = 1; key <= 3000; key++) {
    put(&m, key);
    assert_true(m.count * 4 <= m.capacity * 3);
    assert_true(m.capacity == capacity || m.capacity == capacity * 2 || capacity == 0);
    capacity = m.capacity;
  }
  for (uint32_t key = 1; key <= 3000; key++) assert_ptr_equal(tmesh_idmap_get(&m, key), value_for(key));
  tmesh_idmap_close(&m);
  assert_int_equal(m.capacity, 0);
}

static size_t slot_of(const struct tmesh_idmap* m, uint32_t key) {
  size_t at = 0;
  while (m->slots[at].key != key) at++;
  return at;
}

/* Keys whose home slot is the last one of a 16-slot table make one run that wraps
 * around its end; removing from every position of it must leave the rest reachable. */
static void removal_closes_the_gap_also_across_the_end_of_the_table(void** state) {
  (void)state;
  enum { RUN = 8 };
  struct tmesh_idmap m; /* one map: where keys belong depends on it */
  uint32_t keys[RUN];
  size_t n = 0;
  for (uint32_t key = 1; n < RUN; key++) {
    tmesh_idmap_init(&m);
    put(&m, key);
    assert_int_equal(m.capacity, 16);
    if (slot_of(&m, key) == 15) keys[n++] = key;
    tmesh_idmap_close(&m);
  }
  for (size_t victim = 0; victim < RUN; victim++) {
    tmesh_idmap_init(&m);
    for (size_t i = 0; i < RUN; i++) put(&m, keys[i]);
    assert_int_equal(m.capacity, 16);
    assert_int_equal(slot_of(&m, keys[0]), 15);
    assert_int_equal(slot_of(&m, keys[RUN - 1]), RUN - 2); /* it wraps */
    assert_ptr_equal(tmesh_idmap_remove(&m, keys[victim]), value_for(keys[victim]));
    for (size_t i = 0; i < RUN; i++) {
      assert_ptr_equal(tmesh_idmap_get(&m, keys[i]), i == victim ? NULL : value_for(keys[i]));
    }
    tmesh_idmap_close(&m);
  }
}

static size_t longest_run(const struct tmesh_idmap* m) {
  size_t longest = 0;
  size_t run = 0;
  for (size_t i = 0; i < 2 * m->capacity; i++) {
    run = m->slots[i % m->capacity].key != 0 ? run + 1 : 0;
    if (run > longest) longest = run;
  }
  return longest;
}

/* A peer chooses its ids: multiples of the inverse of a known multiplier would all have
 * the same home. Where keys belong differs from map to map, so that no set of ids is bad
 * for every map; chance may make one map's bad, not all eight. */
static void keys_chosen_by_a_peer_do_not_make_one_run(void** state) {
  (void)state;
  enum { KEYS = 3000, MAPS = 8 };
  uint32_t inverse = 1;
  for (int i = 0; i < 6; i++) inverse *= 2 - UINT32_C(2654435769) * inverse;
  struct tmesh_idmap maps[MAPS];
  size_t shortest = KEYS;
  for (size_t k = 0; k < MAPS; k++) {
    tmesh_idmap_init(&maps[k]);
    for (uint32_t i = 1; i <= KEYS; i++) put(&maps[k], inverse * i);
    if (longest_run(&maps[k]) < shortest) shortest = longest_run(&maps[k]);
    tmesh_idmap_close(&maps[k]);
  }
  assert_in_range(shortest, 1, KEYS / 4);
}

static void random_operations_match_a_model(void** state) {
  (void)state;
  enum { KEYS = 512 };
  for (uint64_t seed = 1; seed <= 20; seed++) {
    struct prng p = prng_init(seed);
    char in_map[KEYS + 1] = {0};
    size_t count = 0;
    struct tmesh_idmap m;
    tmesh_idmap_init(&m);
    for (p.step = 0; p.step < 5000; p.step++) {
      uint32_t key = 1 + prng_below(&p, KEYS);
      PROPERTY(&p, tmesh_idmap_get(&m, key) == (in_map[key] ? value_for(key) : NULL));
      if (in_map[key]) {
        PROPERTY(&p, tmesh_idmap_remove(&m, key) == value_for(key));
        count--;
      } else {
        PROPERTY(&p, tmesh_is_ok(tmesh_idmap_put(&m, key, value_for(key))));
        count++;
      }
      in_map[key] = !in_map[key];
      PROPERTY(&p, m.count == count);
    }
    for (uint32_t key = 1; key <= KEYS; key++) {
      PROPERTY(&p, tmesh_idmap_get(&m, key) == (in_map[key] ? value_for(key) : NULL));
    }
    tmesh_idmap_close(&m);
  }
}

static void it_shrinks_when_an_eighth_is_used_and_keeps_every_entry(void** state) {
  (void)state;
  struct tmesh_idmap m;
  tmesh_idmap_init(&m);
  for (uint32_t key = 1; key <= 10000; key++)
    assert_true(tmesh_is_ok(tmesh_idmap_put(&m, key, value_for(key))));
  assert_int_equal(m.capacity, 16384);
  for (uint32_t key = 1; key <= 9990; key++) assert_ptr_equal(tmesh_idmap_remove(&m, key), value_for(key));
  assert_true(m.capacity <= 128);
  for (uint32_t key = 1; key <= 10000; key++) {
    assert_ptr_equal(tmesh_idmap_get(&m, key), key > 9990 ? value_for(key) : NULL);
  }
  tmesh_idmap_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_empty_map_has_nothing_and_no_table),
      cmocka_unit_test(what_is_put_is_found_and_what_is_removed_is_not),
      cmocka_unit_test(it_grows_by_doubling_and_stays_at_most_three_quarters_full),
      cmocka_unit_test(removal_closes_the_gap_also_across_the_end_of_the_table),
      cmocka_unit_test(keys_chosen_by_a_peer_do_not_make_one_run),
      cmocka_unit_test(it_shrinks_when_an_eighth_is_used_and_keeps_every_entry),
      cmocka_unit_test(random_operations_match_a_model),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
