#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/proto/window.h"
#include "tests/core/base/prng.h"

#define FRAME TMESH_DATA_MAX_BYTES

/* --- sending ---------------------------------------------------------------------- */

static void an_initial_window_of_zero_is_unlimited(void** state) {
  (void)state;
  struct tmesh_send_window s;
  struct tmesh_recv_window r;
  tmesh_send_window_init(&s, 0, UINT32_MAX);
  assert_int_equal(tmesh_send_window_available(&s, UINT32_MAX), UINT32_MAX);
  tmesh_send_window_take(&s, UINT32_MAX);
  assert_int_equal(tmesh_send_window_available(&s, 7), 7);
  assert_int_equal(tmesh_send_window_grant(&s, 1).code, TMESH_OK);
  assert_int_equal(s.credit_bytes, 0);
  tmesh_recv_window_init(&r, 0, 1000);
  assert_int_equal(tmesh_recv_window_receive(&r, UINT32_MAX).code, TMESH_OK);
  assert_int_equal(tmesh_recv_window_consume(&r, UINT32_MAX), 0);
}

static void available_is_the_smaller_of_want_and_credit(void** state) {
  (void)state;
  struct tmesh_send_window s;
  tmesh_send_window_init(&s, 100, UINT32_MAX);
  assert_int_equal(tmesh_send_window_available(&s, 30), 30);
  assert_int_equal(tmesh_send_window_available(&s, 101), 100);
  tmesh_send_window_take(&s, 100);
  assert_int_equal(tmesh_send_window_available(&s, 1), 0);
}

static void a_grant_of_zero_is_an_error_of_the_stream(void** state) {
  (void)state;
  struct tmesh_send_window s;
  for (uint32_t initial = 0; initial <= 1; initial++) {
    tmesh_send_window_init(&s, initial, UINT32_MAX);
    struct tmesh_status st = tmesh_send_window_grant(&s, 0);
    assert_int_equal(st.code, TMESH_E_WINDOW_ZERO);
    assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
    assert_int_equal(s.credit_bytes, initial);
  }
}

static void a_grant_past_32_bits_is_an_error_and_changes_nothing(void** state) {
  (void)state;
  struct tmesh_send_window s;
  tmesh_send_window_init(&s, 10, UINT32_MAX);
  assert_int_equal(tmesh_send_window_grant(&s, UINT32_MAX - 10).code, TMESH_OK);
  assert_int_equal(s.credit_bytes, UINT32_MAX);
  struct tmesh_status st = tmesh_send_window_grant(&s, 1);
  assert_int_equal(st.code, TMESH_E_WINDOW_OVERFLOW);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(s.credit_bytes, UINT32_MAX);
}

static void a_capped_window_saturates_instead(void** state) {
  (void)state;
  struct tmesh_send_window s;
  tmesh_send_window_init(&s, TMESH_WINDOW_INITIAL_BYTES, TMESH_WINDOW_LEGACY_CAP_BYTES);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(tmesh_send_window_grant(&s, TMESH_WINDOW_INITIAL_BYTES).code, TMESH_OK);
    assert_int_equal(s.credit_bytes, TMESH_WINDOW_LEGACY_CAP_BYTES);
  }
  assert_int_equal(tmesh_send_window_grant(&s, UINT32_MAX).code, TMESH_OK);
  assert_int_equal(s.credit_bytes, TMESH_WINDOW_LEGACY_CAP_BYTES);
}

static void the_announced_window_is_honoured_beyond_the_cap(void** state) {
  (void)state;
  struct tmesh_send_window s;
  tmesh_send_window_init(&s, 1000000, TMESH_WINDOW_LEGACY_CAP_BYTES);
  assert_int_equal(tmesh_send_window_available(&s, UINT32_MAX), 1000000);
  assert_int_equal(tmesh_send_window_grant(&s, 5).code, TMESH_OK);
  assert_int_equal(s.credit_bytes, 1000000);
}

/* --- receiving --------------------------------------------------------------------- */

static void more_than_the_credit_is_exceeded_and_changes_nothing(void** state) {
  (void)state;
  struct tmesh_recv_window r;
  tmesh_recv_window_init(&r, 100, 50);
  assert_int_equal(tmesh_recv_window_receive(&r, 60).code, TMESH_OK);
  struct tmesh_status st = tmesh_recv_window_receive(&r, 41);
  assert_int_equal(st.code, TMESH_E_WINDOW_EXCEEDED);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(r.credit_bytes, 40);
  assert_int_equal(tmesh_recv_window_receive(&r, 40).code, TMESH_OK);
}

static void the_threshold_is_at_most_half_and_leaves_one_frame(void** state) {
  (void)state;
  static const struct {
    uint32_t size, asked, want;
  } rows[] = {
      {262144, 131072, 131072},       /* the defaults */
      {262144, 262144, 131072},       /* half */
      {262144, 1000, 1000},           /* what was asked */
      {262144, 0, 1},                 /* at least one byte */
      {65536, 131072, 32768},         /* half = size - frame */
      {40000, 131072, 40000 - 32768}, /* size - frame is less than half */
      {32769, 131072, 1},
      {32768, 131072, 1}, /* no room for a frame: credit every byte */
      {100, 50, 1},
      {1, 1, 1},
      {UINT32_MAX, UINT32_MAX, UINT32_MAX / 2},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    struct tmesh_recv_window r;
    tmesh_recv_window_init(&r, rows[i].size, rows[i].asked);
    assert_int_equal(r.threshold_bytes, rows[i].want);
  }
}

static void credit_returns_after_the_threshold_and_not_per_frame(void** state) {
  (void)state;
  struct tmesh_recv_window r;
  tmesh_recv_window_init(&r, 262144, 131072);
  uint32_t increments = 0;
  for (int i = 0; i < 8; i++) {
    assert_int_equal(tmesh_recv_window_receive(&r, FRAME).code, TMESH_OK);
    uint32_t delta = tmesh_recv_window_consume(&r, FRAME);
    assert_int_equal(delta, i % 4 == 3 ? 131072 : 0);
    if (delta > 0) increments++;
  }
  assert_int_equal(increments, 2);
  assert_int_equal(r.credit_bytes, 262144);
}

static void credit_returns_early_when_less_than_one_frame_is_left(void** state) {
  (void)state;
  struct tmesh_recv_window r;
  tmesh_recv_window_init(&r, 262144, 131072);
  assert_int_equal(tmesh_recv_window_receive(&r, 262144 - FRAME).code, TMESH_OK);
  assert_int_equal(tmesh_recv_window_consume(&r, 1), 0); /* exactly one frame is left */
  assert_int_equal(tmesh_recv_window_receive(&r, 1).code, TMESH_OK);
  assert_int_equal(tmesh_recv_window_consume(&r, 1), 2); /* one byte less than a frame */
  assert_int_equal(r.credit_bytes, FRAME + 1);
}

static void nothing_consumed_announces_nothing(void** state) {
  (void)state;
  struct tmesh_recv_window r;
  tmesh_recv_window_init(&r, 1000, 500);
  assert_int_equal(tmesh_recv_window_receive(&r, 1000).code, TMESH_OK);
  assert_int_equal(tmesh_recv_window_consume(&r, 0), 0);
}

static void growth_joins_the_next_increment(void** state) {
  (void)state;
  struct tmesh_recv_window r;
  tmesh_recv_window_init(&r, 262144, 131072);
  tmesh_recv_window_grow(&r, 524288, 262144);
  assert_int_equal(r.threshold_bytes, 262144);
  assert_int_equal(tmesh_recv_window_receive(&r, 262144).code, TMESH_OK);
  assert_int_equal(tmesh_recv_window_receive(&r, 1).code, TMESH_E_WINDOW_EXCEEDED); /* not granted yet */
  assert_int_equal(tmesh_recv_window_consume(&r, 10), 262144 + 10);
  assert_int_equal(r.credit_bytes, 262144 + 10);
  tmesh_recv_window_grow(&r, 524288, 262144); /* the same size: nothing */
  assert_int_equal(tmesh_recv_window_consume(&r, 0), 0);
}

static void an_uncapped_window_keeps_its_credit_and_loses_nothing_from_there(void** state) {
  (void)state;
  struct tmesh_send_window s;
  tmesh_send_window_init(&s, 262144, 524288);
  tmesh_send_window_uncap(&s);
  assert_int_equal(tmesh_send_window_grant(&s, 16777216).code, TMESH_OK);
  assert_int_equal(s.credit_bytes, 16777216 + 262144);
  assert_int_equal(tmesh_send_window_grant(&s, UINT32_MAX - s.credit_bytes + 1).code,
                   TMESH_E_WINDOW_OVERFLOW);
}

static void shrinking_credits_nothing_and_takes_nothing_back(void** state) {
  (void)state;
  struct tmesh_recv_window r;
  tmesh_recv_window_init(&r, 524288, 131072);
  assert_int_equal(tmesh_recv_window_receive(&r, 300000).code, TMESH_OK);
  assert_int_equal(tmesh_recv_window_consume(&r, 1000), 0);
  tmesh_recv_window_shrink(&r, 262144, 131072);
  assert_int_equal(r.size_bytes, 262144);
  assert_int_equal(r.credit_bytes, 524288 - 300000);
  assert_int_equal(r.consumed_bytes, 1000);
  assert_int_equal(r.threshold_bytes, 131072);
  tmesh_recv_window_shrink(&r, 300000 - 1000 - 262144, 131072); /* all that was received */
  assert_int_equal(r.credit_bytes + r.consumed_bytes, r.size_bytes);
}

/* --- both ends --------------------------------------------------------------------- */

/* A sender, a receiver, and DATA and credit under way in both directions. Nothing is
 * ever sent beyond a grant, and no byte of the window is ever lost. */
static void windows_are_never_exceeded_and_never_lost(void** state) {
  (void)state;
  static const uint32_t sizes[] = {1, 100, 32768, 32769, 65536, 262144, 1048576};
  for (uint64_t seed = 1; seed <= 70; seed++) {
    struct prng p = prng_init(seed);
    uint32_t size = sizes[seed % 7];
    struct tmesh_send_window s;
    struct tmesh_recv_window r;
    uint32_t on_the_way = 0;
    uint32_t queued = 0;
    uint32_t credit_on_the_way = 0;
    tmesh_send_window_init(&s, size, UINT32_MAX);
    tmesh_recv_window_init(&r, size, prng_below(&p, 300000));
    for (p.step = 0; p.step < 3000; p.step++) {
      uint32_t n = prng_below(&p, FRAME) + 1;
      switch (prng_below(&p, 4)) {
        case 0:
          n = tmesh_send_window_available(&s, n);
          tmesh_send_window_take(&s, n);
          on_the_way += n;
          break;
        case 1:
          if (n > on_the_way) n = on_the_way;
          PROPERTY(&p, tmesh_is_ok(tmesh_recv_window_receive(&r, n)));
          on_the_way -= n;
          queued += n;
          break;
        case 2:
          if (n > queued) n = queued;
          queued -= n;
          credit_on_the_way += tmesh_recv_window_consume(&r, n);
          break;
        default:
          if (credit_on_the_way > 0) {
            PROPERTY(&p, tmesh_is_ok(tmesh_send_window_grant(&s, credit_on_the_way)));
          }
          credit_on_the_way = 0;
      }
      PROPERTY(&p, s.credit_bytes + on_the_way + queued + r.consumed_bytes + credit_on_the_way == size);
      PROPERTY(&p, r.credit_bytes + queued + r.consumed_bytes == size);
      PROPERTY(&p, r.consumed_bytes < r.threshold_bytes);
    }
    /* Drained, the sender can always go on: credit is never stuck below one frame. */
    PROPERTY(&p, tmesh_is_ok(tmesh_recv_window_receive(&r, on_the_way)));
    credit_on_the_way += tmesh_recv_window_consume(&r, queued + on_the_way);
    uint32_t credit = s.credit_bytes + credit_on_the_way;
    PROPERTY(&p, credit >= (size < FRAME ? size : FRAME));
  }
}

/* The same with a receiver that changes its mind about the size. */
static void growing_and_shrinking_windows_are_never_exceeded_and_never_lost(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 70; seed++) {
    struct prng p = prng_init(seed);
    struct tmesh_send_window s;
    struct tmesh_recv_window r;
    const uint32_t floor = 262144;
    const uint32_t threshold = prng_below(&p, 200000) + 1;
    uint32_t on_the_way = 0, queued = 0, credit_on_the_way = 0;
    uint64_t granted = floor, sent = 0;
    tmesh_send_window_init(&s, floor, 524288);
    tmesh_send_window_uncap(&s);
    tmesh_recv_window_init(&r, floor, threshold);
    for (p.step = 0; p.step < 4000; p.step++) {
      uint32_t n = prng_below(&p, FRAME) + 1;
      switch (prng_below(&p, 6)) {
        case 0:
          n = tmesh_send_window_available(&s, n);
          tmesh_send_window_take(&s, n);
          on_the_way += n;
          sent += n;
          break;
        case 1:
          if (n > on_the_way) n = on_the_way;
          PROPERTY(&p, tmesh_is_ok(tmesh_recv_window_receive(&r, n)));
          on_the_way -= n;
          queued += n;
          break;
        case 2:
          if (n > queued) n = queued;
          queued -= n;
          credit_on_the_way += tmesh_recv_window_consume(&r, n);
          PROPERTY(&p, r.consumed_bytes < r.threshold_bytes);
          break;
        case 3:
          if (prng_below(&p, 50) != 0 || r.size_bytes > (8u << 20)) break;
          tmesh_recv_window_grow(&r, r.size_bytes * 2, threshold);
          break;
        case 4: /* consumed and kept */
          if (n > queued) n = queued;
          if (n > r.size_bytes - floor) n = r.size_bytes - floor;
          queued -= n;
          tmesh_recv_window_shrink(&r, n, threshold);
          credit_on_the_way += tmesh_recv_window_consume(&r, 0);
          break;
        default:
          if (credit_on_the_way > 0) {
            PROPERTY(&p, tmesh_is_ok(tmesh_send_window_grant(&s, credit_on_the_way)));
          }
          granted += credit_on_the_way;
          credit_on_the_way = 0;
      }
      PROPERTY(&p, sent <= granted);
      PROPERTY(&p, r.size_bytes >= floor);
      PROPERTY(&p, r.threshold_bytes <= threshold && r.threshold_bytes <= r.size_bytes / 2);
      PROPERTY(&p, r.credit_bytes == s.credit_bytes + on_the_way + credit_on_the_way);
      PROPERTY(&p, r.credit_bytes + queued + r.consumed_bytes == r.size_bytes);
    }
    PROPERTY(&p, tmesh_is_ok(tmesh_recv_window_receive(&r, on_the_way)));
    credit_on_the_way += tmesh_recv_window_consume(&r, queued + on_the_way);
    PROPERTY(&p, s.credit_bytes + credit_on_the_way >= FRAME);
  }
}

/* Lesson W1-W3 in one: a window of any size, a sender that fills it, a consumer that
 * takes everything: a transfer of any length must end. */
static void no_window_size_stalls_a_transfer(void** state) {
  (void)state;
  for (uint32_t size = 1; size < 200000; size += 1 + size / 7) {
    struct tmesh_send_window s;
    struct tmesh_recv_window r;
    uint32_t left = 4 * size + 12345;
    tmesh_send_window_init(&s, size, UINT32_MAX);
    tmesh_recv_window_init(&r, size, 131072);
    while (left > 0) {
      uint32_t n = tmesh_send_window_available(&s, left < FRAME ? left : FRAME);
      assert_true(n > 0);
      tmesh_send_window_take(&s, n);
      assert_int_equal(tmesh_recv_window_receive(&r, n).code, TMESH_OK);
      uint32_t delta = tmesh_recv_window_consume(&r, n);
      if (delta > 0) assert_int_equal(tmesh_send_window_grant(&s, delta).code, TMESH_OK);
      left -= n;
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_initial_window_of_zero_is_unlimited),
      cmocka_unit_test(available_is_the_smaller_of_want_and_credit),
      cmocka_unit_test(a_grant_of_zero_is_an_error_of_the_stream),
      cmocka_unit_test(a_grant_past_32_bits_is_an_error_and_changes_nothing),
      cmocka_unit_test(a_capped_window_saturates_instead),
      cmocka_unit_test(the_announced_window_is_honoured_beyond_the_cap),
      cmocka_unit_test(more_than_the_credit_is_exceeded_and_changes_nothing),
      cmocka_unit_test(the_threshold_is_at_most_half_and_leaves_one_frame),
      cmocka_unit_test(credit_returns_after_the_threshold_and_not_per_frame),
      cmocka_unit_test(credit_returns_early_when_less_than_one_frame_is_left),
      cmocka_unit_test(nothing_consumed_announces_nothing),
      cmocka_unit_test(growth_joins_the_next_increment),
      cmocka_unit_test(an_uncapped_window_keeps_its_credit_and_loses_nothing_from_there),
      cmocka_unit_test(shrinking_credits_nothing_and_takes_nothing_back),
      cmocka_unit_test(windows_are_never_exceeded_and_never_lost),
      cmocka_unit_test(growing_and_shrinking_windows_are_never_exceeded_and_never_lost),
      cmocka_unit_test(no_window_size_stalls_a_transfer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
