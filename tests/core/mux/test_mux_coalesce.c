/* Small writes towards a server that holds at most 16 DATA frames of a stream (LESSONS Z3). */
#include "scripted_peer.h"

#define WAIT_US 5000u

static struct peer* start(uint32_t coalesce_us) {
  struct tmesh_mux_config c = peer_config();
  c.coalesce_us = coalesce_us;
  struct peer* p = peer_new(&c);
  tmesh_mux_set_time(&p->mux, 1000000);
  peer_opened(p, 1);
  return p;
}

static void say(struct peer* p, uint32_t id, const char* text) {
  assert_int_equal(tmesh_stream_write(peer_user(p, id)->stream, text, 1), 1);
  tmesh_mux_check(&p->mux);
}

static void pass(struct peer* p, uint64_t us) {
  tmesh_mux_set_time(&p->mux, p->mux.now_us + us);
  tmesh_mux_check(&p->mux);
}

static void a_write_after_silence_leaves_at_once(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  for (int i = 1; i <= 5; i++) {
    say(p, 1, "x");
    peer_flush(p);
    assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), i);
    pass(p, WAIT_US);
  }
  peer_free(p);
}

static void what_follows_within_5_ms_waits_and_leaves_in_one_frame(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  say(p, 1, "a");
  peer_flush(p);
  assert_true(tmesh_mux_due_us(&p->mux) == UINT64_MAX);
  pass(p, 1000);
  p->dirty_count = 0;
  say(p, 1, "b");
  assert_false(tmesh_mux_has_output(&p->mux));
  assert_true(p->dirty_count > 0); /* the link has to see when they are due */
  assert_int_equal(tmesh_mux_due_us(&p->mux),
                   1000000 + WAIT_US); /* after the last frame, not after the write */
  pass(p, 3999);
  say(p, 1, "c");
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 1);
  p->dirty_count = 0;
  pass(p, 1);
  assert_true(p->dirty_count > 0); /* the link is woken */
  assert_true(tmesh_mux_due_us(&p->mux) == UINT64_MAX);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 2);
  assert_memory_equal(peer_last(p)->payload, "bc", 2);
  peer_free(p);
}

static void a_stream_of_tiny_writes_becomes_one_frame_per_5_ms(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  for (int i = 0; i < 1000; i++) { /* a second */
    say(p, 1, "x");
    peer_flush(p);
    pass(p, 1000);
  }
  pass(p, WAIT_US);
  peer_flush(p);
  assert_in_range(peer_sent(p, TMESH_FRAME_DATA, 1), 190, 202);
  assert_int_equal(p->mux.stats.data_bytes_out, 1000);
  peer_free(p);
}

static void bytes_worth_a_frame_do_not_wait(void** state) {
  (void)state;
  static const uint8_t bytes[TMESH_COALESCE_BELOW_BYTES];
  struct peer* p = start(WAIT_US);
  peer_user(p, 1)->stream->first_bytes = TMESH_FRESH_MAX_BYTES; /* those are a frame of their own */
  say(p, 1, "a");
  peer_flush(p);
  say(p, 1, "b");
  tmesh_stream_write(peer_user(p, 1)->stream, bytes, sizeof bytes - 2);
  assert_false(tmesh_mux_has_output(&p->mux));
  say(p, 1, "c");
  assert_true(tmesh_mux_has_output(&p->mux));
  peer_flush(p);
  assert_int_equal(p->mux.stats.data_bytes_out, 1 + sizeof bytes);
  peer_free(p);
}

static void the_end_does_not_wait(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  say(p, 1, "a");
  peer_flush(p);
  say(p, 1, "b");
  tmesh_stream_finish(peer_user(p, 1)->stream);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 2);
  assert_int_equal(peer_sent(p, TMESH_FRAME_HALF_CLOSE, 1), 1);
  peer_free(p);
}

static void one_moment_serves_all_that_wait(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  peer_opened(p, 2);
  say(p, 1, "a");
  peer_flush(p);
  pass(p, 3000);
  say(p, 2, "a");
  peer_flush(p);
  say(p, 2, "b"); /* due in 5 ms */
  say(p, 1, "b"); /* due in 2 */
  assert_int_equal(tmesh_mux_due_us(&p->mux), 1000000 + WAIT_US);
  pass(p, 2000);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 0), 4);
  assert_true(tmesh_mux_due_us(&p->mux) == UINT64_MAX);
  peer_free(p);
}

static void a_stream_that_ends_while_it_waits_leaves_nothing_due(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  peer_opened(p, 2);
  for (uint32_t id = 1; id <= 2; id++) {
    say(p, id, "a");
    peer_flush(p);
    say(p, id, "b");
  }
  peer_frame(p, TMESH_FRAME_RESET, 1, NULL, 0);
  tmesh_stream_release(peer_user(p, 2)->stream);
  peer_user(p, 2)->stream = NULL;
  assert_true(tmesh_mux_due_us(&p->mux) == UINT64_MAX);
  assert_int_equal(p->pool.live_count, 0);
  peer_free(p);
}

static void nothing_waits_unless_it_is_asked_for(void** state) {
  (void)state;
  struct peer* p = start(0);
  for (int i = 1; i <= 20; i++) {
    say(p, 1, "x");
    peer_flush(p);
    assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), i);
  }
  peer_free(p);
}

static void a_server_that_turns_out_to_be_ours_gets_what_waits(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  say(p, 1, "a");
  peer_flush(p);
  say(p, 1, "b");
  struct tmesh_stream* s = peer_opened_udp(p, 2);
  for (int i = 0; i < 20; i++) assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, "x", 1)));
  peer_flush(p);
  tmesh_mux_set_coalesce(&p->mux, 0);
  assert_true(tmesh_mux_has_output(&p->mux));
  peer_flush(p);
  say(p, 1, "c");
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 3);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 2), 20);
  peer_free(p);
}

/* A datagram is a frame, of whatever size: a burst of them leaves a few at a time. */
static void datagrams_leave_a_few_in_5_ms_Z3(void** state) {
  (void)state;
  static const uint8_t bytes[TMESH_COALESCE_BELOW_BYTES + 1];
  enum { COUNT = 3 * TMESH_DATAGRAM_TURN_COUNT, AT_US = 1000000 };
  for (size_t len = 0; len <= sizeof bytes; len += sizeof bytes) {
    struct peer* p = start(WAIT_US);
    struct tmesh_stream* s = peer_opened_udp(p, 2);
    for (int i = 0; i < COUNT; i++) {
      assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, bytes, i % 2 == 0 ? len : 0)));
      tmesh_mux_check(&p->mux);
    }
    for (int turn = 1; turn <= 3; turn++) {
      peer_flush(p);
      assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 2), (unsigned)turn * TMESH_DATAGRAM_TURN_COUNT);
      if (turn == 3) break;
      assert_false(tmesh_mux_has_output(&p->mux));
      assert_int_equal(tmesh_mux_due_us(&p->mux), AT_US + (uint64_t)turn * WAIT_US);
      pass(p, WAIT_US - 1);
      assert_false(tmesh_mux_has_output(&p->mux));
      p->dirty_count = 0;
      pass(p, 1);
      assert_true(p->dirty_count > 0);
    }
    assert_true(tmesh_mux_due_us(&p->mux) == UINT64_MAX);
    peer_free(p);
  }
}

/* What others wait for is not theirs: each has its own moment. */
static void datagrams_do_not_leave_with_others_that_are_due(void** state) {
  (void)state;
  struct peer* p = start(WAIT_US);
  struct tmesh_stream* s = peer_opened_udp(p, 2);
  pass(p, 4000);
  say(p, 1, "a");
  peer_flush(p);
  say(p, 1, "b"); /* due in 5 ms */
  pass(p, 1000);
  for (unsigned i = 0; i < 2 * TMESH_DATAGRAM_TURN_COUNT; i++) {
    assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, "x", 1)));
  }
  peer_flush(p);
  pass(p, 4000);
  p->dirty_count = 0;
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 1), 2);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 2), TMESH_DATAGRAM_TURN_COUNT);
  assert_int_equal(tmesh_mux_due_us(&p->mux), 1005000 + WAIT_US);
  pass(p, 1000);
  peer_flush(p);
  assert_int_equal(peer_sent(p, TMESH_FRAME_DATA, 2), 2 * TMESH_DATAGRAM_TURN_COUNT);
  peer_free(p);
}

/* Wherever the moments lie: the server has room for 16 that it has not passed on. */
static void at_no_time_more_than_16_datagrams_leave_within_5_ms(void** state) {
  (void)state;
  enum { STEPS = 400, STEP_US = 700 };
  struct peer* p = start(WAIT_US);
  struct tmesh_stream* s = peer_opened_udp(p, 2);
  size_t sent[STEPS] = {0};
  for (int i = 0; i < STEPS; i++) {
    const int burst = i % 23 == 0 ? 30 : i % 3;
    for (int k = 0; k < burst; k++) assert_true(tmesh_is_ok(tmesh_stream_send_datagram(s, "x", 1)));
    if (i % 2 == 0) say(p, 1, "x");
    peer_flush(p);
    sent[i] = peer_sent(p, TMESH_FRAME_DATA, 2);
    const int within = WAIT_US / STEP_US;
    if (i >= within) assert_true(sent[i] - sent[i - within] <= 16);
    pass(p, STEP_US);
  }
  assert_true(sent[STEPS - 1] > STEPS); /* it goes on */
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_write_after_silence_leaves_at_once),
      cmocka_unit_test(what_follows_within_5_ms_waits_and_leaves_in_one_frame),
      cmocka_unit_test(a_stream_of_tiny_writes_becomes_one_frame_per_5_ms),
      cmocka_unit_test(bytes_worth_a_frame_do_not_wait),
      cmocka_unit_test(the_end_does_not_wait),
      cmocka_unit_test(one_moment_serves_all_that_wait),
      cmocka_unit_test(a_stream_that_ends_while_it_waits_leaves_nothing_due),
      cmocka_unit_test(nothing_waits_unless_it_is_asked_for),
      cmocka_unit_test(a_server_that_turns_out_to_be_ours_gets_what_waits),
      cmocka_unit_test(datagrams_leave_a_few_in_5_ms_Z3),
      cmocka_unit_test(datagrams_do_not_leave_with_others_that_are_due),
      cmocka_unit_test(at_no_time_more_than_16_datagrams_leave_within_5_ms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
