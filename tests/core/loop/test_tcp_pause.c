/* core/loop/tcp: pausing and resuming, the deaf socket, and a pool without blocks. */
#include "tests/core/loop/tcp_support.h"

static struct sock s;
static int peer;

static void open_pair(void) {
  int fds[2];
  test_tcp_pair(fds);
  sock_open(&s, fds[0]);
  peer = fds[1];
  /* The tests cannot wait for seconds; the rules are the same. */
  test_loop.paused_probe_us = 100000;
  test_loop.stalled_close_us = 400000;
}

static void open_unix_pair(void) {
  int fds[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
  sock_open(&s, fds[0]);
  peer = fds[1];
  test_loop.paused_probe_us = 100000;
  test_loop.stalled_close_us = 400000;
}

/* Paused with bytes in `in` and more in the kernel. */
static void pause_it(void) {
  static uint8_t data[100000];
  test_send_all(peer, data, sizeof data);
  tmesh_tcp_read(&s.tcp, 1000);
  RUN_UNTIL(s.tcp.paused_since_us != 0);
  assert_int_equal(s.tcp.in.len_bytes, 1000);
  assert_false(s.tcp.is_reading);
}

static void reading_pauses_at_the_bound_and_resumes_when_bytes_moved(void** state) {
  (void)state;
  uint8_t buf[1000];
  size_t total = 0;
  open_pair();
  pause_it();
  struct tmesh_end end = tmesh_tcp_end(&s.tcp);
  test_loop_begin("all read");
  while (total < 100000) {
    size_t n = tmesh_chunkq_read(&s.tcp.in, buf, 700);
    total += n;
    if (n > 0) end.ops->consumed(end.impl, n);
    test_loop_step();
    assert_true(s.tcp.in.len_bytes <= 1000);
  }
  test_loop_end();
  assert_true(s.tcp.is_reading);
  assert_int_equal(s.tcp.paused_since_us, 0);
  assert_false(tmesh_alarm_is_set(&s.tcp.alarm));
  sock_close(&s, false);
  close(peer);
}

static void a_larger_bound_resumes_reading(void** state) {
  (void)state;
  open_pair();
  pause_it();
  tmesh_tcp_read(&s.tcp, 32768);
  RUN_UNTIL(s.tcp.in.len_bytes == 32768);
  sock_close(&s, false);
  close(peer);
}

static void a_paused_socket_notices_a_reset(void** state) {
  (void)state;
  open_pair();
  pause_it();
  test_close_reset(peer);
  RUN_UNTIL(s.broken_count == 1);
  assert_int_equal(s.why.code, TMESH_E_RESET);
  sock_close(&s, false);
}

static void a_paused_socket_with_a_living_peer_stays(void** state) {
  (void)state;
  open_pair();
  pause_it();
  const uint64_t until_us = uv_hrtime() / 1000 + 900000; /* over twice the stalled time */
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  assert_int_equal(s.broken_count + s.eof_count, 0);
  assert_int_equal(s.tcp.half_closed_us, 0);
  sock_close(&s, false);
  close(peer);
}

static void a_paused_socket_whose_peer_ended_is_broken_after_the_stalled_time(void** state) {
  (void)state;
  open_pair();
  pause_it();
  const uint64_t from_us = uv_hrtime() / 1000;
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(s.broken_count == 1);
  assert_true(uv_hrtime() / 1000 - from_us >= test_loop.stalled_close_us);
  assert_int_equal(s.why.code, TMESH_E_TIMEOUT);
  sock_close(&s, false);
  close(peer);
}

static void a_paused_unix_socket_whose_peer_is_gone_is_broken_after_the_stalled_time(void** state) {
  (void)state;
  open_unix_pair();
  pause_it();
  const uint64_t from_us = uv_hrtime() / 1000;
  close(peer);
  RUN_UNTIL(s.broken_count == 1);
  assert_true(uv_hrtime() / 1000 - from_us >= test_loop.stalled_close_us);
  assert_int_equal(s.why.code, TMESH_E_TIMEOUT);
  sock_close(&s, false);
}

static void a_paused_unix_socket_with_a_living_peer_stays(void** state) {
  (void)state;
  open_unix_pair();
  pause_it();
  const uint64_t until_us = uv_hrtime() / 1000 + 900000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  assert_int_equal(s.broken_count + s.eof_count, 0);
  assert_int_equal(s.tcp.half_closed_us, 0);
  sock_close(&s, false);
  close(peer);
}

static void half_close_while_paused_loses_nothing_when_reading_resumes(void** state) {
  (void)state;
  open_pair();
  pause_it();
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(s.tcp.half_closed_us != 0);
  s.takes = true;
  s.read_bytes = s.tcp.in.len_bytes;
  tmesh_chunkq_consume(&s.tcp.in, s.tcp.in.len_bytes);
  tmesh_tcp_read(&s.tcp, 32768);
  RUN_UNTIL(s.eof_count == 1);
  assert_int_equal(s.read_bytes, 100000);
  assert_int_equal(s.broken_count, 0);
  sock_close(&s, false);
  close(peer);
}

static void a_connection_both_sides_ended_is_not_gone_while_bytes_wait(void** state) {
  (void)state;
  open_pair();
  pause_it();
  tmesh_tcp_finish(&s.tcp);
  RUN_UNTIL(s.all_written);
  shutdown(peer, SHUT_WR); /* the kernel is done with it, our 99,000 bytes are not */
  RUN_UNTIL(s.tcp.half_closed_us != 0);
  assert_int_equal(s.broken_count, 0);
  s.takes = true;
  tmesh_chunkq_consume(&s.tcp.in, s.tcp.in.len_bytes);
  tmesh_tcp_read(&s.tcp, 32768);
  RUN_UNTIL(s.eof_count == 1);
  assert_int_equal(s.read_bytes, 99000);
  sock_close(&s, true);
  close(peer);
}

static void a_pool_without_blocks_pauses_reading_and_does_not_spin(void** state) {
  (void)state;
  struct tmesh_block* all[4096];
  size_t count = 0;
  open_pair();
  while ((all[count] = tmesh_pool_get(&test_loop.pool)) != NULL) count++;
  test_send_all(peer, "hello", 5);
  tmesh_tcp_read(&s.tcp, 100);
  RUN_UNTIL(s.tcp.is_starved);
  const uint64_t refused = test_loop.pool.refused_count;
  const uint64_t until_us = uv_hrtime() / 1000 + 450000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  assert_true(test_loop.pool.refused_count - refused <= 6); /* about one try per 100 ms */
  assert_int_equal(s.broken_count, 0);
  while (count > 0) tmesh_pool_put(&test_loop.pool, all[--count]);
  RUN_UNTIL(s.tcp.in.len_bytes == 5);
  sock_close(&s, false);
  close(peer);
}

static void close_while_paused_or_starved_is_clean(void** state) {
  (void)state;
  struct tmesh_block* all[4096];
  size_t count = 0;
  open_pair();
  pause_it();
  sock_close(&s, false);
  close(peer);
  open_pair();
  while ((all[count] = tmesh_pool_get(&test_loop.pool)) != NULL) count++;
  test_send_all(peer, "hello", 5);
  tmesh_tcp_read(&s.tcp, 100);
  RUN_UNTIL(s.tcp.is_starved);
  close(peer);
  sock_close(&s, true); /* reads what comes into the shared buffer: no block needed */
  while (count > 0) tmesh_pool_put(&test_loop.pool, all[--count]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(reading_pauses_at_the_bound_and_resumes_when_bytes_moved),
      LOOP_TEST(a_larger_bound_resumes_reading),
      LOOP_TEST(a_paused_socket_notices_a_reset),
      LOOP_TEST(a_paused_socket_with_a_living_peer_stays),
      LOOP_TEST(a_paused_socket_whose_peer_ended_is_broken_after_the_stalled_time),
      LOOP_TEST(a_paused_unix_socket_whose_peer_is_gone_is_broken_after_the_stalled_time),
      LOOP_TEST(a_paused_unix_socket_with_a_living_peer_stays),
      LOOP_TEST(half_close_while_paused_loses_nothing_when_reading_resumes),
      LOOP_TEST(a_connection_both_sides_ended_is_not_gone_while_bytes_wait),
      LOOP_TEST(a_pool_without_blocks_pauses_reading_and_does_not_spin),
      LOOP_TEST(close_while_paused_or_starved_is_clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
