/* The byte mover, with two ends that only keep notes. */
#include <string.h>

#include "core/mux/splice.h"
#include "scripted_peer.h"

struct note_end {
  struct tmesh_chunkq in, out;
  size_t room_max;
  bool is_closed_for_writing;
  unsigned added_count, finish_count, abort_count;
  size_t consumed_bytes;
  /* raised from inside an op, to test re-entrancy */
  struct tmesh_splice* nested;
  int nested_end;
  bool breaks_in_added, writes_in_added, cancels_in_added;
};

static size_t room(void* impl) {
  struct note_end* e = impl;
  return e->is_closed_for_writing || e->out.len_bytes >= e->room_max ? 0 : e->room_max - e->out.len_bytes;
}
static void added(void* impl) {
  struct note_end* e = impl;
  e->added_count++;
  if (e->breaks_in_added) tmesh_splice_broken(e->nested, e->nested_end, tmesh_err_stream(TMESH_E_IO));
  if (e->cancels_in_added) tmesh_splice_cancel(e->nested);
  if (e->writes_in_added) {
    size_t n = e->out.len_bytes;
    tmesh_chunkq_clear(&e->out);
    tmesh_splice_written(e->nested, e->nested_end, n, true);
  }
}
static void finish(void* impl) {
  ((struct note_end*)impl)->finish_count++;
}
static void consumed(void* impl, size_t n) {
  ((struct note_end*)impl)->consumed_bytes += n;
}
static void abort_end(void* impl) {
  ((struct note_end*)impl)->abort_count++;
}
static const struct tmesh_end_ops ops = {room, added, finish, consumed, abort_end};

struct fixture {
  struct tmesh_pool pool;
  struct note_end e[2];
  struct tmesh_splice sp;
  unsigned done_count;
  struct tmesh_status why;
  int broken;
};

static void on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
  struct fixture* f = ctx;
  assert_ptr_equal(sp, &f->sp);
  f->done_count++;
  f->why = why;
  f->broken = broken;
  memset(sp, 0xa5, sizeof *sp); /* the owner may free it here: nobody may look at it again */
  sp->is_done = true;
}

static struct tmesh_end end_of(struct note_end* e) {
  return (struct tmesh_end){.ops = &ops, .impl = e, .in = &e->in, .out = &e->out};
}

static void start(struct fixture* f) {
  memset(f, 0, sizeof *f);
  tmesh_pool_init(&f->pool, 8u << 20, 0);
  for (int i = 0; i < 2; i++) {
    tmesh_chunkq_init(&f->e[i].in, &f->pool);
    tmesh_chunkq_init(&f->e[i].out, &f->pool);
    f->e[i].room_max = 100000;
    f->e[i].nested = &f->sp;
    f->e[i].nested_end = i;
  }
  tmesh_splice_init(&f->sp, end_of(&f->e[0]), end_of(&f->e[1]), f, on_done);
}

static void stop(struct fixture* f) {
  for (int i = 0; i < 2; i++) {
    tmesh_chunkq_clear(&f->e[i].in);
    tmesh_chunkq_clear(&f->e[i].out);
  }
  assert_int_equal(f->pool.live_count, 0);
  tmesh_pool_close(&f->pool);
}

static void feed(struct fixture* f, int i, size_t n) {
  static const uint8_t zeros[65536];
  while (n > 0) {
    size_t part = n < sizeof zeros ? n : sizeof zeros;
    assert_true(tmesh_is_ok(tmesh_chunkq_append(&f->e[i].in, zeros, part)));
    n -= part;
  }
  tmesh_splice_readable(&f->sp, i);
}

static void write_out(struct fixture* f, int i, size_t n) {
  tmesh_chunkq_consume(&f->e[i].out, n);
  tmesh_splice_written(&f->sp, i, n, f->e[i].out.len_bytes == 0);
}

static void bytes_move_as_far_as_there_is_room_and_the_rest_stays(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  feed(&f, 0, 150000);
  assert_int_equal(f.e[1].out.len_bytes, 100000);
  assert_int_equal(f.e[0].in.len_bytes, 50000);
  assert_int_equal(f.e[1].added_count, 1);
  write_out(&f, 1, 30000);
  assert_int_equal(f.e[1].out.len_bytes, 100000);
  assert_int_equal(f.e[0].in.len_bytes, 20000);
  tmesh_splice_check(&f.sp);
  stop(&f);
}

static void consumed_follows_written_and_nothing_else_R1_R2(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  feed(&f, 0, 50000);
  assert_int_equal(f.e[0].consumed_bytes, 0); /* moved is not written */
  write_out(&f, 1, 20000);
  assert_int_equal(f.e[0].consumed_bytes, 20000);
  write_out(&f, 1, 30000);
  assert_int_equal(f.e[0].consumed_bytes, 50000);
  assert_int_equal(f.e[1].consumed_bytes, 0); /* per direction */
  stop(&f);
}

static void bytes_that_did_not_come_through_the_splice_are_not_consumed(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&f.e[1].out, "HTTP/1.1 200\r\n\r\n", 16)));
  tmesh_splice_init(&f.sp, end_of(&f.e[0]), end_of(&f.e[1]), &f, on_done);
  tmesh_splice_start(&f.sp);
  feed(&f, 0, 100);
  write_out(&f, 1, 10);
  assert_int_equal(f.e[0].consumed_bytes, 0);
  write_out(&f, 1, 106);
  assert_int_equal(f.e[0].consumed_bytes, 100);
  stop(&f);
}

static void start_moves_what_waited(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&f.e[0].in, "abc", 3)));
  struct tmesh_end a = end_of(&f.e[0]);
  a.in_eof = true;
  tmesh_splice_init(&f.sp, a, end_of(&f.e[1]), &f, on_done);
  tmesh_splice_start(&f.sp);
  assert_int_equal(f.e[1].out.len_bytes, 3);
  assert_int_equal(f.e[1].finish_count, 1);
  stop(&f);
}

static void half_close_follows_the_last_byte(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  feed(&f, 0, 150000);
  tmesh_splice_eof(&f.sp, 0);
  assert_int_equal(f.e[1].finish_count, 0); /* bytes wait before it */
  write_out(&f, 1, 100000);
  assert_int_equal(f.e[1].finish_count, 1);
  tmesh_splice_eof(&f.sp, 0);
  assert_int_equal(f.e[1].finish_count, 1);
  stop(&f);
}

static void the_other_direction_goes_on_after_a_half_close_R6(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  tmesh_splice_eof(&f.sp, 0);
  tmesh_splice_written(&f.sp, 1, 0, true);
  assert_int_equal(f.done_count, 0);
  feed(&f, 1, 90000);
  write_out(&f, 0, 90000);
  assert_int_equal(f.e[1].consumed_bytes, 90000);
  assert_int_equal(f.done_count, 0);
  tmesh_splice_eof(&f.sp, 1);
  assert_int_equal(f.e[0].finish_count, 1);
  assert_int_equal(f.done_count, 0); /* the FIN itself is not written yet */
  tmesh_splice_written(&f.sp, 0, 0, true);
  assert_int_equal(f.done_count, 1);
  assert_true(tmesh_is_ok(f.why));
  assert_int_equal(f.broken, -1);
  assert_int_equal(f.e[0].abort_count + f.e[1].abort_count, 0);
  stop(&f);
}

static void written_before_finish_does_not_count_as_drained(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  feed(&f, 0, 10);
  write_out(&f, 1, 10); /* all written, but more may come */
  tmesh_splice_eof(&f.sp, 0);
  tmesh_splice_eof(&f.sp, 1);
  tmesh_splice_written(&f.sp, 0, 0, true);
  assert_int_equal(f.done_count, 0);
  tmesh_splice_written(&f.sp, 1, 0, true);
  assert_int_equal(f.done_count, 1);
  stop(&f);
}

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

static void an_end_that_writes_synchronously_keeps_the_flow_going(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.e[1].room_max = 1000;
  f.e[1].writes_in_added = true;
  feed(&f, 0, 100000);
  assert_int_equal(f.e[0].in.len_bytes, 0);
  assert_int_equal(f.e[0].consumed_bytes, 100000);
  tmesh_splice_check(&f.sp);
  stop(&f);
}

static void a_closed_end_takes_nothing_and_loses_nothing(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.e[1].is_closed_for_writing = true;
  feed(&f, 0, 10);
  assert_int_equal(f.e[0].in.len_bytes, 10);
  assert_int_equal(f.e[1].added_count, 0);
  stop(&f);
}

static void a_pool_that_refuses_ends_the_splice_instead_of_stalling_it(void** state) {
  (void)state;
  struct fixture f;
  start(&f);
  f.pool.budget_count = 1;
  feed(&f, 0, 10); /* the one block holds them; the other queue gets none */
  assert_int_equal(f.done_count, 1);
  assert_int_equal(f.why.code, TMESH_E_NO_MEMORY);
  assert_int_equal(f.e[1].abort_count, 1);
  stop(&f);
  /* With bytes of ours under way their written event is the next chance: no error. */
  start(&f);
  feed(&f, 0, 10);
  f.e[1].out.tail->begin_bytes = f.e[1].out.tail->end_bytes = 0;
  f.e[1].out.len_bytes = 0;
  tmesh_chunkq_clear(&f.e[1].out);
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&f.e[0].in, "x", 1)));
  f.pool.budget_count = 1;
  tmesh_splice_readable(&f.sp, 0);
  assert_int_equal(f.done_count, 0);
  f.pool.budget_count = 8;
  tmesh_splice_written(&f.sp, 1, 10, true);
  assert_int_equal(f.e[0].in.len_bytes, 0);
  stop(&f);
}

static void stream_events_drive_a_splice(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  struct fixture f;
  start(&f);
  /* The stream's queues belong to the peer's pool; the other end uses the same. */
  struct note_end* other = &f.e[1];
  tmesh_chunkq_init(&other->in, &p->pool);
  tmesh_chunkq_init(&other->out, &p->pool);
  assert_int_equal(tmesh_stream_write(s, "hi", 2), 2); /* said before the splice */
  tmesh_splice_init(&f.sp, tmesh_stream_end(s), end_of(other), &f, on_done);
  tmesh_splice_start(&f.sp);
  peer_data(p, 1, 1000);
  tmesh_splice_stream_event(&f.sp, 0, s, TMESH_STREAM_EV_READABLE);
  assert_int_equal(other->out.len_bytes, 1000);
  assert_int_equal(s->recv.consumed_bytes, 0);
  tmesh_chunkq_consume(&other->out, 1000);
  tmesh_splice_written(&f.sp, 1, 1000, true);
  assert_int_equal(s->recv.consumed_bytes, 1000);
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&other->in, "answer", 6)));
  tmesh_splice_readable(&f.sp, 1);
  s->written_bytes = 8; /* as the mux reports it while dispatching */
  tmesh_chunkq_consume(&s->out, 8);
  tmesh_fair_writer_update(&p->mux.writer, s);
  tmesh_splice_stream_event(&f.sp, 0, s, TMESH_STREAM_EV_WRITTEN);
  s->written_bytes = 0;
  assert_int_equal(other->consumed_bytes, 6);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  tmesh_splice_stream_event(&f.sp, 0, s, TMESH_STREAM_EV_READABLE);
  assert_int_equal(other->finish_count, 1);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  tmesh_splice_stream_event(&f.sp, 0, s, TMESH_STREAM_EV_OVER);
  assert_int_equal(f.done_count, 1);
  assert_int_equal(f.why.code, TMESH_E_RESET);
  assert_int_equal(other->abort_count, 1);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_move_as_far_as_there_is_room_and_the_rest_stays),
      cmocka_unit_test(consumed_follows_written_and_nothing_else_R1_R2),
      cmocka_unit_test(bytes_that_did_not_come_through_the_splice_are_not_consumed),
      cmocka_unit_test(start_moves_what_waited),
      cmocka_unit_test(half_close_follows_the_last_byte),
      cmocka_unit_test(the_other_direction_goes_on_after_a_half_close_R6),
      cmocka_unit_test(written_before_finish_does_not_count_as_drained),
      cmocka_unit_test(a_broken_end_aborts_the_other_at_once),
      cmocka_unit_test(what_an_answering_end_sent_before_its_reset_is_written_first_P_B8),
      cmocka_unit_test(a_regular_end_before_the_reset_of_an_answering_end_is_written_too),
      cmocka_unit_test(an_answering_end_that_leaves_does_not_hold_the_other_one),
      cmocka_unit_test(an_answering_end_that_breaks_otherwise_aborts_the_other_at_once),
      cmocka_unit_test(an_end_that_finished_both_ways_may_break_without_harm),
      cmocka_unit_test(cancel_aborts_both_without_on_done),
      cmocka_unit_test(an_end_that_breaks_inside_an_op_ends_it_once),
      cmocka_unit_test(cancel_inside_an_op_gives_no_on_done),
      cmocka_unit_test(an_end_that_writes_synchronously_keeps_the_flow_going),
      cmocka_unit_test(a_closed_end_takes_nothing_and_loses_nothing),
      cmocka_unit_test(a_pool_that_refuses_ends_the_splice_instead_of_stalling_it),
      cmocka_unit_test(stream_events_drive_a_splice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
