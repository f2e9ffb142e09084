/* core/base when the system refuses memory: each call says so and changes nothing, at
 * whichever allocation of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "core/base/chunkq.h"
#include "core/base/idmap.h"
#include "core/base/pool.h"

#define BLOCK ((size_t)TMESH_BLOCK_BYTES)

static uint64_t allocation_count;
static uint64_t fail_at; /* 0 = none */

void* __real_malloc(size_t n);
void* __real_calloc(size_t n, size_t size);
void* __wrap_malloc(size_t n);
void* __wrap_calloc(size_t n, size_t size);

static bool is_refused(void) {
  return fail_at != 0 && ++allocation_count == fail_at;
}

void* __wrap_malloc(size_t n) {
  return is_refused() ? NULL : __real_malloc(n);
}

void* __wrap_calloc(size_t n, size_t size) {
  return is_refused() ? NULL : __real_calloc(n, size);
}

static void refuse(uint64_t n) {
  allocation_count = 0;
  fail_at = n;
}

static void a_block_that_the_system_refuses_is_counted_and_asked_for_again(void** state) {
  (void)state;
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  refuse(1);
  assert_null(tmesh_pool_get(&pool));
  assert_int_equal(pool.refused_count, 1);
  assert_int_equal(pool.live_count, 0);
  struct tmesh_block* b = tmesh_pool_get(&pool);
  assert_non_null(b);
  tmesh_pool_put(&pool, b);
  tmesh_pool_close(&pool);
}

static void an_append_is_all_or_nothing_at_every_refused_block(void** state) {
  (void)state;
  static uint8_t data[3 * TMESH_BLOCK_BYTES];
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  tmesh_pool_init(&pool, 16 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&q, "x", 1)));
  uint64_t n = 1;
  for (;; n++) {
    refuse(n);
    const struct tmesh_status st = tmesh_chunkq_append(&q, data, sizeof data);
    refuse(0);
    tmesh_chunkq_check(&q);
    if (tmesh_is_ok(st)) break;
    assert_int_equal(st.code, TMESH_E_NO_MEMORY);
    assert_int_equal(q.len_bytes, 1);
    assert_int_equal(pool.live_count, 1);
  }
  assert_int_equal(n, 4);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

static void a_reserve_and_a_move_that_are_refused_leave_the_queues(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq a, b;
  size_t room = 1;
  tmesh_pool_init(&pool, 16 * BLOCK, 0);
  tmesh_chunkq_init(&a, &pool);
  tmesh_chunkq_init(&b, &pool);
  refuse(1);
  assert_null(tmesh_chunkq_reserve(&a, &room));
  assert_int_equal(room, 0);
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&a, "abcdef", 6)));
  refuse(1);
  assert_int_equal(tmesh_chunkq_move(&b, &a, 3), 0); /* a part needs a block of its own */
  assert_int_equal(a.len_bytes, 6);
  refuse(1);
  assert_int_equal(tmesh_chunkq_move(&b, &a, 6), 6); /* the whole takes its block along */
  refuse(0);
  tmesh_chunkq_check(&a);
  tmesh_chunkq_check(&b);
  tmesh_chunkq_clear(&b);
  tmesh_pool_close(&pool);
}

static int value;

static void a_map_that_cannot_grow_refuses_and_one_that_cannot_shrink_stays_large(void** state) {
  (void)state;
  struct tmesh_idmap m;
  tmesh_idmap_init(&m);
  uint32_t key = 1;
  for (unsigned growth = 0; growth < 5; growth++) {
    refuse(1);
    struct tmesh_status st = tmesh_ok();
    while (tmesh_is_ok(st)) st = tmesh_idmap_put(&m, key, &value), key += tmesh_is_ok(st);
    assert_int_equal(st.code, TMESH_E_NO_MEMORY);
    assert_int_equal(m.count, key - 1);
    for (uint32_t k = 1; k < key; k++) assert_ptr_equal(tmesh_idmap_get(&m, k), &value);
    assert_null(tmesh_idmap_get(&m, key));
    refuse(0);
    assert_true(tmesh_is_ok(tmesh_idmap_put(&m, key++, &value)));
  }
  const size_t capacity = m.capacity;
  while (m.count * 8 >= capacity) {
    refuse(1);
    assert_ptr_equal(tmesh_idmap_remove(&m, --key), &value);
  }
  assert_int_equal(m.capacity, capacity);
  for (uint32_t k = 1; k < key; k++) assert_ptr_equal(tmesh_idmap_get(&m, k), &value);
  refuse(0);
  assert_ptr_equal(tmesh_idmap_remove(&m, --key), &value); /* the next one gets it */
  assert_int_equal(m.capacity, capacity / 2);
  tmesh_idmap_close(&m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_block_that_the_system_refuses_is_counted_and_asked_for_again),
      cmocka_unit_test(an_append_is_all_or_nothing_at_every_refused_block),
      cmocka_unit_test(a_reserve_and_a_move_that_are_refused_leave_the_queues),
      cmocka_unit_test(a_map_that_cannot_grow_refuses_and_one_that_cannot_shrink_stays_large),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
