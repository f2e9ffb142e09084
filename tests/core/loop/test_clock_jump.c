/* core/loop when its clock jumps: a process that was stopped for hours must not take the
 * silence of its own absence for that of others. The time of day is never asked for. */
#include <sys/socket.h>
#include <unistd.h>

#include "core/loop/memory.h"
#include "tests/core/loop/tcp_support.h"

#define HOURS_US UINT64_C(10800000000)

static uint64_t offset_us;

uint64_t __real_uv_hrtime(void);
uint64_t __wrap_uv_hrtime(void);

uint64_t __wrap_uv_hrtime(void) {
  return __real_uv_hrtime() + offset_us * 1000;
}

static struct sock s;
static int peer;

static int open_pair(void** state) {
  int fds[2];
  offset_us = 0;
  if (test_loop_open(state) != 0) return -1;
  test_loop.paused_probe_us = 100000;
  test_loop.stalled_close_us = 400000;
  test_tcp_pair(fds);
  sock_open(&s, fds[0]);
  peer = fds[1];
  return 0;
}
#define JUMP_TEST(f) cmocka_unit_test_setup_teardown(f, open_pair, test_loop_close)

static void jump(void) {
  offset_us += HOURS_US;
}

static void end_pair(void) {
  sock_close(&s, false);
  close(peer);
}

struct judge {
  struct tmesh_alarm alarm;
  bool has_run;
  size_t bytes_then;
};

static void run_judge(struct tmesh_alarm* alarm) {
  struct judge* j = TMESH_CONTAINER(alarm, struct judge, alarm);
  j->has_run = true;
  j->bytes_then = s.tcp.in.len_bytes;
}

static void an_alarm_that_is_due_runs_behind_what_waits_in_sockets(void** state) {
  (void)state;
  struct judge j = {0};
  tmesh_alarm_init(&j.alarm, run_judge);
  tmesh_tcp_read(&s.tcp, 100);
  tmesh_alarm_set(&test_loop, &j.alarm, tmesh_loop_now_us(&test_loop) + 1000000);
  test_loop_spin(1);
  test_send_all(peer, "alive", 5);
  jump();
  tmesh_alarm_set(&test_loop, &j.alarm, 0); /* its timer is due before anything is read */
  RUN_UNTIL(j.has_run);
  assert_int_equal(j.bytes_then, 5);
  end_pair();
}

/* The deadline passes before the loop came round to the last bytes. */
static void a_graceful_close_is_not_cut_short(void** state) {
  (void)state;
  uint8_t buf[8];
  size_t len = 0;
  tmesh_tcp_read(&s.tcp, 100);
  assert_true(tmesh_is_ok(tmesh_tcp_send(&s.tcp, "answer", 6)));
  tmesh_tcp_close(&s.tcp, true);
  shutdown(peer, SHUT_WR);
  jump();
  tmesh_alarm_set(&test_loop, &s.tcp.alarm, 0);
  RUN_UNTIL(s.closed_count == 1);
  assert_int_equal(test_recv(peer, buf, sizeof buf, &len), 0); /* the end, no reset */
  assert_int_equal(len, 6);
  close(peer);
}

/* Paused behind bytes that nobody takes, and the other end sends no more. */
static void stall(void) {
  static uint8_t data[100000];
  test_send_all(peer, data, sizeof data);
  tmesh_tcp_read(&s.tcp, 1000);
  RUN_UNTIL(s.tcp.paused_since_us != 0);
  shutdown(peer, SHUT_WR);
}

static void a_stalled_socket_gets_its_whole_time_after_the_jump(void** state) {
  (void)state;
  stall();
  RUN_UNTIL(s.tcp.half_closed_us != 0);
  const uint64_t seen_us = s.tcp.half_closed_us;
  jump();
  RUN_UNTIL(s.tcp.half_closed_us != seen_us || s.broken_count > 0);
  assert_int_equal(s.broken_count, 0);
  RUN_UNTIL(s.broken_count == 1); /* it is stalled, after all */
  assert_int_equal(s.why.code, TMESH_E_TIMEOUT);
  end_pair();
}

static void an_end_that_is_first_seen_after_the_jump_counts_from_then(void** state) {
  (void)state;
  stall();
  jump();
  RUN_UNTIL(s.tcp.half_closed_us != 0 || s.broken_count > 0);
  assert_int_equal(s.broken_count, 0);
  RUN_UNTIL(s.broken_count == 1);
  assert_int_equal(s.why.code, TMESH_E_TIMEOUT);
  end_pair();
}

static void nobody_is_stalled_for_memory_because_the_process_was(void** state) {
  (void)state;
  static uint8_t data[65536];
  int fds[2];
  struct sock rests;
  test_loop.pool.budget_count = 16;
  test_tcp_pair(fds);
  sock_open(&rests, fds[0]);
  RUN_UNTIL(
      ((void)!tmesh_is_ok(s.tcp.out.len_bytes < 2 * sizeof data ? tmesh_tcp_send(&s.tcp, data, sizeof data)
                                                                : tmesh_ok()),
       s.tcp.is_writing && s.tcp.out.len_bytes >= sizeof data));
  struct tmesh_block* taken[16];
  size_t count = 0;
  while (tmesh_memory_may_read(&test_loop)) taken[count++] = tmesh_pool_get(&test_loop.pool);
  test_send_all(fds[1], "x", 1);
  tmesh_tcp_read(&rests.tcp, 100);
  RUN_UNTIL(rests.tcp.is_starved);
  jump();
  const uint64_t looks = test_loop.memory.looks_count;
  RUN_UNTIL(test_loop.memory.looks_count >= looks + 2);
  assert_int_equal(test_loop.memory.evicted_count, 0);
  RUN_UNTIL(test_loop.memory.evicted_count == 1); /* a second later it is */
  while (count > 0) tmesh_pool_put(&test_loop.pool, taken[--count]);
  sock_close(&rests, false);
  close(fds[1]);
  end_pair();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      JUMP_TEST(an_alarm_that_is_due_runs_behind_what_waits_in_sockets),
      JUMP_TEST(a_graceful_close_is_not_cut_short),
      JUMP_TEST(a_stalled_socket_gets_its_whole_time_after_the_jump),
      JUMP_TEST(an_end_that_is_first_seen_after_the_jump_counts_from_then),
      JUMP_TEST(nobody_is_stalled_for_memory_because_the_process_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
