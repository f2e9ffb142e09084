/* DATA between OPEN_STREAM and its answer: early data (stream_early_data.v1, WIRE E), and without it. */
#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES
#define EARLY TMESH_EARLY_DATA_MAX_BYTES

static const uint8_t bytes[2 * EARLY];

/* --- opener -------------------------------------------------------------------------- */

static void an_opener_has_room_for_16_KiB_while_opening(void** state) {
  (void)state;
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(true);
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
  struct peer* p = peer_new_early(false);
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
  struct peer* p = peer_new_early(false);
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

static void legacy_data_before_the_answer_waits_in_the_inbound_queue_C9(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_open(p, 1, 0, 0);
  peer_data(p, 1, 30000);
  peer_data(p, 1, 10000);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  peer_flush(p);
  assert_int_equal(s->state, TMESH_STREAM_OPENING);
  assert_int_equal(s->in.len_bytes, 40000);
  assert_true(s->in_eof);
  struct tmesh_open_result ok = tmesh_open_accept();
  tmesh_stream_answer(s, &ok);
  assert_int_equal(s->state, TMESH_STREAM_HALF_CLOSED_REMOTE);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  peer_free(p);
}

static void legacy_data_after_its_half_close_resets_even_while_opening(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_open(p, 1, 0, 0);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_data(p, 1, 1);
  peer_open(p, 2, 0, 0);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 2, NULL, 0);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 2, NULL, 0);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_STATE);
  assert_int_equal(peer_user(p, 2)->over.code, TMESH_E_STATE);
  peer_free(p);
}

static void strict_data_before_the_answer_resets_that_stream_C7(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 3, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 1);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 2, NULL, 0);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_STATE);
  assert_int_equal(peer_user(p, 2)->over.code, TMESH_E_STATE);
  assert_int_equal(peer_user(p, 3)->over_count, 0);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 0), 2);
  peer_free(p);
}

/* A legacy opener does not know that anybody opens: its bytes wait within their own bound. */
static void a_legacy_open_is_not_held_to_the_limit_of_early_data(void** state) {
  (void)state;
  struct peer* p = peer_new_early(false);
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
  struct peer* p = peer_new_early(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_open(p, 2, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 10);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

static void a_refused_open_drops_its_early_bytes_and_ignores_those_under_way(void** state) {
  (void)state;
  struct peer* p = peer_new_early(false);
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
  struct peer* p = peer_new_early(false);
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  peer_data(p, 1, 5000);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  assert_int_equal(p->pool.live_count, 0);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_RESET);
  peer_free(p);
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
      cmocka_unit_test(legacy_data_before_the_answer_waits_in_the_inbound_queue_C9),
      cmocka_unit_test(legacy_data_after_its_half_close_resets_even_while_opening),
      cmocka_unit_test(strict_data_before_the_answer_resets_that_stream_C7),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
