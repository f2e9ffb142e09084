/* core/loop/tcp: both ways of closing, at any moment. */
#include <errno.h>
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

static void queue(const void* data, size_t n) {
  assert_true(tmesh_is_ok(tmesh_chunkq_append(&s.tcp.out, data, n)));
}

static void an_abrupt_close_sends_rst(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_pair();
  queue("never", 5);
  sock_close(&s, false);
  assert_int_equal(test_recv(peer, got, sizeof got, &len), -ECONNRESET);
  assert_int_equal(len, 0);
  close(peer);
}

static void an_abrupt_close_after_fin_still_sends_rst(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_pair();
  tmesh_tcp_finish(&s.tcp);
  RUN_UNTIL(s.all_written);
  sock_close(&s, false);
  /* The FIN is read as the end; that the connection is gone shows to who writes. */
  int error = 0;
  socklen_t error_len = sizeof error;
  assert_int_equal(test_recv(peer, got, sizeof got, &len), 0);
  assert_int_equal(getsockopt(peer, SOL_SOCKET, SO_ERROR, &error, &error_len), 0);
  assert_int_equal(error, EPIPE);
  close(peer);
}

static void a_graceful_close_delivers_the_queue_though_the_peers_bytes_are_unread(void** state) {
  (void)state;
  enum { TOTAL = 100000 };
  static uint8_t data[TOTAL], got[TOTAL + 1];
  size_t len = 0;
  open_pair();
  test_fill(3, 0, data, TOTAL);
  queue(data, TOTAL);
  test_send_all(peer, "not wanted", 10);
  tmesh_tcp_close(&s.tcp, true);
  assert_int_equal(s.closed_count, 0);
  RUN_UNTIL(test_recv(peer, got, sizeof got, &len) == 0);
  assert_int_equal(len, TOTAL);
  test_match(3, 0, got, TOTAL);
  close(peer);
  const uint64_t from_us = uv_hrtime() / 1000;
  RUN_UNTIL(s.closed_count == 1);
  assert_true(uv_hrtime() / 1000 - from_us < TMESH_TCP_GRACE_US / 4); /* the peer's end is seen */
  assert_int_equal(s.events_after_close, 0);
}

static void a_graceful_close_delivers_the_queue_to_a_peer_that_ended_already(void** state) {
  (void)state;
  enum { TOTAL = 12 << 20 };
  uint8_t* data = malloc(TOTAL);
  uint8_t* got = malloc(TOTAL + 1);
  size_t len = 0;
  open_pair();
  test_fill(6, 0, data, TOTAL);
  queue(data, TOTAL);
  shutdown(peer, SHUT_WR);
  tmesh_tcp_close(&s.tcp, true);
  test_loop_spin(20); /* the FIN is seen while the kernel is full */
  assert_int_equal(s.closed_count, 0);
  RUN_UNTIL(test_recv(peer, got, TOTAL + 1, &len) == 0);
  assert_int_equal(len, TOTAL);
  test_match(6, 0, got, TOTAL);
  RUN_UNTIL(s.closed_count == 1);
  free(data);
  free(got);
  close(peer);
}

static void a_graceful_close_of_a_done_connection_is_immediate(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 10);
  tmesh_tcp_finish(&s.tcp);
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(s.all_written && s.eof_count == 1);
  tmesh_tcp_close(&s.tcp, true);
  test_loop_spin(2);
  assert_int_equal(s.closed_count, 1);
  close(peer);
}

static void an_abrupt_close_overtakes_a_graceful_one(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_pair();
  tmesh_tcp_close(&s.tcp, true);
  test_loop_spin(2);
  assert_int_equal(s.closed_count, 0); /* the peer has not ended */
  sock_close(&s, false);
  assert_true(test_recv(peer, got, sizeof got, &len) <= 0);
  close(peer);
}

static void a_reset_ends_a_graceful_close(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_close(&s.tcp, true);
  test_loop_spin(2);
  test_close_reset(peer);
  RUN_UNTIL(s.closed_count == 1);
  assert_int_equal(s.events_after_close, 0);
}

static void close_during_a_write_is_clean(void** state) {
  (void)state;
  uint8_t piece[32768] = {0};
  open_pair();
  struct tmesh_end end = tmesh_tcp_end(&s.tcp);
  test_loop_begin("the kernel is full");
  while (!s.tcp.is_writing) {
    if (end.ops->room(end.impl) >= sizeof piece) queue(piece, sizeof piece);
    end.ops->added(end.impl);
    test_loop_step();
  }
  test_loop_end();
  sock_close(&s, false);
  close(peer);
}

static void close_from_inside_a_callback_is_clean(void** state) {
  (void)state;
  open_pair();
  s.closes_in_readable = true;
  tmesh_tcp_read(&s.tcp, 10);
  test_send_all(peer, "more than fits", 14);
  RUN_UNTIL(s.closed_count == 1);
  assert_int_equal(s.readable_count, 1);
  close(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(an_abrupt_close_sends_rst),
      LOOP_TEST(an_abrupt_close_after_fin_still_sends_rst),
      LOOP_TEST(a_graceful_close_delivers_the_queue_though_the_peers_bytes_are_unread),
      LOOP_TEST(a_graceful_close_delivers_the_queue_to_a_peer_that_ended_already),
      LOOP_TEST(a_graceful_close_of_a_done_connection_is_immediate),
      LOOP_TEST(an_abrupt_close_overtakes_a_graceful_one),
      LOOP_TEST(a_reset_ends_a_graceful_close),
      LOOP_TEST(close_during_a_write_is_clean),
      LOOP_TEST(close_from_inside_a_callback_is_clean),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
