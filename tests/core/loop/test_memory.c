/* core/loop/memory: which sockets rest and give way, and what goes back to the system; streams are in
 * memory_streams.c. */
#include <sys/socket.h>
#include <unistd.h>

#include "memory_support.h"

static struct tmesh_block* taken[4096];
static size_t taken_count;

void fill_pool(size_t live_count) {
  while (test_loop.pool.live_count < live_count) {
    taken[taken_count] = tmesh_pool_get(&test_loop.pool);
    assert_non_null(taken[taken_count]);
    taken_count++;
  }
}

void empty_pool(size_t keep_count) {
  while (taken_count > 0 && test_loop.pool.live_count > keep_count) {
    tmesh_pool_put(&test_loop.pool, taken[--taken_count]);
  }
}

int open_small(void** state) {
  if (test_loop_open(state) != 0) return -1;
  taken_count = 0;
  test_loop.pool.budget_count = BUDGET_BLOCKS;
  test_loop.memory.stalled_us = 200000;
  test_loop.memory.tick_ms = 5;
  return 0;
}

void wait_us(uint64_t us) {
  const uint64_t until_us = uv_hrtime() / 1000 + us;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
}

/* --- sockets ------------------------------------------------------------------------- */

struct sock socks[SOCKS];
int peers[SOCKS];

void open_socks(void) {
  for (int i = 0; i < SOCKS; i++) {
    int fds[2];
    test_tcp_pair(fds);
    sock_open(&socks[i], fds[0]);
    peers[i] = fds[1];
  }
}

void close_socks(void) {
  for (int i = 0; i < SOCKS; i++) {
    sock_close(&socks[i], false);
    close(peers[i]);
  }
}

static void sockets_leave_an_eighth_of_the_budget_to_links(void** state) {
  (void)state;
  open_socks();
  fill_pool(SOCKET_LIMIT - 1);
  test_send_all(peers[0], "x", 1);
  tmesh_tcp_read(&socks[0].tcp, 100);
  RUN_UNTIL(socks[0].tcp.in.len_bytes == 1); /* the last block for sockets */
  test_send_all(peers[1], "x", 1);
  tmesh_tcp_read(&socks[1].tcp, 100);
  RUN_UNTIL(socks[1].tcp.is_starved);
  test_send_all(peers[0], "y", 1); /* one that has a block with room needs none */
  RUN_UNTIL(socks[0].tcp.in.len_bytes == 2);
  assert_true(socks[1].tcp.is_starved);
  assert_int_equal(test_loop.pool.live_count, SOCKET_LIMIT);
  close_socks();
  empty_pool(0);
}

static void resting_sockets_go_on_in_their_order_as_blocks_come_back(void** state) {
  (void)state;
  open_socks();
  fill_pool(SOCKET_LIMIT);
  for (int i = SOCKS - 1; i >= 0; i--) { /* the last one rests first */
    test_send_all(peers[i], "x", 1);
    tmesh_tcp_read(&socks[i].tcp, 100);
    RUN_UNTIL(socks[i].tcp.is_starved);
  }
  wait_us(350000); /* they keep their places over several looks */
  for (int i = SOCKS - 1; i >= 0; i--) {
    empty_pool(SOCKET_LIMIT - 1);
    test_loop_spin(2);
    assert_int_equal(socks[i].tcp.in.len_bytes, 1); /* at once, not after a rest */
    for (int j = 0; j < i; j++) assert_true(socks[j].tcp.is_starved);
  }
  assert_true(tmesh_list_empty(&test_loop.memory.starved));
  close_socks();
  empty_pool(0);
}

/* Adds to what the socket has to write. */
static void stall_writer_once(struct sock* s) {
  static uint8_t data[65536];
  if (s->tcp.out.len_bytes < 2 * sizeof data) (void)!tmesh_is_ok(tmesh_tcp_send(&s->tcp, data, sizeof data));
}

void stall_writer(struct sock* s) {
  RUN_UNTIL((stall_writer_once(s), s->tcp.is_writing && s->tcp.out.len_bytes >= 65536));
}

static void a_socket_that_nobody_reads_gives_way_when_others_rest(void** state) {
  (void)state;
  open_socks();
  stall_writer(&socks[0]);
  fill_pool(SOCKET_LIMIT);
  test_send_all(peers[1], "x", 1);
  tmesh_tcp_read(&socks[1].tcp, 100);
  RUN_UNTIL(socks[1].tcp.is_starved);
  assert_int_equal(socks[0].broken_count, 0); /* its bytes may still move */
  RUN_UNTIL(socks[0].broken_count == 1);
  assert_int_equal(socks[0].why.code, TMESH_E_NO_MEMORY);
  assert_int_equal(test_loop.memory.evicted_count, 1);
  tmesh_tcp_close(&socks[0].tcp, false);
  RUN_UNTIL(socks[1].tcp.in.len_bytes == 1);
  assert_int_equal(socks[1].broken_count, 0);
  close_socks();
  empty_pool(0);
}

static void a_writer_that_moves_counts_as_waiting_from_then_on(void** state) {
  (void)state;
  static uint8_t buf[16384]; /* less than comes in, so that it fills up again */
  open_socks();
  stall_writer(&socks[0]);
  const uint64_t since_us = socks[0].tcp.waiting_since_us;
  assert_true(since_us > 0);
  RUN_UNTIL((test_recv(peers[0], buf, sizeof buf, &(size_t){0}), stall_writer_once(&socks[0]),
             socks[0].tcp.is_writing && socks[0].tcp.waiting_since_us > since_us));
  close_socks();
}

/* --- back to the system ---------------------------------------------------------------------- */

static bool is_ticking(void) {
  return uv_is_active((uv_handle_t*)&test_loop.memory.timer);
}

static void an_idle_loop_has_no_timer_for_memory_and_is_not_kept_alive_by_one(void** state) {
  (void)state;
  test_loop_spin(3);
  assert_false(is_ticking());
  fill_pool(4);
  empty_pool(0);
  test_loop_spin(1);
  assert_true(is_ticking());
  tmesh_loop_run(&test_loop); /* returns at once */
  assert_int_equal(test_loop.pool.cached_count, 4);
}

static void cached_blocks_go_back_when_the_last_seconds_did_not_need_them(void** state) {
  (void)state;
  fill_pool(40);
  empty_pool(10);
  assert_int_equal(test_loop.pool.cached_count, 30);
  const uint64_t ticks = test_loop.memory.tick_count;
  RUN_UNTIL(test_loop.pool.cached_count < 30);
  assert_true(test_loop.memory.tick_count - ticks > TMESH_MEMORY_PEAKS); /* the peak was kept that long */
  assert_int_equal(test_loop.pool.cached_count, 0);                      /* 10 are live, 10 is the peak */
  RUN_UNTIL(!is_ticking());
  empty_pool(0);
  RUN_UNTIL(!is_ticking() && test_loop.pool.cached_count == 0);
}

static void the_cache_keeps_what_a_burst_per_second_needs(void** state) {
  (void)state;
  for (int burst = 0; burst < 10; burst++) {
    fill_pool(20);
    empty_pool(0);
    const uint64_t ticks = test_loop.memory.tick_count;
    RUN_UNTIL(test_loop.memory.tick_count > ticks);
    assert_int_equal(test_loop.pool.cached_count, 20);
  }
  RUN_UNTIL(!is_ticking());
}

static void the_heap_is_trimmed_once_it_is_calm_and_only_for_much(void** state) {
  (void)state;
  tmesh_memory_freed(&test_loop, TMESH_MEMORY_TRIM_BYTES - 1);
  test_loop_spin(1);
  assert_false(is_ticking());
  tmesh_memory_freed(&test_loop, 1);
  for (int i = 0; i < 2; i++) { /* not while more is freed every second ... */
    const uint64_t ticks = test_loop.memory.tick_count;
    RUN_UNTIL(test_loop.memory.tick_count > ticks);
    tmesh_memory_freed(&test_loop, TMESH_MEMORY_TRIM_BYTES / 4);
  }
  assert_int_equal(test_loop.memory.trims_count, 0);
  RUN_UNTIL(!is_ticking()); /* ... but then */
  assert_int_equal(test_loop.memory.trims_count, 1);
  tmesh_memory_freed(&test_loop, TMESH_MEMORY_TRIM_BYTES);
  for (int i = 0; i < 12; i++) { /* and at the latest after three */
    const uint64_t ticks = test_loop.memory.tick_count;
    RUN_UNTIL(test_loop.memory.tick_count > ticks);
    tmesh_memory_freed(&test_loop, TMESH_MEMORY_TRIM_BYTES);
  }
  assert_in_range(test_loop.memory.trims_count, 4, 5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      MEMORY_TEST(sockets_leave_an_eighth_of_the_budget_to_links),
      MEMORY_TEST(resting_sockets_go_on_in_their_order_as_blocks_come_back),
      MEMORY_TEST(a_socket_that_nobody_reads_gives_way_when_others_rest),
      MEMORY_TEST(a_writer_that_moves_counts_as_waiting_from_then_on),
      MEMORY_TEST(an_idle_loop_has_no_timer_for_memory_and_is_not_kept_alive_by_one),
      MEMORY_TEST(cached_blocks_go_back_when_the_last_seconds_did_not_need_them),
      MEMORY_TEST(the_cache_keeps_what_a_burst_per_second_needs),
      MEMORY_TEST(the_heap_is_trimmed_once_it_is_calm_and_only_for_much),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) + test_memory_streams();
}
