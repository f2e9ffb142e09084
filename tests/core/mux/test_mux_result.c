/* OPEN_RESULT and what may come around it. */
#include <string.h>

#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static void open_stream_towards_an_opener_ends_the_link(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  struct tmesh_status st = peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, 0, 1, 0, "{}", 2);
  assert_int_equal(st.code, TMESH_E_STATE);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  peer_dispatch(p);
  assert_int_equal(u->over_count, 1);
  peer_free(p);
}

static void strict_result_opens_the_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  assert_int_equal(u->stream->state, TMESH_STREAM_OPENING);
  assert_int_equal(tmesh_stream_out_room(u->stream), 0); /* no DATA before accepted (B10) */
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_dispatch(p);
  assert_int_equal(u->result_count, 1);
  assert_true(u->result.accepted);
  assert_int_equal(u->stream->state, TMESH_STREAM_OPEN);
  assert_true(tmesh_stream_out_room(u->stream) > 0);
  peer_free(p);
}

static void refused_result_ends_the_stream_with_result_only(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  peer_forget(p);
  peer_result(p, u->id, tmesh_open_refuse(TMESH_STAGE_CONNECT, TMESH_OPEN_CONNECTION_REFUSED, false));
  peer_flush(p);
  assert_int_equal(u->events, TMESH_STREAM_EV_RESULT);
  assert_false(u->result.accepted);
  assert_int_equal(u->result.code, TMESH_OPEN_CONNECTION_REFUSED);
  assert_true(tmesh_stream_is_over(u->stream->state));
  assert_int_equal(p->mux.live_count, 0);
  tmesh_stream_release(u->stream);
  u->stream = NULL;
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

static void second_open_result_resets_that_stream_B8(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_result(p, u->id, tmesh_open_accept());
  peer_flush(p);
  assert_int_equal(u->over.code, TMESH_E_STATE);
  assert_int_equal(u->result_count, 0); /* OVER came alone */
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, u->id), 1);
  peer_free(p);
}

/* A target that accepts, answers and resets at once: all of it in one read. */
static void an_acceptance_with_an_early_answer_is_told_before_the_reset_P_B8(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_data(p, u->id, 5);
  peer_frame(p, TMESH_FRAME_RESET, u->id, NULL, 0);
  assert_true(tmesh_mux_dispatch(&p->mux));
  assert_int_equal(u->events, TMESH_STREAM_EV_RESULT);
  assert_int_equal(u->stream->in.len_bytes, 5);
  assert_false(tmesh_mux_dispatch(&p->mux));
  assert_int_equal(u->over_count, 1);
  assert_int_equal(u->over.code, TMESH_E_RESET);
  assert_int_equal(u->result_count, 1);
  peer_flush(p);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

static void an_acceptance_and_a_reset_without_an_answer_are_one_end(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_frame(p, TMESH_FRAME_RESET, u->id, NULL, 0);
  peer_flush(p);
  assert_int_equal(u->events, TMESH_STREAM_EV_OVER);
  peer_free(p);
}

static void a_user_that_lets_go_at_the_acceptance_hears_nothing_of_the_reset(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_data(p, u->id, 5);
  peer_frame(p, TMESH_FRAME_RESET, u->id, NULL, 0);
  tmesh_stream_release(u->stream);
  u->stream = NULL;
  assert_false(tmesh_mux_dispatch(&p->mux));
  assert_int_equal(u->events, 0);
  assert_int_equal(p->pool.live_count, 0);
  peer_free(p);
}

static void open_result_for_a_legacy_stream_resets_it(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, false, WINDOW);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_flush(p);
  assert_int_equal(u->over.code, TMESH_E_STATE);
  peer_free(p);
}

static void undecodable_open_result_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  const char* lie = "{\"accepted\":true,\"stage\":\"connect\",\"code\":\"timeout\"}";
  peer_frame(p, TMESH_FRAME_OPEN_RESULT, u->id, lie, strlen(lie));
  peer_flush(p);
  assert_int_equal(u->over.code, TMESH_E_FRAME_PAYLOAD);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, u->id), 1);
  peer_free(p);
}

static void data_before_the_result_resets_a_strict_opener_stream(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  peer_data(p, u->id, 1);
  peer_flush(p);
  assert_int_equal(u->over.code, TMESH_E_STATE);
  peer_free(p);
}

static void open_result_towards_an_acceptor_resets_that_stream(void** state) {
  (void)state;
  struct peer* p = peer_two_streams();
  peer_result(p, 1, tmesh_open_accept());
  peer_expect_reset_of_1(p, TMESH_E_STATE);
}

static void an_answer_before_a_reset_stays_until_the_release_and_a_question_does_not(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, 262144);
  peer_flush(p);
  peer_result(p, u->id, tmesh_open_accept());
  peer_data(p, u->id, 1000);
  peer_frame(p, TMESH_FRAME_RESET, u->id, NULL, 0);
  assert_int_equal(u->stream->state, TMESH_STREAM_RESET);
  assert_int_equal(u->stream->in.len_bytes, 1000);
  peer_dispatch(p); /* the user releases it when it is told */
  assert_int_equal(u->over_count, 1);
  assert_int_equal(p->pool.live_count, 0);
  peer_free(p);

  p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  peer_data(p, 1, 1000);
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  assert_int_equal(s->in.len_bytes, 0);
  peer_dispatch(p);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(open_stream_towards_an_opener_ends_the_link),
      cmocka_unit_test(strict_result_opens_the_stream),
      cmocka_unit_test(refused_result_ends_the_stream_with_result_only),
      cmocka_unit_test(second_open_result_resets_that_stream_B8),
      cmocka_unit_test(an_acceptance_with_an_early_answer_is_told_before_the_reset_P_B8),
      cmocka_unit_test(an_acceptance_and_a_reset_without_an_answer_are_one_end),
      cmocka_unit_test(a_user_that_lets_go_at_the_acceptance_hears_nothing_of_the_reset),
      cmocka_unit_test(open_result_for_a_legacy_stream_resets_it),
      cmocka_unit_test(undecodable_open_result_resets_that_stream),
      cmocka_unit_test(data_before_the_result_resets_a_strict_opener_stream),
      cmocka_unit_test(open_result_towards_an_acceptor_resets_that_stream),
      cmocka_unit_test(an_answer_before_a_reset_stays_until_the_release_and_a_question_does_not),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
