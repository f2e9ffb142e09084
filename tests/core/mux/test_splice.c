/* The byte mover: with two ends that only keep notes, and between two streams that are not open yet. */
#include "note_end.h"
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES
#define EARLY TMESH_EARLY_DATA_MAX_BYTES

static const uint8_t bytes[EARLY];

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

/* --- a splice between two ends that are not open yet ---------------------------------- */

struct hub {
  struct peer *in, *out;
  struct tmesh_stream *a, *b; /* NULL when released */
  struct tmesh_splice splice;
  unsigned done_count;
  struct tmesh_status why;
};

static void hub_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
  struct hub* h = ctx;
  (void)sp, (void)broken;
  h->done_count++;
  h->why = why;
}

static void hub_in(void* user, struct tmesh_stream* s, unsigned events) {
  struct hub* h = user;
  tmesh_splice_stream_event(&h->splice, 0, s, events);
}

static void hub_out(void* user, struct tmesh_stream* s, unsigned events) {
  struct hub* h = user;
  if ((events & TMESH_STREAM_EV_RESULT) != 0 && s->result.accepted) tmesh_stream_answer(h->a, &s->result);
  tmesh_splice_stream_event(&h->splice, 1, s, events);
}

/* A hub whose client sent 3,000 early bytes, spliced before anybody answered. */
static struct hub start_hub(bool out_has_early_data) {
  struct hub h = {.in = peer_new_early(false)};
  struct tmesh_mux_config c = peer_config();
  c.is_opener = true;
  c.has_early_data = out_has_early_data;
  h.out = peer_new(&c);
  peer_open(h.in, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(h.in, 1, 3000);
  h.a = peer_stream(h.in, 1);
  h.b = peer_start(h.out, true, WINDOW)->stream;
  /* One process, one pool. */
  h.b->in.pool = h.b->out.pool = &h.in->pool;
  return h;
}

static void splice_hub(struct hub* h) {
  tmesh_stream_attach(h->a, h, hub_in);
  tmesh_stream_attach(h->b, h, hub_out);
  tmesh_splice_init(&h->splice, tmesh_stream_end(h->a), tmesh_stream_end(h->b), h, hub_done);
  tmesh_splice_start(&h->splice);
}

static void stop_hub(struct hub* h) {
  tmesh_splice_cancel(&h->splice);
  peer_user(h->in, 1)->stream = h->a;
  peer_user(h->out, 1)->stream = h->b;
  peer_free(h->out);
  peer_free(h->in);
}

static void a_splice_passes_early_bytes_on_before_any_answer(void** state) {
  (void)state;
  struct hub h = start_hub(true);
  splice_hub(&h);
  peer_flush(h.out);
  assert_int_equal(h.out->mux.stats.data_bytes_out, 3000);
  assert_int_equal(h.a->state, TMESH_STREAM_OPENING);
  assert_int_equal(h.splice.consumed_bytes[0], 3000); /* credit as always: when it left */
  peer_data(h.in, 1, 500);                            /* and those that come later */
  peer_dispatch(h.in);
  peer_flush(h.out);
  assert_int_equal(h.out->mux.stats.data_bytes_out, 3500);
  stop_hub(&h);
}

static void a_splice_holds_early_bytes_for_an_end_without_the_capability_until_its_answer(void** state) {
  (void)state;
  struct hub h = start_hub(false);
  splice_hub(&h);
  peer_flush(h.out);
  assert_int_equal(h.out->mux.stats.data_bytes_out, 0);
  assert_int_equal(h.a->in.len_bytes, 3000);
  peer_result(h.out, 1, tmesh_open_accept());
  peer_flush(h.out);
  peer_flush(h.out);
  assert_int_equal(h.out->mux.stats.data_bytes_out, 3000);
  stop_hub(&h);
}

static void an_answer_wakes_a_splice_that_waits_for_the_end_it_opens(void** state) {
  (void)state;
  struct hub h = start_hub(true);
  splice_hub(&h);
  peer_flush(h.out);
  /* Answered by somebody else than the events above, and only then does the answer come. */
  tmesh_stream_attach(h.b, &h, hub_in);
  struct tmesh_frame_header header = {TMESH_FRAME_DATA, 0, 1, 4, 0};
  h.b->state = TMESH_STREAM_OPEN;
  assert_true(tmesh_is_ok(tmesh_mux_frame_header(&h.out->mux, &header)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&h.out->mux, (const uint8_t*)"late", 4)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_end(&h.out->mux)));
  tmesh_splice_readable(&h.splice, 1);
  assert_int_equal(h.b->in.len_bytes, 4); /* no room: the acceptor is opening */
  peer_flush(h.in);                       /* whatever else might wake it is over */
  h.in->dirty_count = 0;
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(h.a, &ok);
  assert_true(h.in->dirty_count > 0);
  peer_flush(h.in);
  peer_flush(h.in);
  assert_int_equal(h.b->in.len_bytes, 0);
  assert_int_equal(peer_sent(h.in, TMESH_FRAME_DATA, 1), 1);
  stop_hub(&h);
}

static void a_refusal_that_reaches_a_splice_ends_it(void** state) {
  (void)state;
  struct hub h = start_hub(true);
  splice_hub(&h);
  peer_flush(h.out);
  peer_result(h.out, 1, tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false));
  peer_dispatch(h.out);
  assert_int_equal(h.done_count, 1);
  assert_int_equal(h.why.code, TMESH_E_REFUSED);
  peer_flush(h.in);
  assert_int_equal(peer_sent(h.in, TMESH_FRAME_RESET, 1), 1);
  stop_hub(&h);
}

static void a_user_that_answers_first_turns_a_refusal_into_an_open_result(void** state) {
  (void)state;
  struct hub h = start_hub(true);
  splice_hub(&h);
  peer_flush(h.out);
  struct tmesh_open_result no = tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, false);
  tmesh_stream_answer(h.a, &no);
  tmesh_splice_cancel(&h.splice);
  peer_flush(h.in);
  assert_int_equal(h.in->frames_count, 1);
  assert_int_equal(peer_last(h.in)->header.type, TMESH_FRAME_OPEN_RESULT);
  assert_int_equal(h.in->pool.live_count, 0);
  stop_hub(&h);
}

static void a_full_pool_holds_early_bytes_until_the_answer(void** state) {
  (void)state;
  struct hub h = start_hub(true);
  peer_data(h.in, 1, EARLY - 3000);
  tmesh_stream_write(h.b, bytes, 1000);
  peer_flush(h.out);
  h.in->pool.budget_count = h.in->pool.live_count;
  splice_hub(&h); /* 16,384 bytes wait in one block, 15,384 have room */
  assert_int_equal(h.done_count, 0);
  assert_int_equal(h.a->in.len_bytes, EARLY);
  peer_result(h.out, 1, tmesh_open_accept());
  peer_flush(h.out);
  assert_int_equal(h.a->in.len_bytes, 0);
  stop_hub(&h);
}

/* A target that answers and resets at once: answer, bytes and RESET come in one read. */
static void an_answer_with_its_bytes_and_a_reset_passes_a_splice_that_was_there_before(void** state) {
  (void)state;
  struct hub h = start_hub(true);
  splice_hub(&h);
  peer_flush(h.out);
  peer_result(h.out, 1, tmesh_open_accept());
  peer_data(h.out, 1, 700);
  peer_frame(h.out, TMESH_FRAME_RESET, 1, NULL, 0);
  while (tmesh_mux_dispatch(&h.out->mux)) {
  }
  assert_int_equal(h.done_count, 0); /* the bytes are not written yet */
  peer_flush(h.in);
  peer_flush(h.in);
  assert_int_equal(peer_sent(h.in, TMESH_FRAME_DATA, 1), 1);
  assert_int_equal(peer_sent(h.in, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(h.in->mux.stats.data_bytes_out, 700);
  assert_int_equal(h.done_count, 1);
  assert_int_equal(h.why.code, TMESH_E_RESET);
  stop_hub(&h);
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
      cmocka_unit_test(a_splice_passes_early_bytes_on_before_any_answer),
      cmocka_unit_test(a_splice_holds_early_bytes_for_an_end_without_the_capability_until_its_answer),
      cmocka_unit_test(an_answer_wakes_a_splice_that_waits_for_the_end_it_opens),
      cmocka_unit_test(a_refusal_that_reaches_a_splice_ends_it),
      cmocka_unit_test(a_user_that_answers_first_turns_a_refusal_into_an_open_result),
      cmocka_unit_test(a_full_pool_holds_early_bytes_until_the_answer),
      cmocka_unit_test(an_answer_with_its_bytes_and_a_reset_passes_a_splice_that_was_there_before),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
