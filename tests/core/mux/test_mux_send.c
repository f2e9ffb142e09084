/* What leaves, and in which order. */
#include <string.h>

#include "scripted_peer.h"

#define WINDOW TMESH_WINDOW_INITIAL_BYTES

static uint8_t bulk[1u << 20];

static void opens_leave_in_id_order_with_flag_and_window(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  peer_start(p, true, WINDOW);
  peer_start(p, false, 0);
  peer_start(p, true, 300000);
  peer_flush(p);
  assert_int_equal(p->frames_count, 3);
  for (uint32_t i = 0; i < 3; i++) {
    assert_int_equal(p->frames[i].header.type, TMESH_FRAME_OPEN_STREAM);
    assert_int_equal(p->frames[i].header.stream_id, i + 1);
  }
  assert_int_equal(p->frames[0].header.flags, TMESH_FLAG_STRICT_OPEN);
  assert_int_equal(p->frames[0].header.window_bytes, WINDOW);
  assert_int_equal(p->frames[1].header.flags, 0);
  assert_int_equal(p->frames[1].header.window_bytes, 0);
  assert_int_equal(p->frames[2].header.window_bytes, 300000);
  struct tmesh_open_stream o;
  assert_true(
      tmesh_is_ok(tmesh_open_stream_decode(&o, p->frames[0].payload, p->frames[0].header.length_bytes)));
  assert_string_equal(o.target_host, "example.test");
  peer_free(p);
}

static void legacy_open_may_send_at_once_behind_its_open(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, false, 0);
  assert_int_equal(u->stream->state, TMESH_STREAM_OPEN);
  assert_int_equal(tmesh_stream_write(u->stream, "GET", 3), 3);
  tmesh_stream_finish(u->stream);
  peer_flush(p);
  assert_int_equal(p->frames[0].header.type, TMESH_FRAME_OPEN_STREAM);
  assert_int_equal(p->frames[1].header.type, TMESH_FRAME_DATA);
  assert_int_equal(p->frames[2].header.type, TMESH_FRAME_HALF_CLOSE);
  peer_free(p);
}

static void open_refuses_what_it_cannot_do(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.is_opener = true;
  c.has_open_result = false;
  c.streams_max = 1;
  struct peer* p = peer_new(&c);
  struct tmesh_open_stream o = sample_open();
  struct tmesh_open_params params = {&o, true, WINDOW};
  struct tmesh_status why;
  assert_null(tmesh_mux_open(&p->mux, &params, &why));
  assert_int_equal(why.code, TMESH_E_UNSUPPORTED); /* strict is not negotiated */
  params.is_strict = false;
  o.target_port = 0;
  assert_null(tmesh_mux_open(&p->mux, &params, &why));
  assert_int_equal(why.code, TMESH_E_INVALID);
  assert_int_equal(why.scope, TMESH_SCOPE_STREAM);
  peer_start(p, false, 0);
  o = sample_open();
  assert_null(tmesh_mux_open(&p->mux, &params, &why));
  assert_int_equal(why.code, TMESH_E_LIMIT);
  p->mux.config.streams_max = 10;
  p->mux.next_id = UINT32_MAX;
  assert_null(tmesh_mux_open(&p->mux, &params, &why));
  assert_int_equal(why.code, TMESH_E_LIMIT);
  peer_free(p);
}

static void windows_are_left_out_on_a_link_without_them(void** state) {
  (void)state;
  struct tmesh_mux_config c = peer_config();
  c.is_opener = true;
  c.has_flow_control = false;
  struct peer* p = peer_new(&c);
  peer_start(p, true, WINDOW);
  peer_flush(p);
  assert_int_equal(p->frames[0].header.window_bytes, 0);
  assert_false(p->users[0].stream->send.is_limited);
  peer_free(p);
}

static void open_not_yet_pulled_and_reset_vanish_together(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_start(p, true, WINDOW);
  tmesh_stream_release(u->stream);
  u->stream = NULL;
  tmesh_mux_check(&p->mux);
  assert_int_equal(p->mux.streams.count, 1);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_OPEN_STREAM, 2), 1);
  peer_free(p);
}

static void open_already_pulled_and_reset_sends_reset(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  peer_flush(p);
  tmesh_stream_release(u->stream);
  u->stream = NULL;
  assert_int_equal(p->mux.streams.count, 1); /* lingers until its RESET was pulled */
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(p->mux.streams.count, 0);
  peer_free(p);
}

static void accepted_result_not_yet_pulled_and_reset_sends_only_reset(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, WINDOW);
  tmesh_stream_reset(peer_user(p, 1)->stream);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_last(p)->header.type, TMESH_FRAME_RESET);
  peer_free(p);
}

static void control_queue_then_pong_then_marks_then_data(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  peer_opened(p, 2);
  tmesh_stream_write(s, bulk, 100);
  tmesh_stream_reset(peer_user(p, 2)->stream);
  peer_data(p, 50, 1); /* unknown stream */
  peer_frame(p, TMESH_FRAME_PING, 0, "abc", 3);
  assert_true(tmesh_is_ok(tmesh_mux_control(&p->mux, TMESH_FRAME_GOAWAY, "bye", 3)));
  peer_flush(p);
  static const unsigned want[] = {TMESH_FRAME_GOAWAY, TMESH_FRAME_PONG, TMESH_FRAME_RESET, TMESH_FRAME_RESET,
                                  TMESH_FRAME_DATA};
  assert_int_equal(p->frames_count, 5);
  for (size_t i = 0; i < 5; i++) assert_int_equal(p->frames[i].header.type, want[i]);
  assert_int_equal(p->frames[2].header.stream_id, 2);
  assert_int_equal(p->frames[3].header.stream_id, 50);
  assert_memory_equal(p->frames[1].payload, "abc", 3);
  peer_free(p);
}

static void half_close_does_not_overtake_data_R29(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  assert_int_equal(tmesh_stream_write(s, bulk, 100000), 100000);
  tmesh_stream_finish(s);
  assert_int_equal(tmesh_stream_out_room(s), 0);
  peer_flush(p);
  size_t sent = 0;
  for (size_t i = 0; i + 1 < p->frames_count; i++) {
    assert_int_equal(p->frames[i].header.type, TMESH_FRAME_DATA);
    assert_memory_equal(p->frames[i].payload, bulk + sent, p->frames[i].header.length_bytes);
    sent += p->frames[i].header.length_bytes;
  }
  assert_int_equal(sent, 100000);
  assert_int_equal(peer_last(p)->header.type, TMESH_FRAME_HALF_CLOSE);
  assert_int_equal(s->state, TMESH_STREAM_HALF_CLOSED_LOCAL);
  assert_true(tmesh_stream_all_written(s));
  peer_free(p);
}

static void finish_is_idempotent_and_waits_for_the_answer(void** state) {
  (void)state;
  struct peer* p = peer_new_opener();
  struct seen* u = peer_start(p, true, WINDOW);
  tmesh_stream_finish(u->stream);
  tmesh_stream_finish(u->stream);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_HALF_CLOSE, 0), 0);
  peer_result(p, u->id, tmesh_open_accept());
  peer_flush(p);
  tmesh_stream_finish(u->stream);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_HALF_CLOSE, 0), 1);
  peer_free(p);
}

static void window_updates_of_a_stream_add_up_Z13(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < 4; i++) peer_data(p, 1, 32768);
    tmesh_chunkq_consume(&s->in, 131072);
    tmesh_stream_consumed(s, 131072);
  }
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_last(p)->header.type, TMESH_FRAME_WINDOW_UPDATE);
  assert_int_equal(peer_last(p)->header.window_bytes, 262144);
  peer_free(p);
}

/* A peer that does not read cannot know of credit that still waits to be pulled. If it
 * could use it, what waits would add up without bound: past 2^32-1 the increment of the
 * pending WINDOW_UPDATE wraps, to a value that no frame may carry. */
static void credit_that_was_not_pulled_yet_cannot_be_used(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  for (int i = 0; i < 4; i++) peer_data(p, 1, 32768);
  tmesh_chunkq_consume(&s->in, WINDOW / 2);
  tmesh_stream_consumed(s, WINDOW / 2);
  for (int i = 0; i < 4; i++) peer_data(p, 1, 32768); /* the half it has known of all along */
  peer_flush(p);
  for (int i = 0; i < 4; i++) peer_data(p, 1, 32768); /* what it was told just now */
  assert_int_equal(p->mux.stats.window_violations_count, 0);
  tmesh_chunkq_consume(&s->in, WINDOW);
  tmesh_stream_consumed(s, WINDOW);
  assert_int_equal(s->update_bytes, WINDOW);
  peer_data(p, 1, 1); /* this update was not pulled */
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_WINDOW_EXCEEDED);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_true(tmesh_is_ok(p->mux.failed));
  peer_free(p);
}

static void no_credit_before_bytes_are_consumed_and_only_at_the_threshold_R2(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  for (int i = 0; i < 6; i++) peer_data(p, 1, 32768);
  tmesh_chunkq_consume(&s->in, 196608); /* taken, but not written anywhere yet */
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  tmesh_stream_consumed(s, 131071);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  tmesh_stream_consumed(s, 1);
  peer_flush(p);
  assert_int_equal(peer_last(p)->header.window_bytes, 131072);
  peer_free(p);
}

static void no_credit_for_a_peer_that_half_closed(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  for (int i = 0; i < 8; i++) peer_data(p, 1, 32768);
  peer_frame(p, TMESH_FRAME_HALF_CLOSE, 1, NULL, 0);
  tmesh_chunkq_consume(&s->in, 262144);
  tmesh_stream_consumed(s, 262144);
  peer_flush(p);
  assert_int_equal(p->frames_count, 0);
  peer_free(p);
}

static void consumed_after_the_end_is_ignored(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  peer_data(p, 1, 1000);
  tmesh_chunkq_consume(&s->in, 1000);
  tmesh_stream_reset(s);
  tmesh_stream_consumed(s, 1000);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_WINDOW_UPDATE, 0), 0);
  peer_free(p);
}

static void small_windows_are_honoured_exactly_R12(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  p->on_open = OPEN_ACCEPT;
  peer_open(p, 1, TMESH_FLAG_STRICT_OPEN, 10);
  peer_flush(p);
  peer_forget(p);
  tmesh_stream_write(peer_user(p, 1)->stream, bulk, 25);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  assert_int_equal(peer_last(p)->header.length_bytes, 10);
  peer_update(p, 1, 1);
  peer_flush(p);
  assert_int_equal(peer_last(p)->header.length_bytes, 1);
  peer_update(p, 1, 100);
  peer_flush(p);
  assert_int_equal(peer_last(p)->header.length_bytes, 14);
  peer_free(p);
}

static void pong_echoes_the_newest_ping(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  for (int i = 0; i < 1000; i++) peer_frame(p, TMESH_FRAME_PING, 0, &i, sizeof i);
  peer_flush(p);
  assert_int_equal(p->frames_count, 1);
  int last;
  memcpy(&last, peer_last(p)->payload, sizeof last);
  assert_int_equal(last, 999);
  peer_frame(p, TMESH_FRAME_PING, 0, bulk, 5000); /* kept up to the advisory limit */
  peer_flush(p);
  assert_int_equal(peer_last(p)->header.length_bytes, TMESH_ADVISORY_MAX_BYTES);
  peer_free(p);
}

static void control_queue_is_bounded_and_its_exhaustion_ends_the_session(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  for (unsigned i = 0; i < TMESH_CONTROL_QUEUE_MAX_FRAMES; i++) {
    assert_true(tmesh_is_ok(tmesh_mux_control(&p->mux, TMESH_FRAME_PING, bulk, i)));
  }
  struct tmesh_status st = tmesh_mux_control(&p->mux, TMESH_FRAME_PING, NULL, 0);
  assert_int_equal(st.code, TMESH_E_CONTROL_EXHAUSTED);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  peer_dispatch(p);
  assert_int_equal(peer_user(p, 1)->over.code, TMESH_E_CONTROL_EXHAUSTED);
  peer_free(p);
}

static void outbound_room_is_bounded_and_at_least_a_window_W1(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  struct tmesh_stream* s = peer_opened(p, 1);
  assert_int_equal(tmesh_stream_out_room(s), 524288);
  assert_int_equal(tmesh_stream_write(s, bulk, sizeof bulk), 524288);
  assert_int_equal(tmesh_stream_out_room(s), 0);
  assert_int_equal(tmesh_stream_write(s, bulk, 1), 0);
  peer_free(p);
}

int main(void) {
  peer_pattern(bulk, sizeof bulk);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(opens_leave_in_id_order_with_flag_and_window),
      cmocka_unit_test(legacy_open_may_send_at_once_behind_its_open),
      cmocka_unit_test(open_refuses_what_it_cannot_do),
      cmocka_unit_test(windows_are_left_out_on_a_link_without_them),
      cmocka_unit_test(open_not_yet_pulled_and_reset_vanish_together),
      cmocka_unit_test(open_already_pulled_and_reset_sends_reset),
      cmocka_unit_test(accepted_result_not_yet_pulled_and_reset_sends_only_reset),
      cmocka_unit_test(control_queue_then_pong_then_marks_then_data),
      cmocka_unit_test(half_close_does_not_overtake_data_R29),
      cmocka_unit_test(finish_is_idempotent_and_waits_for_the_answer),
      cmocka_unit_test(window_updates_of_a_stream_add_up_Z13),
      cmocka_unit_test(credit_that_was_not_pulled_yet_cannot_be_used),
      cmocka_unit_test(no_credit_before_bytes_are_consumed_and_only_at_the_threshold_R2),
      cmocka_unit_test(no_credit_for_a_peer_that_half_closed),
      cmocka_unit_test(consumed_after_the_end_is_ignored),
      cmocka_unit_test(small_windows_are_honoured_exactly_R12),
      cmocka_unit_test(pong_echoes_the_newest_ping),
      cmocka_unit_test(control_queue_is_bounded_and_its_exhaustion_ends_the_session),
      cmocka_unit_test(outbound_room_is_bounded_and_at_least_a_window_W1),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
