/* Faults that deployed tunnels had, end to end over two links. The letters name the lesson. */
#include "sim_test.h"

#define WINDOW ((uint64_t)TMESH_WINDOW_INITIAL_BYTES)

/* A large response once was cut: the server mirrored the client's WINDOW_UPDATE to the
 * agent and credited the agent itself as well. sim_world_check compares, after every
 * step, what each hop announced with what it wrote on. */
static void credit_is_per_hop_and_a_large_body_is_exact_R1(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 10; seed++) {
    struct sim_world_config c = sim_world_defaults();
    c.latency_us = 20000;
    c.check_every = 4;
    struct sim_world w;
    sim_world_init(&w, &c, seed);
    struct sim_stream* s = sim_world_open(&w, true, true, 200, 1382571);
    s->local.write_max_bytes = 9000;
    sim_world_run(&w);
    assert_int_equal(s->local.received_bytes, 1382571);
    finish_world(&w);
  }
}

static void updates_never_announce_more_than_was_consumed_R1(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  sim_world_open(&w, true, true, 5 * WINDOW, 5 * WINDOW);
  sim_world_run(&w);
  for (int l = 0; l < 2; l++) {
    const struct sim_seen* seen = &w.link[l].seen[1];
    for (int d = 0; d < 2; d++) {
      assert_int_equal(seen->data_bytes[d], 5 * WINDOW);
      assert_in_range(seen->announced_bytes[d], 4 * WINDOW - TMESH_WINDOW_THRESHOLD_BYTES, 5 * WINDOW);
    }
  }
  finish_world(&w);
}

static void no_credit_before_the_reader_reads_R2(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 0, 4 * WINDOW);
  s->local.is_stalled = true;
  sim_world_run(&w);
  /* The client moved the bytes towards its socket, but the socket took none. */
  assert_int_equal(s->local.out.len_bytes, s->local.out_max_bytes);
  assert_int_equal(w.link[0].seen[1].announced_bytes[1], 0);
  s->local.is_stalled = false;
  finish_world(&w);
}

static void data_before_the_half_close_is_still_drained_R2(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 0, 100000);
  s->local.is_stalled = true;
  s->local.sends_eof = true;
  sim_world_run(&w);
  assert_true(s->client->in_eof || s->splice[SIM_CLIENT].ends[1].in_eof);
  assert_int_equal(s->local.received_bytes, 0);
  s->local.is_stalled = false;
  finish_world(&w);
}

static void one_mebibyte_to_a_slow_writer_arrives_complete_R3(void** state) {
  (void)state;
  struct sim_world_config c = sim_world_defaults();
  c.client_window_bytes = c.hub_window_bytes = 524288; /* twice what the queues of a sender hold */
  c.check_every = 8;
  struct sim_world w;
  sim_world_init(&w, &c, 1);
  struct sim_stream* s = sim_world_open(&w, true, true, 1048576, 1048576);
  s->local.write_max_bytes = s->target.write_max_bytes = 4000;
  s->local.write_gap_us = s->target.write_gap_us = 2000;
  finish_world(&w);
}

static void a_late_answer_after_the_request_eof_is_not_cut_R6(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* s = sim_world_open(&w, true, true, 300, 524288);
  s->target.next_read_us = 30 * 1000000; /* the target thinks for half a minute */
  finish_world(&w);
}

static void two_thousand_finished_streams_leave_bounded_state_R7(void** state) {
  (void)state;
  struct sim_world_config c = sim_world_defaults();
  c.check_every = 0;
  c.latency_us = 0;
  struct sim_world w;
  sim_world_init(&w, &c, 1);
  for (unsigned i = 0; i < 2000; i += 20) {
    for (unsigned k = 0; k < 20; k++) sim_world_open(&w, true, true, 100, 100);
    sim_world_run(&w);
  }
  for (int l = 0; l < 2; l++) {
    for (int d = 0; d < 2; d++) {
      const struct tmesh_mux* m = &w.link[l].side[d].mux;
      assert_int_equal(m->streams.count, 0);
      assert_int_equal(m->live_count, 0);
      assert_int_equal(m->marks_count, 0);
      assert_true(tmesh_fair_writer_is_idle(&m->writer));
      assert_in_range(m->streams.capacity, 0, 256);
      assert_in_range(m->retired_count, 0, TMESH_RETIRED_MAX_STREAMS);
    }
  }
  for (int i = 0; i < SIM_HOPS; i++) assert_int_equal(w.pool[i].live_count, 0);
  finish_world(&w);
}

static void a_target_that_does_not_read_stops_nobody_else_R8(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  struct sim_stream* stuck = sim_world_open(&w, true, true, 100 * WINDOW, 100 * WINDOW);
  stuck->target.is_stalled = stuck->local.is_stalled = true;
  sim_world_run(&w);
  for (int i = 0; i < 31; i++) sim_world_open(&w, i % 2 == 0, true, 3000, 30000);
  sim_world_run(&w);
  for (unsigned i = 1; i <= 31; i++) sim_stream_check_complete(&w.streams[i]);
  /* RESET releases what is stuck. */
  sim_stream_give_up(stuck, SIM_CLIENT);
  sim_world_run(&w);
  assert_true(stuck->target.is_aborted);
  for (int i = 0; i < SIM_HOPS; i++) assert_int_equal(w.pool[i].live_count, 0);
  finish_world(&w);
}

/* A server that answers and closes while the request still comes: its kernel sends RST. */
static void an_answer_before_the_targets_reset_passes_every_hop_P_B8(void** state) {
  (void)state;
  for (int is_slow = 0; is_slow < 2; is_slow++) {
    struct sim_world w;
    start_world(&w);
    struct sim_stream* s = sim_world_open(&w, true, true, 100 * WINDOW, is_slow ? 10 * WINDOW : 50000);
    s->target.sends_eof = false;
    s->target.is_stalled = true;   /* the request is not read */
    s->local.is_stalled = is_slow; /* the answer waits at every hop */
    s->local.out_max_bytes = 10000;
    while (s->target.produced_bytes < 50000) assert_true(sim_world_step(&w));
    if (is_slow) sim_world_run(&w);
    s->is_disturbed = true;
    s->target.is_started = false;
    tmesh_splice_broken(s->target.splice, s->target.index, tmesh_err_stream(TMESH_E_RESET));
    sim_world_run(&w);
    assert_true(s->local.is_aborted == !is_slow);
    s->local.is_stalled = false;
    sim_world_run(&w);
    assert_int_equal(s->local.received_bytes, s->target.produced_bytes);
    assert_true(s->local.is_aborted && !s->local.is_finish_done); /* no regular end (R5) */
    assert_true(sim_stream_is_finished(s));
    for (int i = 0; i < SIM_HOPS; i++) assert_int_equal(s->why[i].code, TMESH_E_RESET);
    finish_world(&w);
  }
}

static void bulk_with_stopped_readers_holds_a_window_per_direction_at_the_hub_PD1(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  enum { STREAMS = 16 };
  for (int i = 0; i < STREAMS; i++) {
    struct sim_stream* s = sim_world_open(&w, true, true, 100 * WINDOW, 100 * WINDOW);
    s->target.is_stalled = s->local.is_stalled = true;
  }
  sim_world_run(&w);
  uint64_t queued = 0;
  for (unsigned i = 0; i < STREAMS; i++) {
    const struct sim_stream* s = &w.streams[i];
    uint64_t up = s->hub_in->in.len_bytes + s->hub_out->out.len_bytes;
    uint64_t down = s->hub_out->in.len_bytes + s->hub_in->out.len_bytes;
    assert_in_range(up, 0, WINDOW);
    assert_in_range(down, 0, WINDOW);
    queued += up + down;
  }
  /* Held memory follows queued bytes: at most twice, and two blocks per queue. */
  assert_in_range(tmesh_pool_live_bytes(&w.pool[SIM_HUB]), 0, 2 * queued + STREAMS * 8 * TMESH_BLOCK_BYTES);
  /* The hub's RESET frees the agent at once; at the client the answer waits for its reader. */
  for (unsigned i = 0; i < STREAMS; i++)
    w.streams[i].target.is_stalled = w.streams[i].local.is_stalled = false;
  for (unsigned i = 0; i < STREAMS; i++) sim_stream_give_up(&w.streams[i], SIM_HUB);
  finish_world(&w);
}

static void each_stream_frees_its_slot_on_every_path_R27(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  for (unsigned i = 0; i < 24; i++) {
    struct sim_stream* s = sim_world_open(&w, i % 2 == 0, true, 5000, 5000);
    s->is_refused_by_agent = i % 8 == 7;
    if (i % 8 >= 3) s->local.sends_eof = s->target.sends_eof = false;
  }
  sim_world_run(&w);
  for (unsigned i = 0; i < 24; i++) {
    struct sim_stream* s = &w.streams[i];
    if (i % 8 == 3) sim_stream_give_up(s, SIM_CLIENT);
    if (i % 8 == 4) sim_stream_give_up(s, SIM_HUB);
    if (i % 8 == 5) sim_stream_give_up(s, SIM_AGENT);
    if (i % 8 == 6) sim_stream_break_end(s, true);
  }
  sim_world_run(&w);
  for (int l = 0; l < 2; l++) {
    for (int d = 0; d < 2; d++) assert_int_equal(w.link[l].side[d].mux.live_count, 0);
  }
  finish_world(&w);
}

static void half_close_never_overtakes_data_R29(void** state) {
  (void)state;
  struct sim_world_config c = sim_world_defaults();
  c.target_bytes = 1000;
  c.check_every = 8;
  struct sim_world w;
  sim_world_init(&w, &c, 1);
  for (int i = 0; i < 8; i++) sim_world_open(&w, true, true, 150000, 150000);
  finish_world(&w); /* the observer refuses DATA behind HALF_CLOSE; the ends count every byte */
}

static void frames_that_cross_a_reset_do_no_harm_R30(void** state) {
  (void)state;
  struct sim_world_config c = sim_world_defaults();
  c.latency_us = 50000;
  struct sim_world w;
  sim_world_init(&w, &c, 1);
  for (int i = 0; i < 4; i++) sim_world_open(&w, true, true, 3 * WINDOW, 3 * WINDOW);
  while (w.streams[0].target.received_bytes == 0 || w.streams[0].local.received_bytes == 0) {
    assert_true(sim_world_step(&w));
  }
  sim_stream_give_up(&w.streams[0], SIM_CLIENT); /* data and credit are under way both ways */
  sim_stream_give_up(&w.streams[1], SIM_AGENT);
  sim_world_run(&w);
  assert_true(w.link[0].side[0].mux.stats.late_frames_count > 0);
  for (int l = 0; l < 2; l++) {
    for (int d = 0; d < 2; d++) assert_true(tmesh_is_ok(w.link[l].side[d].mux.failed));
  }
  finish_world(&w);
}

static void a_cut_link_ends_its_streams_and_the_other_link_lives(void** state) {
  (void)state;
  struct sim_world w;
  start_world(&w);
  for (int i = 0; i < 6; i++) sim_world_open(&w, i % 2 == 0, true, 10 * WINDOW, 10 * WINDOW);
  for (int i = 0; i < 400; i++) assert_true(sim_world_step(&w));
  for (unsigned i = 0; i < w.streams_count; i++) w.streams[i].is_disturbed = true;
  sim_link_cut(&w.link[0]);
  sim_world_run(&w);
  for (unsigned i = 0; i < w.streams_count; i++) {
    assert_true(sim_stream_is_finished(&w.streams[i]));
    assert_true(w.streams[i].target.is_aborted);
  }
  assert_true(tmesh_is_ok(w.link[1].side[0].mux.failed));
  finish_world(&w);
}

int main(void) {
  sim_report_on_abort();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(credit_is_per_hop_and_a_large_body_is_exact_R1),
      cmocka_unit_test(updates_never_announce_more_than_was_consumed_R1),
      cmocka_unit_test(no_credit_before_the_reader_reads_R2),
      cmocka_unit_test(data_before_the_half_close_is_still_drained_R2),
      cmocka_unit_test(one_mebibyte_to_a_slow_writer_arrives_complete_R3),
      cmocka_unit_test(a_late_answer_after_the_request_eof_is_not_cut_R6),
      cmocka_unit_test(two_thousand_finished_streams_leave_bounded_state_R7),
      cmocka_unit_test(a_target_that_does_not_read_stops_nobody_else_R8),
      cmocka_unit_test(an_answer_before_the_targets_reset_passes_every_hop_P_B8),
      cmocka_unit_test(bulk_with_stopped_readers_holds_a_window_per_direction_at_the_hub_PD1),
      cmocka_unit_test(each_stream_frees_its_slot_on_every_path_R27),
      cmocka_unit_test(half_close_never_overtakes_data_R29),
      cmocka_unit_test(frames_that_cross_a_reset_do_no_harm_R30),
      cmocka_unit_test(a_cut_link_ends_its_streams_and_the_other_link_lives),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
