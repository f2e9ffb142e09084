/* One test per row of the table in core/mux/mux_send.c. The simulated link looks at a
 * mux only when it was told to, so a forgotten wake-up leaves a stream unfinished. */
#include "sim_test.h"

#define WINDOW ((uint64_t)TMESH_WINDOW_INITIAL_BYTES)

static const bool both[] = {false, true};

static void bytes_on_an_idle_stream_wake_the_link(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 0, 0);
  s->local.sends_eof = s->target.sends_eof = false;
  sim_world_run(&w); /* open, and silent */
  assert_true(s->is_opened);
  for (unsigned i = 1; i <= 3; i++) {
    s->local.total_bytes = s->target.total_bytes = 100 * i;
    sim_world_run(&w);
    assert_int_equal(s->target.received_bytes, 100 * i);
    assert_int_equal(s->local.received_bytes, 100 * i);
  }
  s->local.sends_eof = s->target.sends_eof = true;
  finish_world(&w);
}

static void credit_that_arrives_on_an_idle_link_wakes_it(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 6 * WINDOW, 0);
  s->target.is_stalled = true;
  sim_world_run(&w);
  /* Every hop is full and out of credit, and the links are idle. */
  assert_int_equal(s->client->send.credit_bytes, 0);
  assert_int_equal(s->hub_out->send.credit_bytes, 0);
  assert_false(tmesh_mux_has_output(&w.link[0].side[0].mux));
  assert_false(tmesh_mux_has_output(&w.link[1].side[0].mux));
  s->target.is_stalled = false;
  finish_world(&w);
}

static void credit_that_arrives_while_a_batch_is_in_flight_is_used_after_it(void** state) {
  (void)state;
  struct sim_world_config c = sim_world_defaults();
  c.link_write_max_bytes = 700; /* a batch takes some hundred steps */
  c.latency_us = 0;
  c.check_every = 16;
  struct sim_world w;
  sim_world_init(&w, &c, 1);
  for (int i = 0; i < 3; i++) sim_world_open(&w, true, true, 4 * WINDOW, 4 * WINDOW);
  finish_world(&w);
}

static void half_close_at_zero_credit_leaves_at_once(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, WINDOW, 0);
  s->local.sends_eof = s->target.sends_eof = false;
  s->target.is_stalled = true;
  s->target.out_max_bytes = 1000;
  sim_world_run(&w);
  assert_int_equal(s->hub_out->send.credit_bytes, 0);
  assert_int_equal(s->hub_out->out.len_bytes, 0);
  assert_false(s->agent->in_eof);
  s->local.sends_eof = true; /* now, with no credit left at the hub */
  sim_world_run(&w);
  assert_true(s->agent->in_eof);
  assert_int_equal(s->hub_out->send.credit_bytes, 0);
  s->target.is_stalled = false;
  s->target.sends_eof = true;
  finish_world(&w);
}

static void half_close_behind_bytes_without_credit_follows_the_last_of_them(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, WINDOW + 1, 0);
  s->target.is_stalled = true;
  sim_world_run(&w);
  assert_int_equal(s->hub_out->out.len_bytes, 1);
  assert_true(s->hub_out->out_eof);
  assert_false(s->agent->in_eof);
  s->target.is_stalled = false;
  finish_world(&w);
}

static void an_accepted_open_with_bytes_and_eof_waiting_lets_them_go(void** state) {
  (void)state;
  for (int strict = 0; strict < 2; strict++) {
    struct sim_world_config c = sim_world_defaults();
    c.dial_delay_us = 3000000;
    struct sim_world w;
    sim_world_init(&w, &c, 3);
    struct sim_stream* s = sim_world_open(&w, both[strict], true, 20000, 20000);
    while (!s->local.is_eof_sent) assert_true(sim_world_step(&w)); /* all said before any answer */
    assert_true(s->agent == NULL || s->agent->state == TMESH_STREAM_OPENING);
    finish_world(&w);
  }
}

/* Ends that know early data; the agent takes 3 s to dial and 1 s more to say so. */
static void start_early_world(struct sim_world* w, bool agent_knows_it) {
  struct sim_world_config c = sim_world_defaults();
  c.has_early_data[0] = true;
  c.has_early_data[1] = agent_knows_it;
  c.dial_delay_us = 3000000;
  c.answer_delay_us = 1000000;
  sim_world_init(w, &c, 3);
}

static void step_until_sent(struct sim_world* w, const struct sim_stream* s) {
  while (!s->local.is_eof_sent) assert_true(sim_world_step(w));
  /* Everything that can happen before the dial does. */
  uint64_t limit_us = s->dials_at_us > 0 ? s->dials_at_us : w->now_us + 200000;
  while (w->now_us + 100000 < limit_us && sim_world_step(w)) {
    if (s->dials_at_us > 0) limit_us = s->dials_at_us;
  }
}

static void early_bytes_leave_behind_the_open_and_reach_the_agent_while_it_dials(void** state) {
  (void)state;
  for (int agent_knows_it = 0; agent_knows_it < 2; agent_knows_it++) {
    struct sim_world w;
    start_early_world(&w, agent_knows_it == 1);
    struct sim_stream* s = sim_world_open(&w, true, true, 1000, 0);
    while (s->agent == NULL) assert_true(sim_world_step(&w));
    while (w.now_us + 10000 < s->dials_at_us && sim_world_step(&w)) {
      if (s->local.is_eof_sent && s->agent->in.len_bytes == 1000) break;
    }
    assert_int_equal(s->agent->state, TMESH_STREAM_OPENING);
    assert_int_equal(s->agent->in.len_bytes, agent_knows_it == 1 ? 1000 : 0);
    assert_int_equal(s->hub_in->in.len_bytes, agent_knows_it == 1 ? 0 : 1000); /* held by the server */
    finish_world(&w);
  }
}

static void an_accepted_open_fetches_what_early_data_had_no_room_for(void** state) {
  (void)state;
  for (int agent_knows_it = 0; agent_knows_it < 2; agent_knows_it++) {
    struct sim_world w;
    start_early_world(&w, agent_knows_it == 1);
    struct sim_stream* s = sim_world_open(&w, true, true, 50000, 50000);
    s->local.in_max_bytes = 100000;
    step_until_sent(&w, s);
    assert_true(s->client->state == TMESH_STREAM_OPENING);
    assert_int_equal(w.link[0].side[0].mux.stats.data_bytes_out, TMESH_EARLY_DATA_MAX_BYTES);
    assert_int_equal(s->local.in.len_bytes, 50000 - TMESH_EARLY_DATA_MAX_BYTES);
    finish_world(&w);
  }
}

static void our_answer_wakes_the_splice_that_was_there_before(void** state) {
  (void)state;
  struct sim_world w;
  start_early_world(&w, true);
  struct sim_stream* s = sim_world_open(&w, true, true, 0, 1000);
  s->local.sends_eof = false;                                     /* nothing else comes that could wake it */
  while (!s->target.is_eof_sent) assert_true(sim_world_step(&w)); /* the target speaks before the answer */
  assert_int_equal(s->agent->state, TMESH_STREAM_OPENING);
  assert_int_equal(s->target.in.len_bytes, 1000);
  sim_world_run(&w);
  assert_int_equal(s->local.received_bytes, 1000);
  s->local.sends_eof = true;
  finish_world(&w);
}

static void room_wakes_the_splice(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 100000, 100000);
  s->target.out_max_bytes = s->local.out_max_bytes = 1000;
  finish_world(&w);
}

static void room_with_only_a_half_close_behind_lets_it_go(void** state) {
  (void)state;
  /* The out queue of the target is exactly full when the EOF comes. */
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 1000, 0);
  s->target.out_max_bytes = 1000;
  s->target.is_stalled = true;
  s->local.sends_eof = false;
  sim_world_run(&w);
  assert_int_equal(s->target.out.len_bytes, 1000);
  s->local.sends_eof = true;
  sim_world_run(&w);
  assert_true(s->target.is_finish_asked);
  s->target.is_stalled = false;
  finish_world(&w);
  /* And the out queue of the client's stream, with a window in flight: nothing but the EOF waits. */
  start_world(&w);
  s = sim_world_open(&w, true, true, 4 * WINDOW, 0);
  s->target.is_stalled = true;
  s->target.out_max_bytes = 1;
  s->local.sends_eof = false;
  sim_world_run(&w);
  s->local.sends_eof = true;
  sim_world_run(&w);
  assert_int_equal(s->client->send.credit_bytes, 0);
  s->target.is_stalled = false;
  s->target.out_max_bytes = WINDOW;
  /* Room appears at the target by its next write of that one byte. */
  finish_world(&w);
}

static void a_written_half_close_ends_the_splice_without_any_byte(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  for (int i = 0; i < 4; i++) sim_world_open(&w, both[i % 2], true, 0, 0);
  finish_world(&w);
}

static void a_consumer_that_catches_up_returns_credit(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 0, 3 * WINDOW);
  s->local.is_stalled = true;
  sim_world_run(&w);
  assert_int_equal(s->client->recv.credit_bytes, 0);
  assert_int_equal(s->client->recv.consumed_bytes, 0);
  s->local.is_stalled = false;
  finish_world(&w);
}

static void reading_that_was_paused_is_resumed(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 8 * WINDOW, 8 * WINDOW);
  s->local.is_stalled = s->target.is_stalled = true;
  sim_world_run(&w);
  assert_true(s->local.is_paused); /* TCP pushes back */
  assert_true(s->target.is_paused);
  assert_true(s->local.produced_bytes < 8 * WINDOW);
  s->local.is_stalled = s->target.is_stalled = false;
  finish_world(&w);
}

static void marks_and_control_frames_wake_an_idle_link(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 0, 0);
  s->local.sends_eof = s->target.sends_eof = false;
  sim_world_run(&w);
  assert_true(tmesh_is_ok(tmesh_mux_control(&w.link[0].side[0].mux, TMESH_FRAME_PING, "12345678", 8)));
  uint64_t frames_in = w.link[0].side[0].mux.stats.frames_in_count;
  sim_world_run(&w);
  assert_int_equal(w.link[0].side[0].mux.stats.frames_in_count, frames_in + 1); /* the PONG */
  sim_stream_give_up(s, SIM_CLIENT);
  sim_world_run(&w);
  assert_true(s->target.is_aborted); /* the RESET went all the way */
  finish_world(&w);
}

static void more_output_than_one_batch_goes_on_after_it(void** state) {
  (void)state;
  struct sim_world_config c = sim_world_defaults();
  c.target_bytes = 1; /* one message per batch */
  struct sim_world w;
  sim_world_init(&w, &c, 1);
  for (int i = 0; i < 5; i++) sim_world_open(&w, true, true, 100000, 100000);
  finish_world(&w);
}

static void upload_of_exactly_262144_bytes_and_eof(void** state) {
  (void)state;
  for (int strict = 0; strict < 2; strict++) {
    for (int windows = 0; windows < 2; windows++) {
      for (int down = 0; down < 2; down++) {
        struct sim_world w;
        start_world(&w);
        struct sim_stream* s =
            sim_world_open(&w, both[strict], both[windows], 262144, down == 1 ? 262144 : 0);
        assert_non_null(s->client);
        finish_world(&w);
      }
    }
  }
}

int main(void) {
  sim_report_on_abort();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_on_an_idle_stream_wake_the_link),
      cmocka_unit_test(credit_that_arrives_on_an_idle_link_wakes_it),
      cmocka_unit_test(credit_that_arrives_while_a_batch_is_in_flight_is_used_after_it),
      cmocka_unit_test(half_close_at_zero_credit_leaves_at_once),
      cmocka_unit_test(half_close_behind_bytes_without_credit_follows_the_last_of_them),
      cmocka_unit_test(an_accepted_open_with_bytes_and_eof_waiting_lets_them_go),
      cmocka_unit_test(early_bytes_leave_behind_the_open_and_reach_the_agent_while_it_dials),
      cmocka_unit_test(an_accepted_open_fetches_what_early_data_had_no_room_for),
      cmocka_unit_test(our_answer_wakes_the_splice_that_was_there_before),
      cmocka_unit_test(room_wakes_the_splice),
      cmocka_unit_test(room_with_only_a_half_close_behind_lets_it_go),
      cmocka_unit_test(a_written_half_close_ends_the_splice_without_any_byte),
      cmocka_unit_test(a_consumer_that_catches_up_returns_credit),
      cmocka_unit_test(reading_that_was_paused_is_resumed),
      cmocka_unit_test(marks_and_control_frames_wake_an_idle_link),
      cmocka_unit_test(more_output_than_one_batch_goes_on_after_it),
      cmocka_unit_test(upload_of_exactly_262144_bytes_and_eof),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
