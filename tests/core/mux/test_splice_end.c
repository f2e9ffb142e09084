/* Splices that end early, and splices the pool has nothing for. */
#include "note_end.h"

static void a_broken_end_aborts_the_other_at_once(void** state) {
  (void)state;
  struct fixture f;
  for (int i = 0; i < 2; i++) {
    start(&f);
    feed(&f, 0, 1000);
    tmesh_splice_broken(&f.sp, i, tmesh_err_stream(TMESH_E_RESET));
    assert_int_equal(f.done_count, 1);
    assert_int_equal(f.why.code, TMESH_E_RESET);
    assert_int_equal(f.broken, i);
    assert_int_equal(f.e[1 - i].abort_count, 1);
    assert_int_equal(f.e[i].abort_count, 0);
    tmesh_splice_broken(&f.sp, 1 - i, tmesh_err_stream(TMESH_E_IO));
    tmesh_splice_readable(&f.sp, 0);
    tmesh_splice_eof(&f.sp, 1);
    tmesh_splice_written(&f.sp, 1, 5, true);
    tmesh_splice_cancel(&f.sp);
    assert_int_equal(f.done_count, 1); /* exactly one */
    stop(&f);
  }
}

static void what_an_answering_end_sent_before_its_reset_is_written_first_P_B8(void** state) {
  (void)state;
  struct fixture f;
  for (int knows = 0; knows < 2; knows++) { /* either end may say which one answers */
    start(&f);
    f.sp.ends[knows].side = knows == 0 ? TMESH_END_ANSWERS : TMESH_END_ASKS;
    feed(&f, 1, 500);
    feed(&f, 0, 150000);
    tmesh_splice_broken(&f.sp, 0, tmesh_err_stream(TMESH_E_RESET));
    assert_int_equal(f.done_count + f.e[1].abort_count, 0);
    feed(&f, 1, 1000); /* nobody takes it any more */
    assert_int_equal(f.e[0].out.len_bytes, 500);
    write_out(&f, 1, 100000);
    tmesh_splice_check(&f.sp);
    assert_int_equal(f.done_count, 0);
    write_out(&f, 1, 49999);
    assert_int_equal(f.done_count, 0);
    write_out(&f, 1, 1);
    assert_int_equal(f.done_count, 1);
    assert_int_equal(f.why.code, TMESH_E_RESET);
    assert_int_equal(f.broken, 0);
    assert_int_equal(f.e[1].abort_count, 1); /* and no regular end */
    assert_int_equal(f.e[1].finish_count, 0);
    stop(&f);
  }
}

static void a_regular_end_before_the_reset_of_an_answering_end_is_written_too(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.sp.ends[0].side = TMESH_END_ANSWERS;
  feed(&f, 0, 1000);
  tmesh_splice_eof(&f.sp, 0);
  assert_int_equal(f.e[1].finish_count, 1);
  tmesh_splice_broken(&f.sp, 0, tmesh_err_stream(TMESH_E_RESET));
  tmesh_chunkq_consume(&f.e[1].out, 1000);
  tmesh_splice_written(&f.sp, 1, 1000, false);
  assert_int_equal(f.done_count, 0);
  tmesh_splice_written(&f.sp, 1, 0, true);
  assert_int_equal(f.done_count, 1);
  assert_int_equal(f.why.code, TMESH_E_RESET); /* the other direction was cut */
  stop(&f);
}

static void an_answering_end_that_leaves_does_not_hold_the_other_one(void** state) {
  (void)state;
  struct fixture f;
  for (int way = 0; way < 3; way++) {
    start(&f);
    f.sp.ends[0].side = TMESH_END_ANSWERS;
    feed(&f, 0, 1000);
    tmesh_splice_broken(&f.sp, 0, tmesh_err_stream(TMESH_E_RESET));
    if (way == 0) tmesh_splice_broken(&f.sp, 1, tmesh_err_stream(TMESH_E_RESET));
    if (way == 1) tmesh_splice_broken(&f.sp, 0, tmesh_err_stream(TMESH_E_TIMEOUT));
    if (way == 2) tmesh_splice_cancel(&f.sp);
    assert_int_equal(f.done_count, way == 2 ? 0 : 1);
    assert_int_equal(f.e[0].abort_count, way == 1 ? 0 : 1);
    assert_int_equal(f.e[1].abort_count, way == 0 ? 0 : 1);
    stop(&f);
  }
}

static void an_answering_end_that_breaks_otherwise_aborts_the_other_at_once(void** state) {
  (void)state;
  struct fixture f;
  for (int way = 0; way < 3; way++) {
    start(&f);
    f.sp.ends[0].side = TMESH_END_ANSWERS;
    if (way < 2) feed(&f, 0, 1000); /* with nothing to write a RESET does not wait either */
    tmesh_splice_broken(&f.sp, 0,
                        way == 0   ? tmesh_err_stream(TMESH_E_TIMEOUT)
                        : way == 1 ? tmesh_err_session(TMESH_E_RESET)
                                   : tmesh_err_stream(TMESH_E_RESET));
    assert_int_equal(f.done_count, 1);
    assert_int_equal(f.e[1].abort_count, 1);
    stop(&f);
  }
}

static void an_end_that_finished_both_ways_may_break_without_harm(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  feed(&f, 0, 1000);
  tmesh_splice_eof(&f.sp, 0);
  tmesh_splice_eof(&f.sp, 1);
  tmesh_splice_written(&f.sp, 0, 0, true);
  tmesh_splice_broken(&f.sp, 0, tmesh_err_session(TMESH_E_CLOSED)); /* its bytes are still delivered */
  assert_int_equal(f.done_count, 0);
  write_out(&f, 1, 1000);
  assert_int_equal(f.done_count, 1);
  assert_true(tmesh_is_ok(f.why));
  stop(&f);
}

static void cancel_aborts_both_without_on_done(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  tmesh_splice_cancel(&f.sp);
  tmesh_splice_cancel(&f.sp);
  assert_int_equal(f.e[0].abort_count, 1);
  assert_int_equal(f.e[1].abort_count, 1);
  assert_int_equal(f.done_count, 0);
  stop(&f);
}

static void an_end_that_breaks_inside_an_op_ends_it_once(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.e[1].breaks_in_added = true;
  feed(&f, 0, 10);
  assert_int_equal(f.done_count, 1);
  assert_int_equal(f.broken, 1);
  assert_int_equal(f.e[0].abort_count, 1);
  stop(&f);
}

static void cancel_inside_an_op_gives_no_on_done(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.e[1].cancels_in_added = true;
  feed(&f, 0, 10);
  assert_int_equal(f.done_count, 0);
  assert_int_equal(f.e[0].abort_count, 1);
  stop(&f);
}

static void a_full_pool_moves_whole_blocks_by_pointer(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.pool.budget_count = 1;
  feed(&f, 0, 10);
  assert_int_equal(f.done_count, 0);
  assert_int_equal(f.e[1].out.len_bytes, 10);
  stop(&f);
}

/* Ten bytes wait and five have room: a part of a block needs another one. */
static void refuse_a_part(struct fixture* f) {
  f->e[1].room_max = f->e[1].out.len_bytes + 5;
  f->pool.budget_count = f->pool.live_count + 1;
  feed(f, 0, 10);
}

static void a_full_pool_waits_for_bytes_of_its_own_under_way(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  feed(&f, 0, TMESH_BLOCK_BYTES);
  refuse_a_part(&f);
  assert_int_equal(f.done_count, 0);
  assert_int_equal(f.e[0].in.len_bytes, 10);
  f.e[1].room_max = 100000;
  write_out(&f, 1, TMESH_BLOCK_BYTES); /* the next chance */
  assert_int_equal(f.e[0].in.len_bytes, 0);
  assert_int_equal(f.e[1].out.len_bytes, 10);
  stop(&f);
}

static void a_full_pool_waits_for_bytes_of_others_under_way(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  static const uint8_t reply[TMESH_BLOCK_BYTES];
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&f.e[1].out, reply, sizeof reply)));
  tmesh_splice_init(&f.sp, end_of(&f.e[0]), end_of(&f.e[1]), &f, on_done);
  refuse_a_part(&f);
  assert_int_equal(f.done_count, 0);
  f.e[1].room_max = 100000;
  write_out(&f, 1, TMESH_BLOCK_BYTES);
  assert_int_equal(f.e[1].out.len_bytes, 10);
  stop(&f);
}

static void a_full_pool_with_nothing_under_way_ends_the_splice_instead_of_stalling_it(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  refuse_a_part(&f);
  assert_int_equal(f.done_count, 1);
  assert_int_equal(f.why.code, TMESH_E_NO_MEMORY);
  assert_int_equal(f.e[1].abort_count, 1);
  stop(&f);
}

/* An end that has ended both ways may break without harm, but not have its bytes stuck. */
static void a_full_pool_with_nothing_under_way_ends_the_splice_of_a_done_end_too(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.e[1].room_max = 0;
  feed(&f, 0, 10);
  tmesh_splice_eof(&f.sp, 0);
  tmesh_splice_eof(&f.sp, 1);
  tmesh_splice_written(&f.sp, 0, 0, true);
  assert_true(f.sp.ends[0].is_drained);
  f.e[1].room_max = 5;
  f.pool.budget_count = f.pool.live_count;
  tmesh_splice_written(&f.sp, 1, 0, true);
  assert_int_equal(f.done_count, 1);
  assert_int_equal(f.why.code, TMESH_E_NO_MEMORY);
  stop(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_broken_end_aborts_the_other_at_once),
      cmocka_unit_test(what_an_answering_end_sent_before_its_reset_is_written_first_P_B8),
      cmocka_unit_test(a_regular_end_before_the_reset_of_an_answering_end_is_written_too),
      cmocka_unit_test(an_answering_end_that_leaves_does_not_hold_the_other_one),
      cmocka_unit_test(an_answering_end_that_breaks_otherwise_aborts_the_other_at_once),
      cmocka_unit_test(an_end_that_finished_both_ways_may_break_without_harm),
      cmocka_unit_test(cancel_aborts_both_without_on_done),
      cmocka_unit_test(an_end_that_breaks_inside_an_op_ends_it_once),
      cmocka_unit_test(cancel_inside_an_op_gives_no_on_done),
      cmocka_unit_test(a_full_pool_moves_whole_blocks_by_pointer),
      cmocka_unit_test(a_full_pool_waits_for_bytes_of_its_own_under_way),
      cmocka_unit_test(a_full_pool_waits_for_bytes_of_others_under_way),
      cmocka_unit_test(a_full_pool_with_nothing_under_way_ends_the_splice_instead_of_stalling_it),
      cmocka_unit_test(a_full_pool_with_nothing_under_way_ends_the_splice_of_a_done_end_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
