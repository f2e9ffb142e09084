#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/pool.h"
#include "core/base/pool_charge.h"

#define BLOCKS(n) ((size_t)(n) * TMESH_BLOCK_BYTES)

static void sizes_are_rounded_down_and_the_budget_is_at_least_one_block(void** state) {
  (void)state;
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, BLOCKS(3) + 1, BLOCKS(2) - 1);
  assert_int_equal(pool.budget_count, 3);
  assert_int_equal(pool.cached_max, 1);
  tmesh_pool_init(&pool, 0, 0);
  assert_int_equal(pool.budget_count, 1);
  assert_int_equal(pool.cached_max, 0);
  tmesh_pool_close(&pool);
}

static void a_block_is_handed_out_empty(void** state) {
  (void)state;
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, BLOCKS(1), BLOCKS(1));
  for (int round = 0; round < 2; round++) {
    struct tmesh_block* b = tmesh_pool_get(&pool);
    assert_non_null(b);
    assert_null(b->next);
    assert_int_equal(b->begin_bytes, 0);
    assert_int_equal(b->end_bytes, 0);
    b->begin_bytes = 5;
    b->end_bytes = 7;
    tmesh_pool_put(&pool, b);
  }
  tmesh_pool_close(&pool);
}

static void the_budget_bounds_live_blocks_and_refusals_are_counted(void** state) {
  (void)state;
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, BLOCKS(2), BLOCKS(2));
  struct tmesh_block* a = tmesh_pool_get(&pool);
  struct tmesh_block* b = tmesh_pool_get(&pool);
  assert_non_null(a);
  assert_non_null(b);
  assert_null(tmesh_pool_get(&pool));
  assert_null(tmesh_pool_get(&pool));
  assert_int_equal(pool.refused_count, 2);
  assert_int_equal(tmesh_pool_live_bytes(&pool), BLOCKS(2));
  tmesh_pool_put(&pool, a);
  a = tmesh_pool_get(&pool);
  assert_non_null(a);
  tmesh_pool_put(&pool, a);
  tmesh_pool_put(&pool, b);
  assert_int_equal(pool.live_count, 0);
  assert_int_equal(pool.live_peak_count, 2);
  tmesh_pool_close(&pool);
}

static void freed_blocks_are_reused_up_to_the_cache_limit(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_block* b[3];
  tmesh_pool_init(&pool, BLOCKS(3), BLOCKS(2));
  for (int i = 0; i < 3; i++) b[i] = tmesh_pool_get(&pool);
  for (int i = 0; i < 3; i++) tmesh_pool_put(&pool, b[i]);
  assert_int_equal(pool.cached_count, 2);
  struct tmesh_block* again = tmesh_pool_get(&pool);
  assert_true(again == b[0] || again == b[1]);
  assert_int_equal(pool.cached_count, 1);
  tmesh_pool_put(&pool, again);
  tmesh_pool_close(&pool);
}

static void trim_gives_cached_blocks_back(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_block* b[3];
  tmesh_pool_init(&pool, BLOCKS(3), BLOCKS(3));
  for (int i = 0; i < 3; i++) b[i] = tmesh_pool_get(&pool);
  for (int i = 0; i < 3; i++) tmesh_pool_put(&pool, b[i]);
  assert_int_equal(tmesh_pool_trim(&pool, 5), 0);
  assert_int_equal(pool.cached_count, 3);
  assert_int_equal(tmesh_pool_trim(&pool, 1), 2);
  assert_int_equal(pool.cached_count, 1);
  assert_int_equal(pool.live_count, 0);
  tmesh_pool_close(&pool);
  assert_int_equal(pool.cached_count, 0);
}

static void take_peak_gives_the_most_live_blocks_since_the_last_call(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_block* b[3];
  tmesh_pool_init(&pool, BLOCKS(3), BLOCKS(3));
  assert_int_equal(tmesh_pool_take_peak(&pool), 0);
  for (int i = 0; i < 3; i++) b[i] = tmesh_pool_get(&pool);
  tmesh_pool_put(&pool, b[2]);
  tmesh_pool_put(&pool, b[1]);
  assert_int_equal(tmesh_pool_take_peak(&pool), 3);
  assert_int_equal(tmesh_pool_take_peak(&pool), 1); /* what is live still counts */
  tmesh_pool_put(&pool, b[0]);
  assert_int_equal(tmesh_pool_take_peak(&pool), 1);
  assert_int_equal(tmesh_pool_take_peak(&pool), 0);
  assert_int_equal(pool.live_peak_count, 3);
  tmesh_pool_close(&pool);
}

static void pressure_rises_at_three_quarters_nine_tenths_and_the_end(void** state) {
  (void)state;
  struct tmesh_pool pool = {.budget_count = 100};
  const struct {
    size_t live;
    enum tmesh_pressure want;
  } rows[] = {{0, TMESH_PRESSURE_NONE},    {74, TMESH_PRESSURE_NONE},  {75, TMESH_PRESSURE_GROWTH},
              {89, TMESH_PRESSURE_GROWTH}, {90, TMESH_PRESSURE_OPENS}, {99, TMESH_PRESSURE_OPENS},
              {100, TMESH_PRESSURE_FULL}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    pool.live_count = rows[i].live;
    assert_int_equal(tmesh_pool_pressure(&pool), rows[i].want);
  }
}

static void charges_count_towards_the_budget_in_whole_blocks_of_their_sum(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_pool_charge charge;
  tmesh_pool_init(&pool, BLOCKS(8), BLOCKS(8));
  tmesh_pool_charge_init(&charge, &pool);
  assert_true(tmesh_pool_charge_add(&charge, 1));
  assert_int_equal(pool.live_count, 1);
  assert_true(tmesh_pool_charge_add(&charge, TMESH_BLOCK_BYTES - 1));
  assert_int_equal(pool.live_count, 1);
  assert_true(tmesh_pool_charge_add(&charge, 1));
  assert_int_equal(pool.live_count, 2);
  assert_int_equal(pool.live_peak_count, 2);
  assert_int_equal(tmesh_pool_take_peak(&pool), 2);
  tmesh_pool_charge_drop(&charge, 1);
  assert_int_equal(pool.live_count, 1);
  tmesh_pool_charge_drop(&charge, TMESH_BLOCK_BYTES);
  assert_int_equal(pool.live_count, 0);
  tmesh_pool_close(&pool);
}

static void charges_are_a_quarter_of_the_budget_at_most(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_pool_charge charge;
  tmesh_pool_init(&pool, BLOCKS(8), 0);
  tmesh_pool_charge_init(&charge, &pool);
  assert_false(tmesh_pool_charge_add(&charge, BLOCKS(2) + 1));
  assert_int_equal(pool.live_count, 0);
  assert_true(tmesh_pool_charge_add(&charge, BLOCKS(2)));
  assert_false(tmesh_pool_charge_add(&charge, 1));
  assert_false(tmesh_pool_charge_add(&charge, SIZE_MAX));
  assert_int_equal(pool.refused_count, 3);
  assert_true(tmesh_pool_charge_add(&charge, 0));
  tmesh_pool_charge_drop(&charge, BLOCKS(2));
  tmesh_pool_close(&pool);
}

static void blocks_and_charges_share_one_budget(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_pool_charge charge;
  struct tmesh_block* b[4];
  tmesh_pool_init(&pool, BLOCKS(4), 0);
  tmesh_pool_charge_init(&charge, &pool);
  for (int i = 0; i < 4; i++) b[i] = tmesh_pool_get(&pool);
  assert_false(tmesh_pool_charge_add(&charge, 1));
  tmesh_pool_put(&pool, b[3]);
  assert_true(tmesh_pool_charge_add(&charge, 1));
  assert_null(tmesh_pool_get(&pool));
  assert_int_equal(pool.refused_count, 2);
  tmesh_pool_charge_drop(&charge, 1);
  for (int i = 0; i < 3; i++) tmesh_pool_put(&pool, b[i]);
  tmesh_pool_close(&pool);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sizes_are_rounded_down_and_the_budget_is_at_least_one_block),
      cmocka_unit_test(a_block_is_handed_out_empty),
      cmocka_unit_test(the_budget_bounds_live_blocks_and_refusals_are_counted),
      cmocka_unit_test(freed_blocks_are_reused_up_to_the_cache_limit),
      cmocka_unit_test(trim_gives_cached_blocks_back),
      cmocka_unit_test(take_peak_gives_the_most_live_blocks_since_the_last_call),
      cmocka_unit_test(pressure_rises_at_three_quarters_nine_tenths_and_the_end),
      cmocka_unit_test(charges_count_towards_the_budget_in_whole_blocks_of_their_sum),
      cmocka_unit_test(charges_are_a_quarter_of_the_budget_at_most),
      cmocka_unit_test(blocks_and_charges_share_one_budget),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
