/* Early data: DATA between OPEN_STREAM and OPEN_RESULT (stream_early_data.v1, WIRE E). */
#include "core/mux/splice.h"
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES
#define EARLY TMESH_EARLY_DATA_MAX_BYTES

static struct peer* new_peer(bool is_opener) {
  struct tmesh_mux_config c = peer_config();
  c.is_opener = is_opener;
  c.has_early_data = true;
  c.peer_is_ours = true;
  return peer_new(&c);
}

static const uint8_t bytes[2 * EARLY];

/* --- opener -------------------------------------------------------------------------- */

static void an_opener_has_room_for_16_KiB_while_opening(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  struct seen* u = peer_start(p, true, WINDOW);
  assert_int_equal(tmesh_stream_out_room(u->stream), EARLY);
  assert_int_equal(tmesh_stream_write(u->stream, bytes, 1000), 1000);
  assert_int_equal(tmesh_stream_out_room(u->stream), EARLY - 1000);
  peer_flush(p);
  assert_int_equal(tmesh_stream_out_room(u->stream), EARLY - 1000); /* what was sent counts */
  assert_int_equal(tmesh_stream_write(u->stream, bytes, sizeof bytes), EARLY - 1000);
  assert_int_equal(tmesh_stream_out_room(u->stream), 0);
  peer_flush(p);
  assert_int_equal(tmesh_stream_out_room(u->stream), 0);
  assert_int_equal(u->written_bytes, EARLY);
  assert_int_equal(p->mux.stats.data_bytes_out, EARLY);
  peer_free(p);
}

static void open_stream_goes_before_its_early_data(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  for (int i = 0; i < 3; i++) tmesh_stream_write(peer_start(p, true, WINDOW)->stream, bytes, 100);
  peer_flush(p);
  assert_int_equal(p->frames_count, 6);
  for (uint32_t id = 1; id <= 3; id++) {
    size_t open_at = 0, data_at = 0;
    for (size_t i = 0; i < p->frames_count; i++) {
      if (p->frames[i].header.stream_id != id) continue;
      if (p->frames[i].header.type == TMESH_FRAME_OPEN_STREAM) open_at = i;
      if (p->frames[i].header.type == TMESH_FRAME_DATA) data_at = i;
    }
    assert_true(open_at < data_at);
  }
  peer_free(p);
}

static void early_data_stays_inside_the_window(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  struct seen* u = peer_start(p, true, WINDOW);
  u->stream->send.credit_bytes = 5000; /* as if the peer's first window were this small */
  tmesh_stream_write(u->stream, bytes, EARLY);
  peer_flush(p);
  assert_int_equal(p->mux.stats.data_bytes_out, 5000);
  peer_update(p, u->id, 4000);
  peer_flush(p);
  assert_int_equal(p->mux.stats.data_bytes_out, 9000);
  peer_free(p);
}

static void half_close_waits_for_the_answer(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  struct seen* u = peer_start(p, true, WINDOW);
  tmesh_stream_write(u->stream, bytes, 100);
  tmesh_stream_finish(u->stream);
  assert_int_equal(tmesh_stream_out_room(u->stream), 0);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 0), 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_HALF_CLOSE, 0), 0);
  peer_result(p, u->id, tmesh_open_accept());
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_HALF_CLOSE, 0), 1);
  peer_free(p);
}

static void the_answer_opens_the_rest_of_the_queue(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  struct seen* u = peer_start(p, true, WINDOW);
  tmesh_stream_write(u->stream, bytes, EARLY);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  assert_int_equal(tmesh_stream_out_room(u->stream), p->mux.config.outbound_max_bytes);
  tmesh_stream_write(u->stream, bytes, sizeof bytes);
  peer_flush(p);
  assert_int_equal(p->mux.stats.data_bytes_out, EARLY + sizeof bytes);
  peer_free(p);
}

static void a_refusal_drops_what_did_not_leave_and_frees_it(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  tmesh_stream_write(u->stream, bytes, 1000);
  peer_result(p, u->id, tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  assert_int_equal(p->pool.live_count, 0);
  peer_forget(p);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(u->events, TMESH_STREAM_EV_RESULT);
  peer_free(p);
}

static void a_refusal_while_a_batch_with_early_data_is_written_is_harmless(void** state) {
  (void)state;
  struct peer* p = new_peer(true);
  struct seen* u = peer_start(p, true, WINDOW);
  tmesh_stream_write(u->stream, bytes, 1000);
  struct tmesh_sink sink = peer_sink(p);
  tmesh_mux_pull(&p->mux, &sink, 65536);
  peer_result(p, u->id, tmesh_open_refuse(TMESH_STAGE_QUEUE, TMESH_OPEN_QUEUE_FULL, true));
  tmesh_mux_written(&p->mux);
  peer_flush(p);
  assert_int_equal(u->written_bytes, 0);
  peer_free(p);
}

static void without_the_capability_nothing_is_early(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  assert_int_equal(tmesh_stream_out_room(u->stream), 0);
  p->mux.config.has_early_data = true; /* the ack was read: streams keep what they began with */
  assert_int_equal(tmesh_stream_out_room(u->stream), 0);
  assert_int_equal(tmesh_stream_out_room(peer_start(p, true, WINDOW)->stream), EARLY);
  peer_free(p);
}

/* --- acceptor ------------------------------------------------------------------------- */

static void an_acceptor_keeps_16_KiB_while_opening_and_tells_its_user(void** state) {
  (void)state;
  struct peer* p = new_peer(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 10000);
  peer_data(p, 1, EARLY - 10000);
  peer_dispatch(p);
  struct seen* u = peer_user(p, 1);
  assert_int_equal(u->readable_count, 1);
  assert_int_equal(u->stream->state, TMESH_STREAM_OPENING);
  assert_int_equal(u->stream->in.len_bytes, EARLY);
  assert_int_equal(u->stream->recv.credit_bytes, WINDOW - EARLY);
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(u->stream, &ok);
  peer_data(p, 1, TMESH_DATA_MAX_BYTES); /* no limit but the window any more */
  assert_int_equal(u->stream->in.len_bytes, EARLY + TMESH_DATA_MAX_BYTES);
  peer_free(p);
}

static void more_early_data_than_allowed_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = new_peer(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, EARLY);
  /* Also when the first of it was consumed: 16 KiB are all there is. */
  tmesh_chunkq_consume(&peer_user(p, 1)->stream->in, EARLY);
  tmesh_stream_consumed(peer_user(p, 1)->stream, EARLY);
  peer_data(p, 1, 1);
  assert_int_equal(p->mux.stats.protocol_resets_count, 1);
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

static void without_the_capability_early_data_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 1);
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

/* A legacy opener does not know that anybody opens: its bytes wait within their own bound. */
static void a_legacy_open_is_not_held_to_the_limit_of_early_data(void** state) {
  (void)state;
  struct peer* p = new_peer(false);
  peer_open(p, 1, 0, WINDOW);
  for (int i = 0; i < 4; i++) peer_data(p, 1, TMESH_DATA_MAX_BYTES);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->over_count, 0);
  assert_int_equal(peer_user(p, 1)->stream->in.len_bytes, 4 * TMESH_DATA_MAX_BYTES);
  peer_free(p);
}

static void half_close_while_opening_still_resets_a_strict_stream(void** state) {
  (void)state;
  struct peer* p = new_peer(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 10);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

static void a_refused_open_drops_its_early_bytes_and_ignores_those_under_way(void** state) {
  (void)state;
  struct peer* p = new_peer(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 5000);
  struct tmesh_open_result no = tmesh_open_refuse(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false);
  tmesh_stream_answer(peer_user(p, 1)->stream, &no);
  assert_int_equal(p->pool.live_count, 0);
  peer_data(p, 1, 100);
  peer_flush(p);
  peer_data(p, 1, 100);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_last(p)->header.type, TMESH_FRAME_OPEN_RESULT);
  assert_int_equal(peer_user(p, 1)->over_count, 0);
  peer_free(p);
}

static void early_data_of_an_open_nobody_took_is_ignored(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.has_early_data = true;
  c.streams_max = 1;
  struct peer* p = peer_new(&c);
  peer_opened(p, 1);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW); /* queue_full */
  peer_data(p, 2, 5000);
  peer_flush(p);
  peer_data(p, 2, 5000);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_last(p)->header.type, TMESH_FRAME_OPEN_RESULT);
  assert_int_equal(p->pool.live_count, 0);
  peer_free(p);
}

static void a_reset_while_opening_drops_early_bytes(void** state) {
  (void)state;
  struct peer* p = new_peer(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 5000);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  assert_int_equal(p->pool.live_count, 0);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_RESET);
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

static void on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
  struct hub* h = ctx;
  (void)sp, (void)broken;
  h->done_count++;
  h->why = why;
}

static void on_in(void* user, struct tmesh_stream* s, unsigned events) {
  struct hub* h = user;
  tmesh_splice_stream_event(&h->splice, 0, s, events);
}

static void on_out(void* user, struct tmesh_stream* s, unsigned events) {
  struct hub* h = user;
  if ((events & TMESH_STREAM_EV_RESULT) != 0 && s->result.accepted) tmesh_stream_answer(h->a, &s->result);
  tmesh_splice_stream_event(&h->splice, 1, s, events);
}

/* A hub whose client sent 3,000 early bytes, spliced before anybody answered. */
static struct hub start_hub(bool out_has_early_data) {
  struct hub h = {.in = new_peer(false)};
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
  tmesh_stream_attach(h->a, h, on_in);
  tmesh_stream_attach(h->b, h, on_out);
  tmesh_splice_init(&h->splice, tmesh_stream_end(h->a), tmesh_stream_end(h->b), h, on_done);
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
  tmesh_stream_attach(h.b, &h, on_in);
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
      cmocka_unit_test(an_opener_has_room_for_16_KiB_while_opening),
      cmocka_unit_test(open_stream_goes_before_its_early_data),
      cmocka_unit_test(early_data_stays_inside_the_window),
      cmocka_unit_test(half_close_waits_for_the_answer),
      cmocka_unit_test(the_answer_opens_the_rest_of_the_queue),
      cmocka_unit_test(a_refusal_drops_what_did_not_leave_and_frees_it),
      cmocka_unit_test(a_refusal_while_a_batch_with_early_data_is_written_is_harmless),
      cmocka_unit_test(without_the_capability_nothing_is_early),
      cmocka_unit_test(an_acceptor_keeps_16_KiB_while_opening_and_tells_its_user),
      cmocka_unit_test(more_early_data_than_allowed_resets_that_stream),
      cmocka_unit_test(without_the_capability_early_data_resets_that_stream),
      cmocka_unit_test(a_legacy_open_is_not_held_to_the_limit_of_early_data),
      cmocka_unit_test(half_close_while_opening_still_resets_a_strict_stream),
      cmocka_unit_test(a_refused_open_drops_its_early_bytes_and_ignores_those_under_way),
      cmocka_unit_test(early_data_of_an_open_nobody_took_is_ignored),
      cmocka_unit_test(a_reset_while_opening_drops_early_bytes),
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
