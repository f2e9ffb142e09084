/* Rounds of one RTT, and what a stream took in one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/mux/growth.h"

static void a_round_lasts_at_least_one_rtt(void** state) {
  (void)state;
  struct tmesh_growth_clock c = {.rtt_us = 1000, .since_us = 5000};
  tmesh_growth_tick(&c, 5999);
  assert_int_equal(c.round, 0);
  tmesh_growth_tick(&c, 6000);
  assert_int_equal(c.round, 1);
  assert_int_equal(c.length_us, 1000);
  tmesh_growth_tick(&c, 9000);
  assert_int_equal(c.round, 2);
  assert_int_equal(c.length_us, 3000);
}

static void without_an_rtt_there_are_no_rounds(void** state) {
  (void)state;
  struct tmesh_growth_clock c = {0};
  struct tmesh_growth g = {0};
  for (uint64_t now_us = 0; now_us < 100; now_us++) {
    tmesh_growth_tick(&c, now_us * 1000000);
    assert_int_equal(tmesh_growth_count(&g, &c, 1000), 0);
  }
}

static void what_was_taken_is_told_once_and_per_rtt(void** state) {
  (void)state;
  struct tmesh_growth_clock c = {.rtt_us = 1000};
  struct tmesh_growth g = {0};
  assert_int_equal(tmesh_growth_count(&g, &c, 300), 0);
  assert_int_equal(tmesh_growth_count(&g, &c, 300), 0);
  tmesh_growth_tick(&c, 2000);
  assert_int_equal(tmesh_growth_count(&g, &c, 7), 300); /* 600 bytes in two RTTs */
  assert_int_equal(tmesh_growth_count(&g, &c, 7), 0);
  tmesh_growth_tick(&c, 3000);
  assert_int_equal(tmesh_growth_count(&g, &c, 0), 14);
}

static void a_round_that_is_long_ago_tells_nothing(void** state) {
  (void)state;
  struct tmesh_growth_clock c = {.rtt_us = 1000};
  struct tmesh_growth g = {0};
  (void)tmesh_growth_count(&g, &c, 1000000);
  tmesh_growth_tick(&c, 1000);
  tmesh_growth_tick(&c, 2000);
  assert_int_equal(tmesh_growth_count(&g, &c, 1), 0);
}

static void no_amount_and_no_time_overflows(void** state) {
  (void)state;
  struct tmesh_growth_clock c = {.rtt_us = UINT64_MAX / 2};
  struct tmesh_growth g = {0};
  assert_int_equal(tmesh_growth_count(&g, &c, UINT32_MAX), 0);
  assert_int_equal(tmesh_growth_count(&g, &c, UINT32_MAX), 0);
  tmesh_growth_tick(&c, UINT64_MAX);
  assert_int_equal(c.length_us, UINT32_MAX);
  assert_int_equal(tmesh_growth_count(&g, &c, 1), UINT32_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_round_lasts_at_least_one_rtt),
      cmocka_unit_test(without_an_rtt_there_are_no_rounds),
      cmocka_unit_test(what_was_taken_is_told_once_and_per_rtt),
      cmocka_unit_test(a_round_that_is_long_ago_tells_nothing),
      cmocka_unit_test(no_amount_and_no_time_overflows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
