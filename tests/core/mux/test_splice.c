/* The byte mover, with two ends that only keep notes. */
#include "note_end.h"
#include "scripted_peer.h"

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
      cmocka_unit_test(an_end_that_writes_synchronously_keeps_the_flow_going),
      cmocka_unit_test(a_closed_end_takes_nothing_and_loses_nothing),
      cmocka_unit_test(stream_events_drive_a_splice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
