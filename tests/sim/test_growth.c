/* Windows that fit the path, on a wire with delay and rate. */
#include "sim_test.h"

#define SECOND_US UINT64_C(1000000)

static void run_until(struct sim_world* w, uint64_t at_us) {
  while (w->now_us < at_us) assert_true(sim_world_step(w));
}

/* Bytes per second at the target, from `from_us` on for half a second. */
static uint64_t measure_upload(struct sim_world* w, const struct sim_stream* s, uint64_t from_us) {
  run_until(w, from_us);
  uint64_t before = s->target.received_bytes, begin_us = w->now_us;
  run_until(w, from_us + SECOND_US / 2);
  return (s->target.received_bytes - before) * SECOND_US / (w->now_us - begin_us);
}

static uint64_t measure_download(struct sim_world* w, const struct sim_stream* s, uint64_t from_us) {
  run_until(w, from_us);
  uint64_t before = s->local.received_bytes, begin_us = w->now_us;
  run_until(w, from_us + SECOND_US / 2);
  return (s->local.received_bytes - before) * SECOND_US / (w->now_us - begin_us);
}

static void start_growing(struct sim_world* w, uint32_t window_max_bytes) {
  struct sim_world_config c = sim_world_defaults();
  c.window_max_bytes = window_max_bytes;
  c.pool_bytes = 256u << 20;
  c.latency_us = 100;
  c.check_every = 997;
  sim_world_init(w, &c, 1);
}

/* Ends it early: nothing of this is about endings. */
static void stop(struct sim_world* w, struct sim_stream* s) {
  sim_stream_give_up(s, SIM_CLIENT);
  sim_world_run(w);
  sim_world_close(w);
}

static void one_stream_at_50_ms_fills_the_line(void** state) {
  (void)state;
  for (int link = 0; link < 2; link++) {
    struct sim_world w;
    start_growing(&w, 16u << 20);
    const uint64_t rate = 40000000;
    sim_world_path(&w, link, 25000, rate);
    struct sim_stream* up = sim_world_open(&w, true, true, UINT64_C(1) << 40, 0);
    uint64_t got = measure_upload(&w, up, SECOND_US);
    print_message("one stream up, 50 ms on link %d: %.3f of the line\n", link, (double)got / (double)rate);
    assert_true(got * 10 >= rate * 9);
    /* Twice the bytes in flight and one doubling are enough; the hop without delay needs nothing. */
    uint32_t grown = (link == 0 ? up->hub_in : up->agent)->recv.size_bytes;
    assert_in_range(grown, rate / 20, 4 * rate / 20 * 2);
    assert_int_equal((link == 0 ? up->agent : up->hub_in)->recv.size_bytes, TMESH_WINDOW_INITIAL_BYTES);
    stop(&w, up);

    start_growing(&w, 16u << 20);
    sim_world_path(&w, link, 25000, rate);
    struct sim_stream* down = sim_world_open(&w, true, true, 0, UINT64_C(1) << 40);
    got = measure_download(&w, down, SECOND_US);
    print_message("one stream down: %.3f of the line\n", (double)got / (double)rate);
    assert_true(got * 10 >= rate * 9);
    stop(&w, down);
  }
}

static void one_stream_at_50_ms_uses_the_largest_window_whole(void** state) {
  (void)state;
  struct sim_world w;
  const uint32_t max_bytes = 1u << 20;
  start_growing(&w, max_bytes);
  sim_world_path(&w, 1, 25000, 1000000000);
  struct sim_stream* s = sim_world_open(&w, true, true, UINT64_C(1) << 40, 0);
  uint64_t got = measure_upload(&w, s, SECOND_US / 2);
  uint64_t bound = (uint64_t)max_bytes * 20;
  print_message("window of 1 MiB at 50 ms: %.3f of window / RTT\n", (double)got / (double)bound);
  assert_true(got * 10 >= bound * 9);
  assert_int_equal(s->agent->recv.size_bytes, max_bytes);
  stop(&w, s);
}

static void without_growth_a_window_per_round_trip_is_all(void** state) {
  (void)state;
  struct sim_world w;
  start_growing(&w, 0);
  sim_world_path(&w, 1, 25000, 0);
  struct sim_stream* s = sim_world_open(&w, true, true, UINT64_C(1) << 40, 0);
  uint64_t got = measure_upload(&w, s, SECOND_US / 2);
  assert_true(got < (uint64_t)TMESH_WINDOW_INITIAL_BYTES * 21);
  stop(&w, s);
}

/* However large the window: what nobody reads fills it once, and comes back. */
static void a_stalled_reader_holds_one_grown_window_and_gives_it_back(void** state) {
  (void)state;
  struct sim_world w;
  start_growing(&w, 4u << 20);
  sim_world_path(&w, 1, 25000, 0);
  struct sim_stream* s = sim_world_open(&w, true, true, UINT64_C(1) << 40, 0);
  run_until(&w, SECOND_US);
  assert_int_equal(s->agent->recv.size_bytes, 4u << 20);
  s->target.is_stalled = true;
  sim_world_run(&w);
  size_t held = s->agent->in.len_bytes + s->target.out.len_bytes;
  assert_in_range(held, (4u << 20) - TMESH_WINDOW_THRESHOLD_BYTES, 4u << 20);
  stop(&w, s);
}

int main(void) {
  sim_report_on_abort();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_stream_at_50_ms_fills_the_line),
      cmocka_unit_test(one_stream_at_50_ms_uses_the_largest_window_whole),
      cmocka_unit_test(without_growth_a_window_per_round_trip_is_all),
      cmocka_unit_test(a_stalled_reader_holds_one_grown_window_and_gives_it_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
