/* core/loop/tcp: what a peer sent before it broke the connection still arrives, and a
 * cut stream is never taken for a complete one (LESSONS R5, P-B8). */
#include <stdlib.h>

#include "tests/core/loop/tcp_support.h"

static struct sock s;
static int peer;

static void open_pair(void) {
  int fds[2];
  test_tcp_pair(fds);
  sock_open(&s, fds[0]);
  peer = fds[1];
}

static int descriptor(void) {
  uv_os_fd_t fd;
  assert_int_equal(uv_fileno((const uv_handle_t*)&s.tcp.tcp, &fd), 0);
  return fd;
}

static void queue(const void* data, size_t n) {
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&s.tcp.out, data, n)));
  struct tmesh_end end = tmesh_tcp_end(&s.tcp);
  end.ops->added(end.impl);
}

/* Closes as a server does that answered and does not read the rest of the request. */
static void answer_and_close(const char* answer) {
  test_send_all(descriptor(), "rest of a request", 17);
  test_send_all(peer, answer, strlen(answer));
  close(peer); /* unread bytes: the kernel sends RST */
}

static void expect_answer_then(unsigned eof_count) {
  RUN_UNTIL(s.broken_count == 1);
  assert_int_equal(s.tcp.in.len_bytes, 6);
  assert_int_equal(s.eof_count, eof_count);
  assert_int_equal(s.why.code, TMESH_E_RESET);
  test_loop_spin(5);
  assert_int_equal(s.broken_count, 1);
  assert_int_equal(tmesh_tcp_end(&s.tcp).ops->room(&s.tcp), 0);
  assert_int_equal(tmesh_tcp_send(&s.tcp, "x", 1).code, TMESH_E_STATE);
  sock_close(&s, true);
}

static void a_reset_behind_bytes_is_no_regular_end(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 32768);
  answer_and_close("answer");
  expect_answer_then(0);
}

static void a_reset_behind_bytes_that_just_fit_is_no_regular_end(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 6);
  answer_and_close("answer");
  RUN_UNTIL(s.tcp.paused_since_us != 0);
  tmesh_tcp_read(&s.tcp, 7);
  expect_answer_then(0);
}

static void a_failed_write_leaves_what_the_peer_sent(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 32768);
  answer_and_close("answer");
  queue("more of the request", 19); /* written before the poll that reads the answer */
  expect_answer_then(0);
}

static void a_failed_waiting_write_leaves_what_the_peer_sent(void** state) {
  (void)state;
  static uint8_t piece[32768];
  open_pair();
  test_loop_begin("the kernel is full");
  while (!s.tcp.is_writing) {
    queue(piece, sizeof piece);
    test_loop_step();
  }
  test_loop_end();
  test_send_all(peer, "answer", 6);
  close(peer);
  tmesh_tcp_read(&s.tcp, 32768);
  expect_answer_then(0);
}

static void a_failed_finish_leaves_what_the_peer_sent(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 32768);
  answer_and_close("answer");
  tmesh_tcp_finish(&s.tcp);
  expect_answer_then(0);
}

static void a_failed_write_after_a_regular_end_leaves_that_end(void** state) {
  (void)state;
  open_pair();
  test_send_all(peer, "answer", 6);
  close(peer);                             /* nothing unread: FIN */
  test_send_all(descriptor(), "first", 5); /* is answered with RST */
  tmesh_tcp_read(&s.tcp, 32768);
  queue("second", 6);
  expect_answer_then(1);
}

static void a_failed_write_waits_for_the_owner_to_take_the_rest(void** state) {
  (void)state;
  enum { TOTAL = 40000 }; /* the kernel of the other side took it all */
  static uint8_t data[TOTAL];
  uint8_t buf[5000];
  size_t total = 0;
  open_pair();
  tmesh_tcp_read(&s.tcp, 10000);
  test_send_all(descriptor(), "rest of a request", 17);
  test_fill(4, 0, data, TOTAL);
  test_send_all(peer, data, TOTAL);
  close(peer);
  queue("more of the request", 19);
  struct tmesh_end end = tmesh_tcp_end(&s.tcp);
  test_loop_begin("all read");
  while (s.broken_count == 0) {
    size_t n = tmesh_chunkq_read(&s.tcp.in, buf, sizeof buf);
    test_match(4, total, buf, n);
    total += n;
    if (n > 0) end.ops->consumed(end.impl, n);
    test_loop_step();
  }
  test_loop_end();
  assert_int_equal(total + s.tcp.in.len_bytes, TOTAL);
  assert_int_equal(s.eof_count, 0);
  sock_close(&s, false);
}

static void a_failed_write_of_a_socket_nobody_reads_breaks_it(void** state) {
  (void)state;
  open_pair();
  answer_and_close("answer");
  queue("more of the request", 19);
  RUN_UNTIL(s.broken_count == 1);
  sock_close(&s, false);
}

static void a_peer_that_ended_and_then_went_is_noticed(void** state) {
  (void)state;
  open_pair();
  test_loop.paused_probe_us = 100000;
  tmesh_tcp_read(&s.tcp, 100);
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(s.eof_count == 1);
  test_loop_spin(3);
  test_close_reset(peer);
  RUN_UNTIL(s.broken_count == 1);
  assert_int_equal(s.why.code, TMESH_E_RESET);
  sock_close(&s, false);
}

static void a_peer_that_ended_and_stays_is_left_alone(void** state) {
  (void)state;
  open_pair();
  test_loop.paused_probe_us = 100000;
  test_loop.stalled_close_us = 200000;
  tmesh_tcp_read(&s.tcp, 100);
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(s.eof_count == 1);
  const uint64_t until_us = uv_hrtime() / 1000 + 700000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  assert_int_equal(s.broken_count, 0);
  tmesh_tcp_finish(&s.tcp);
  RUN_UNTIL(s.all_written);
  test_loop_spin(5);
  assert_int_equal(s.broken_count, 0);
  sock_close(&s, true);
  close(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(a_reset_behind_bytes_is_no_regular_end),
      LOOP_TEST(a_reset_behind_bytes_that_just_fit_is_no_regular_end),
      LOOP_TEST(a_failed_write_leaves_what_the_peer_sent),
      LOOP_TEST(a_failed_waiting_write_leaves_what_the_peer_sent),
      LOOP_TEST(a_failed_finish_leaves_what_the_peer_sent),
      LOOP_TEST(a_failed_write_after_a_regular_end_leaves_that_end),
      LOOP_TEST(a_failed_write_waits_for_the_owner_to_take_the_rest),
      LOOP_TEST(a_failed_write_of_a_socket_nobody_reads_breaks_it),
      LOOP_TEST(a_peer_that_ended_and_then_went_is_noticed),
      LOOP_TEST(a_peer_that_ended_and_stays_is_left_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
