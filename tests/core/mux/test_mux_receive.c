/* Frames of the peer: what ends a stream, what ends the link, what is ignored. */
#include <string.h>

#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static void data_arrives_in_order_and_raises_readable(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  peer_frame(p, TMESH_FRAME_DATA, 1, "hello ", 6);
  peer_frame(p, TMESH_FRAME_DATA, 1, "world", 5);
  assert_int_equal(peer_user(p, 1)->readable_count, 0); /* never inside the receiving call */
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->readable_count, 1);
  char got[12] = {0};
  assert_int_equal(tmesh_chunkq_read(&s->in, got, 11), 11);
  assert_string_equal(got, "hello world");
  assert_int_equal(p->mux.stats.data_bytes_in, 11);
  peer_free(p);
}

static void empty_data_is_harmless(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  peer_frame(p, TMESH_FRAME_DATA, 1, NULL, 0);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->events, 0);
  peer_free(p);
}

static void half_close_raises_readable_with_in_eof(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->readable_count, 1);
  assert_true(s->in_eof);
  assert_int_equal(s->state, TMESH_STREAM_HALF_CLOSED_REMOTE);
  peer_free(p);
}

static void data_after_half_close_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_data(p, 1, 1);
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

static void second_half_close_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

static void exhausted_pool_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  p->pool.budget_count = 1;
  peer_data(p, 2, 100);
  peer_data(p, 1, 100);
  assert_int_equal(peer_user(p, 2)->stream->in.len_bytes, 100);
  peer_expect_reset_of_1(p, TMESH_E_NO_MEMORY);
}

static void reset_ends_the_stream_without_an_answer(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_data(p, 1, 40000);
  tmesh_stream_write(peer_user(p, 1)->stream, "x", 1);
  peer_frame(p, TMESH_FRAME_RESET, 1, "stream rejected", 15);
  assert_int_equal(p->pool.live_count, 0);
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_RESET);
  assert_int_equal(peer_user(p, 1)->events, TMESH_STREAM_EV_OVER); /* it comes alone */
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(p->mux.streams.count, 1);
  peer_free(p);
}

static void late_frames_of_retired_streams_are_ignored_R30(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_flush(p);
  peer_update(p, 1, 1000);
  peer_update(p, 1, 0);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  peer_result(p, 1, tmesh_open_accept());
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(p->mux.stats.late_frames_count, 5);
  assert_int_equal(p->mux.stats.unknown_frames_count, 0);
  peer_update(p, 77, 1);
  assert_int_equal(p->mux.stats.unknown_frames_count, 1);
  peer_free(p);
}

static void reset_for_an_unknown_stream_is_never_answered(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_frame(p, TMESH_FRAME_RESET, 9, NULL, 0);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  peer_free(p);
}

static void data_for_an_unknown_stream_is_reset_once_per_id(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_data(p, 9, 100);
  peer_data(p, 9, 100);
  peer_flush(p);
  peer_data(p, 9, 100);
  peer_data(p, 10, 100);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 9), 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 10), 1);
  assert_int_equal(p->frames_count, 2);
  /* However many ids there are, what waits is bounded; the newest are answered. */
  peer_forget(p);
  for (uint32_t id = 100; id < 200; id++) peer_data(p, id, 1);
  peer_flush(p);
  assert_int_equal(p->frames_count, TMESH_UNKNOWN_RESETS_MAX);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 199), 1);
  peer_free(p);
}

static void a_client_ignores_data_for_an_unknown_stream(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.is_opener = true;
  c.resets_unknown_data = false;
  struct peer* p = peer_new(&c);
  peer_data(p, 9, 100);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  peer_free(p);
}

static void data_in_flight_after_our_reset_is_not_answered_again(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  struct tmesh_stream* s = peer_user(p, 1)->stream;
  tmesh_stream_reset(s); /* its user has not released it yet */
  peer_data(p, 1, 100);
  peer_data(p, 1, 100);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(peer_user(p, 1)->over_count, 0); /* no OVER for who reset it */
  peer_free(p);
}

static void reset_in_the_middle_of_a_data_frame_skips_the_rest(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  struct tmesh_frame_header h = {TMESH_FRAME_DATA, 0, 1, 10, 0};
  assert_true(tmesh_is_ok(tmesh_mux_frame_header(&p->mux, &h)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, (const uint8_t*)"hello", 5)));
  tmesh_stream_release(s);
  peer_user(p, 1)->stream = NULL;
  assert_true(tmesh_is_ok(tmesh_mux_frame_payload(&p->mux, (const uint8_t*)"world", 5)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_end(&p->mux)));
  peer_flush(p);
  peer_free(p);
}

static void control_frames_reach_the_session_complete(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  static uint8_t hello[TMESH_METADATA_MAX_BYTES];
  for (size_t i = 0; i < sizeof hello; i++) hello[i] = (uint8_t)i;
  peer_frame(p, TMESH_FRAME_CLIENT_HELLO, 0, hello, sizeof hello);
  assert_int_equal(p->control_count, 1);
  assert_int_equal(p->last_control_len, sizeof hello);
  assert_memory_equal(p->last_control, hello, sizeof hello);
  peer_frame(p, TMESH_FRAME_PONG, 0, "12345678", 8);
  assert_int_equal(p->pong_count, 1);
  assert_memory_equal(p->last_control, "12345678", 8);
  p->control_answer = tmesh_err_session(TMESH_E_INVALID);
  struct tmesh_status st = peer_frame_status(p, TMESH_FRAME_AGENT_HELLO, 0, 0, 0, "{}", 2);
  assert_int_equal(st.code, TMESH_E_INVALID);
  st = peer_frame_status(p, TMESH_FRAME_PING, 0, 0, 0, NULL, 0); /* the first one stays */
  assert_int_equal(st.code, TMESH_E_INVALID);
  peer_free(p);
}

static void goaway_stops_new_opens_and_nothing_else(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, false, WINDOW);
  peer_frame(p, TMESH_FRAME_GOAWAY, 0, "open limit reached", 18);
  assert_int_equal(p->goaway_count, 1);
  struct tmesh_open_stream o = sample_open();
  struct tmesh_open_params params = {&o, false, 0};
  struct tmesh_status why;
  assert_null(tmesh_mux_open(&p->mux, &params, &why));
  assert_int_equal(why.code, TMESH_E_STATE);
  tmesh_stream_write(u->stream, "x", 1);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, u->id), 1);
  peer_free(p);
}

static void fail_ends_every_stream_once_and_refuses_further_work(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_data(p, 1, 100);
  tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_IO));
  tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_CLOSED));
  tmesh_mux_check(&p->mux);
  assert_int_equal(p->mux.live_count, 0);
  assert_int_equal(p->pool.live_count, 0);
  peer_dispatch(p);
  for (uint32_t id = 1; id <= 2; id++) {
    assert_int_equal(peer_user(p, id)->over_count, 1);
    assert_int_equal(peer_user(p, id)->over.code, TMESH_E_IO);
    assert_int_equal(peer_user(p, id)->over.scope, TMESH_SCOPE_SESSION);
  }
  struct tmesh_sink sink = peer_sink(p);
  assert_int_equal(tmesh_mux_pull(&p->mux, &sink, 1000), 0);
  assert_int_equal(tmesh_mux_control(&p->mux, TMESH_FRAME_PING, NULL, 0).code, TMESH_E_IO);
  assert_int_equal(peer_frame_status(p, TMESH_FRAME_PING, 0, 0, 0, NULL, 0).code, TMESH_E_IO);
  peer_free(p);
}

static void each_stream_gives_its_slot_back_exactly_once_R27(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (uint32_t id = 1; id <= 8; id++) peer_opened(p, id);
  assert_int_equal(p->mux.live_count, 8);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  peer_frame(p, TMESH_FRAME_RESET, 99, NULL, 0);
  assert_int_equal(p->mux.live_count, 7);
  peer_update(p, 2, 0);
  tmesh_stream_reset(peer_user(p, 3)->stream);
  tmesh_stream_reset(peer_user(p, 3)->stream);
  tmesh_stream_release(peer_user(p, 3)->stream);
  peer_user(p, 3)->stream = NULL;
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 4, NULL, 0);
  tmesh_stream_finish(peer_user(p, 4)->stream);
  peer_open(p, 5, TMESH_FLAG_STRICT_OPEN, 0); /* duplicate */
  assert_int_equal(p->mux.live_count, 4);
  peer_flush(p); /* 4 is closed when its HALF_CLOSE leaves */
  assert_int_equal(p->mux.live_count, 3);
  peer_frame(p, TMESH_FRAME_RESET, 4, NULL, 0);
  assert_int_equal(p->mux.live_count, 3);
  tmesh_mux_fail(&p->mux, tmesh_err_session(TMESH_E_CLOSED));
  assert_int_equal(p->mux.live_count, 0);
  peer_dispatch(p);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_arrives_in_order_and_raises_readable),
      cmocka_unit_test(empty_data_is_harmless),
      cmocka_unit_test(half_close_raises_readable_with_in_eof),
      cmocka_unit_test(data_after_half_close_resets_that_stream),
      cmocka_unit_test(second_half_close_resets_that_stream),
      cmocka_unit_test(exhausted_pool_resets_that_stream),
      cmocka_unit_test(reset_ends_the_stream_without_an_answer),
      cmocka_unit_test(late_frames_of_retired_streams_are_ignored_R30),
      cmocka_unit_test(reset_for_an_unknown_stream_is_never_answered),
      cmocka_unit_test(data_for_an_unknown_stream_is_reset_once_per_id),
      cmocka_unit_test(a_client_ignores_data_for_an_unknown_stream),
      cmocka_unit_test(data_in_flight_after_our_reset_is_not_answered_again),
      cmocka_unit_test(reset_in_the_middle_of_a_data_frame_skips_the_rest),
      cmocka_unit_test(control_frames_reach_the_session_complete),
      cmocka_unit_test(goaway_stops_new_opens_and_nothing_else),
      cmocka_unit_test(fail_ends_every_stream_once_and_refuses_further_work),
      cmocka_unit_test(each_stream_gives_its_slot_back_exactly_once_R27),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
