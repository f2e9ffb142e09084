/* core/loop/memory: which streams give way, and links that rest. */
#include "memory_support.h"

static void hold(void* ctx, struct tmesh_stream* s) {
  const struct tmesh_open_result ok = tmesh_open_accept();
  struct test_link* t = ctx;
  test_link_attach(t, s);
  tmesh_stream_answer(s, &ok);
  t->streams_read_nothing = true;
}

static struct tmesh_stream* streams[TEST_STREAMS_MAX];

/* Opens streams from a to b, where nothing is read. */
static void open_streams(size_t count) {
  open_two();
  b.on_stream = hold;
  b.ctx = &b;
  for (size_t i = 0; i < count; i++) {
    streams[i] = test_link_stream(&a);
    test_link_attach(&a, streams[i]);
  }
  RUN_UNTIL(b.stream_count == count && streams[count - 1]->state == TMESH_STREAM_OPEN);
}

static void send_on(size_t i, size_t bytes) {
  static uint8_t data[1 << 18];
  const size_t before = b.streams[i]->in.len_bytes;
  assert_int_equal(tmesh_stream_write(streams[i], data, bytes), bytes);
  RUN_UNTIL(b.streams[i] == NULL || b.streams[i]->in.len_bytes == before + bytes);
}

static void the_largest_stalled_stream_goes_first_and_never_the_one_to_keep(void** state) {
  (void)state;
  open_streams(4);
  send_on(0, 4 * BLOCK);
  send_on(1, 3 * BLOCK);
  send_on(2, 2 * BLOCK);
  wait_us(test_loop.memory.stalled_us + 50000);
  send_on(3, 5 * BLOCK); /* larger, but it has just come */
  fill_pool(BUDGET_BLOCKS);
  tmesh_memory_full(&test_loop, b.streams[0]);
  /* 3 and 2 blocks of the stalled ones; the target for them is 54 of 64. */
  assert_int_equal(test_loop.memory.evicted_count, 2);
  empty_pool(0);
  test_loop_spin(3);
  assert_non_null(b.streams[0]);
  assert_null(b.streams[1]);
  assert_null(b.streams[2]);
  assert_non_null(b.streams[3]);
  assert_int_equal(b.link.mux.stats.stream_errors_count[TMESH_E_NO_MEMORY], 2);
  empty_pool(0);
  close_two();
}

static void without_a_stalled_one_the_largest_goes_for_what_is_needed_now(void** state) {
  (void)state;
  open_streams(3);
  send_on(0, 1 * BLOCK);
  send_on(1, 4 * BLOCK);
  send_on(2, 2 * BLOCK);
  fill_pool(BUDGET_BLOCKS);
  tmesh_memory_full(&test_loop, b.streams[0]);
  assert_int_equal(test_loop.memory.evicted_count, 1);
  assert_int_equal(test_loop.pool.live_count, BUDGET_BLOCKS - 4);
  test_loop_spin(3);
  assert_null(b.streams[1]);
  empty_pool(0);
  close_two();
}

/* Its blocks come later, when the handle is closed; the bytes are here now. */
static void a_socket_that_gives_way_does_not_end_the_stream_to_keep(void** state) {
  (void)state;
  open_socks();
  stall_writer(&socks[0]);
  open_streams(2);
  send_on(0, 1 * BLOCK);
  send_on(1, 4 * BLOCK);
  wait_us(test_loop.memory.stalled_us + 50000);
  tmesh_chunkq_consume(&b.streams[1]->in, 1);
  tmesh_stream_consumed(b.streams[1], 1);
  fill_pool(BUDGET_BLOCKS);
  tmesh_memory_full(&test_loop, b.streams[0]);
  assert_true(test_loop.pool.live_count <= BUDGET_BLOCKS - BUDGET_BLOCKS / 32);
  assert_int_equal(test_loop.memory.evicted_count, 2);
  empty_pool(0);
  test_loop_spin(3);
  assert_non_null(b.streams[0]);
  assert_null(b.streams[1]);
  assert_int_equal(socks[0].broken_count, 1);
  close_two();
  close_socks();
}

static void the_last_blocks_may_be_too_few_for_what_came(void** state) {
  (void)state;
  open_streams(2);
  send_on(1, 4 * BLOCK);
  fill_pool(BUDGET_BLOCKS - 1);
  tmesh_memory_full(&test_loop, b.streams[0]); /* two blocks were asked for */
  assert_int_equal(test_loop.memory.evicted_count, 1);
  empty_pool(0);
  close_two();
}

/* Between two flushes of a quiet link its consumers go on. */
static void a_stream_whose_bytes_were_just_taken_is_not_stalled(void** state) {
  (void)state;
  open_streams(2);
  send_on(0, 4 * BLOCK);
  send_on(1, 1 * BLOCK);
  wait_us(test_loop.memory.stalled_us + 50000);
  tmesh_chunkq_consume(&b.streams[0]->in, 1);
  tmesh_stream_consumed(b.streams[0], 1);
  test_loop.memory.next_look_us = 0;
  fill_pool(BUDGET_BLOCKS);
  RUN_UNTIL(b.streams[1] == NULL);
  assert_non_null(b.streams[0]);
  empty_pool(0);
  close_two();
}

static void a_pool_with_room_evicts_nobody(void** state) {
  (void)state;
  open_streams(1);
  send_on(0, BLOCK);
  fill_pool(BUDGET_BLOCKS - BUDGET_BLOCKS / 32);
  tmesh_memory_full(&test_loop, NULL); /* the system refused, not the budget */
  assert_int_equal(test_loop.memory.evicted_count, 0);
  empty_pool(0);
  close_two();
}

static void a_stream_is_evicted_before_the_pool_refuses_when_it_is_stalled(void** state) {
  (void)state;
  open_streams(2);
  send_on(0, 4 * BLOCK);
  wait_us(test_loop.memory.stalled_us + 50000);
  send_on(1, 4 * BLOCK);
  fill_pool(BUDGET_BLOCKS - BUDGET_BLOCKS / 32);
  RUN_UNTIL(b.streams[0] == NULL);
  assert_non_null(b.streams[1]);
  empty_pool(0);
  close_two();
}

/* Nothing else happens in this process, and no socket rests: opens must not be refused for ever. */
static void stalled_streams_give_way_while_opens_are_refused(void** state) {
  (void)state;
  open_streams(2);
  send_on(0, 4 * BLOCK);
  fill_pool(BUDGET_BLOCKS * 9 / 10);
  test_loop_spin(3);
  assert_int_equal(tmesh_pool_pressure(&test_loop.pool), TMESH_PRESSURE_GROWTH);
  assert_false(uv_is_active((uv_handle_t*)&test_loop.memory.look_timer));
  send_on(1, 1 * BLOCK);
  assert_int_equal(tmesh_pool_pressure(&test_loop.pool), TMESH_PRESSURE_OPENS);
  test_loop_spin(1);
  assert_true(uv_is_active((uv_handle_t*)&test_loop.memory.look_timer));
  RUN_UNTIL(b.streams[0] == NULL);
  assert_true(tmesh_pool_pressure(&test_loop.pool) < TMESH_PRESSURE_OPENS);
  empty_pool(0);
  close_two();
}

static void refusals_of_one_iteration_cost_a_bounded_number_of_looks(void** state) {
  (void)state;
  open_streams(TEST_STREAMS_MAX);
  for (size_t i = 0; i < TEST_STREAMS_MAX - 8; i++) send_on(i, 1);
  for (unsigned frame = 0; frame < 10000; frame++) {
    fill_pool(BUDGET_BLOCKS);
    tmesh_memory_full(&test_loop, NULL);
  }
  assert_int_equal(test_loop.memory.looks_count, TMESH_MEMORY_LOOKS_PER_ITERATION_MAX);
  /* A look makes room for several streams of one block at once. */
  assert_int_equal(test_loop.memory.evicted_count,
                   TMESH_MEMORY_LOOKS_PER_ITERATION_MAX * (BUDGET_BLOCKS / 32));
  test_loop_spin(1);
  const uint64_t evicted = test_loop.memory.evicted_count;
  fill_pool(BUDGET_BLOCKS);
  tmesh_memory_full(&test_loop, NULL);
  assert_int_equal(test_loop.memory.evicted_count, evicted + BUDGET_BLOCKS / 32);
  empty_pool(0);
  close_two();
}

static void a_short_pool_is_looked_at_at_most_ten_times_a_second(void** state) {
  (void)state;
  open_streams(1);
  send_on(0, BLOCK);
  test_loop.memory.stalled_us = UINT64_MAX; /* nothing to find */
  fill_pool(BUDGET_BLOCKS);
  wait_us(450000);
  assert_in_range(test_loop.memory.looks_count, 2, 6);
  empty_pool(0);
  close_two();
}

static void a_link_rests_after_a_read_when_few_blocks_are_left(void** state) {
  (void)state;
  static uint8_t data[1 << 18];
  open_streams(2);
  fill_pool(SOCKET_LIMIT);
  assert_int_equal(tmesh_stream_write(streams[0], data, 100), 100);
  RUN_UNTIL(tmesh_list_linked(&b.link.in_resting));
  assert_false(b.transport.is_reading);
  assert_int_equal(b.streams[0]->in.len_bytes, 100);
  assert_int_equal(b.down_count + test_loop.memory.evicted_count, 0);
  /* It goes on by itself: credit and heartbeats come the same way. */
  assert_int_equal(tmesh_stream_write(streams[1], data, 100), 100);
  RUN_UNTIL(b.streams[1]->in.len_bytes == 100);
  assert_true(test_loop.memory.rests_count >= 2);
  RUN_UNTIL(tmesh_list_linked(&b.link.in_resting));
  empty_pool(0);
  test_loop_spin(1); /* at once, when blocks come back */
  assert_true(b.transport.is_reading);
  close_two();
}

static void a_link_that_rests_may_close(void** state) {
  (void)state;
  open_streams(1);
  fill_pool(SOCKET_LIMIT);
  assert_int_equal(tmesh_stream_write(streams[0], "x", 1), 1);
  RUN_UNTIL(tmesh_list_linked(&b.link.in_resting));
  tmesh_link_close(&b.link);
  test_link_closed(&b);
  test_link_closed(&a);
  assert_true(tmesh_list_empty(&test_loop.memory.resting));
  empty_pool(0);
}

static void closed_streams_and_sockets_count_as_freed(void** state) {
  (void)state;
  open_streams(32);
  const size_t before = test_loop.memory.freed_bytes;
  for (size_t i = 0; i < 32; i++) {
    tmesh_stream_release(streams[i]);
    a.streams[i] = NULL;
  }
  RUN_UNTIL(b.over_count == 32 && b.link.mux.streams.count == 0);
  tmesh_link_kick(&a.link);
  tmesh_link_kick(&b.link);
  test_loop_spin(2);
  assert_true(test_loop.memory.freed_bytes - before >= 2 * 32 * sizeof(struct tmesh_stream));
  close_two();
}

int test_memory_streams(void) {
  const struct CMUnitTest tests[] = {
      MEMORY_TEST(the_largest_stalled_stream_goes_first_and_never_the_one_to_keep),
      MEMORY_TEST(without_a_stalled_one_the_largest_goes_for_what_is_needed_now),
      MEMORY_TEST(a_socket_that_gives_way_does_not_end_the_stream_to_keep),
      MEMORY_TEST(the_last_blocks_may_be_too_few_for_what_came),
      MEMORY_TEST(a_stream_whose_bytes_were_just_taken_is_not_stalled),
      MEMORY_TEST(a_pool_with_room_evicts_nobody),
      MEMORY_TEST(a_stream_is_evicted_before_the_pool_refuses_when_it_is_stalled),
      MEMORY_TEST(stalled_streams_give_way_while_opens_are_refused),
      MEMORY_TEST(refusals_of_one_iteration_cost_a_bounded_number_of_looks),
      MEMORY_TEST(a_short_pool_is_looked_at_at_most_ten_times_a_second),
      MEMORY_TEST(a_link_rests_after_a_read_when_few_blocks_are_left),
      MEMORY_TEST(a_link_that_rests_may_close),
      MEMORY_TEST(closed_streams_and_sockets_count_as_freed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
