/* Bulk, half-close, resets and cuts over the whole data path. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/core/loop/path_support.h"
#include "tests/core/wire/tls_fixture.h"

static void open_tcp_path(void) {
  int fds[2];
  test_tcp_pair(fds);
  path_open(fds, NULL);
}

static void move_both_ways(uint64_t total) {
  struct flow up = {.from = path.entry.peer, .to = path.target.peer, .seed = 1, .total = total};
  struct flow down = {.from = path.target.peer, .to = path.entry.peer, .seed = 2, .total = total};
  RUN_UNTIL(flow_done(&up) & flow_done(&down));
  assert_int_equal(up.got, total);
  assert_int_equal(down.got, total);
}

static void sixteen_mib_both_ways_are_byte_exact(void** state) {
  (void)state;
  open_tcp_path();
  move_both_ways(16u << 20);
  path_expect_regular_end();
  test_loop_spin(3);
  assert_int_equal(test_loop.pool.live_count, 0);
  path_close_links();
}

static void the_same_over_a_local_socket(void** state) {
  (void)state;
  int fds[2];
  test_unix_pair(fds);
  path_open(fds, NULL);
  move_both_ways(4u << 20);
  path_expect_regular_end();
  path_close_links();
}

static void the_same_over_tls(void** state) {
  (void)state;
  int fds[2];
  struct tls_configs tls = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  test_tcp_pair(fds);
  path_open(fds, &tls);
  move_both_ways(16u << 20);
  path_expect_regular_end();
  path_close_links();
  tls_fixture_free(&tls);
}

static void a_late_answer_after_half_close_is_complete(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_tcp_path();
  test_send_all(path.entry.peer, "request", 7);
  shutdown(path.entry.peer, SHUT_WR);
  RUN_UNTIL(test_recv(path.target.peer, got, sizeof got, &len) == 0);
  assert_int_equal(len, 7);
  const uint64_t until_us = uv_hrtime() / 1000 + 1200000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  struct flow answer = {.from = path.target.peer, .to = path.entry.peer, .seed = 3, .total = 524288};
  RUN_UNTIL(flow_done(&answer));
  assert_int_equal(answer.got, answer.total);
  path_expect_regular_end();
  path_close_links();
}

static void an_upload_of_exactly_one_window_and_eof_ends(void** state) {
  (void)state;
  open_tcp_path();
  move_both_ways(TMESH_WINDOW_INITIAL_BYTES);
  path_expect_regular_end();
  path_close_links();
}

static void a_reset_of_the_target_resets_the_entry(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_tcp_path();
  test_send_all(path.entry.peer, "request", 7);
  RUN_UNTIL(test_recv(path.target.peer, got, sizeof got, &len) == 1 && len == 7);
  test_close_reset(path.target.peer);
  RUN_UNTIL(path.entry.done_count == 1 && path.target.done_count == 1);
  assert_int_equal(path.target.broken, 0);
  assert_int_equal(path.target.why.code, TMESH_E_RESET);
  assert_int_equal(path.entry.broken, 1);
  RUN_UNTIL(path.entry.is_tcp_closed && path.target.is_tcp_closed);
  assert_int_equal(test_recv(path.entry.peer, got, sizeof got, &len), -ECONNRESET);
  assert_int_equal(path.a.down_count + path.b.down_count, 0); /* the link lives (C6) */
  close(path.entry.peer);
  path_close_links();
}

/* What the entry's application reads until its connection ends; how it ended. */
static int read_all(uint8_t* out, size_t cap, size_t* len) {
  int rc = 1;
  *len = 0;
  test_loop_begin("the entry ends");
  while ((rc = test_recv(path.entry.peer, out, cap, len)) > 0) test_loop_step();
  test_loop_end();
  return rc;
}

static void an_early_answer_of_a_target_that_resets_reaches_the_entry(void** state) {
  (void)state;
  enum { TOTAL = 50000 };
  static uint8_t data[TOTAL], got[TOTAL + 1];
  size_t len = 0;
  open_tcp_path();
  test_send_all(path.entry.peer, "a request whose body", 20);
  RUN_UNTIL(test_recv(path.target.peer, got, 9, &len) == 1 && len == 9);
  test_fill(8, 0, data, TOTAL);
  test_send_all(path.target.peer, data, TOTAL);
  close(path.target.peer); /* nobody reads the body: the kernel sends RST */
  test_send_all(path.entry.peer, " goes on", 8);
  assert_int_equal(read_all(got, sizeof got, &len), -ECONNRESET); /* no regular end (R5) */
  assert_int_equal(len, TOTAL);
  test_match(8, 0, got, TOTAL);
  RUN_UNTIL(path.entry.is_tcp_closed && path.target.is_tcp_closed);
  assert_int_equal(path.target.why.code, TMESH_E_RESET);
  close(path.entry.peer);
  path_close_links();
}

static void a_complete_answer_survives_an_upload_that_fails(void** state) {
  (void)state;
  enum { TOTAL = 50000 };
  static uint8_t data[TOTAL], got[TOTAL + 1];
  size_t len = 0;
  open_tcp_path();
  test_send_all(path.entry.peer, "request", 7);
  RUN_UNTIL(test_recv(path.target.peer, got, sizeof got, &len) == 1 && len == 7);
  test_fill(9, 0, data, TOTAL);
  test_send_all(path.target.peer, data, TOTAL);
  close(path.target.peer);
  for (int i = 0; i < 4; i++) { /* what goes on is answered with RST */
    (void)send(path.entry.peer, "more", 4, MSG_NOSIGNAL);
    test_loop_spin(2);
  }
  const int rc = read_all(got, sizeof got, &len);
  assert_true(rc == 0 || rc == -ECONNRESET);
  assert_int_equal(len, TOTAL);
  test_match(9, 0, got, TOTAL);
  RUN_UNTIL(path.entry.is_tcp_closed && path.target.is_tcp_closed);
  close(path.entry.peer);
  path_close_links();
}

static void a_cut_link_resets_both_sockets(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_tcp_path();
  test_send_all(path.entry.peer, "request", 7);
  RUN_UNTIL(test_recv(path.target.peer, got, sizeof got, &len) == 1 && len == 7);
  tmesh_link_fail(&path.a.link, tmesh_err_session(TMESH_E_TIMEOUT));
  test_link_closed(&path.a);
  test_link_closed(&path.b);
  RUN_UNTIL(path.entry.is_tcp_closed && path.target.is_tcp_closed);
  assert_int_equal(path.entry.why.code, TMESH_E_TIMEOUT);
  assert_int_equal(path.target.why.code, TMESH_E_CLOSED);
  assert_int_equal(test_recv(path.entry.peer, got, sizeof got, &len), -ECONNRESET);
  assert_int_equal(test_recv(path.target.peer, got, sizeof got, &len), -ECONNRESET);
  path_close_peers();
}

static void a_target_that_does_not_read_bounds_memory_and_blocks_nobody(void** state) {
  (void)state;
  static uint8_t data[65536];
  open_tcp_path();
  uint64_t sent = 0;
  unsigned idle = 0;
  test_loop_begin("everything is full");
  while (idle < 300) {
    size_t n = test_send(path.entry.peer, data, sizeof data);
    sent += n;
    idle = n == 0 ? idle + 1 : 0;
    (void)uv_run(&test_loop.uv, UV_RUN_NOWAIT);
    /* The two windows of the hop, the two sockets' queues, and rounding. */
    assert_true(tmesh_pool_live_bytes(&test_loop.pool) <= 2 * 262144 + 2 * 131072 + 8 * TMESH_BLOCK_BYTES);
  }
  test_loop_end();
  /* Meanwhile the link answers. */
  assert_true(tmesh_is_ok(tmesh_mux_control(tmesh_link_mux(&path.a.link), TMESH_FRAME_PING, "12345678", 8)));
  RUN_UNTIL(path.a.pong_count == 1);
  shutdown(path.entry.peer, SHUT_WR);
  shutdown(path.target.peer, SHUT_WR);
  uint64_t total = 0;
  int rc = 1;
  test_loop_begin("all read");
  while (rc == 1) {
    size_t len = 0;
    rc = test_recv(path.target.peer, data, sizeof data, &len);
    total += len;
    test_loop_step();
  }
  test_loop_end();
  assert_int_equal(rc, 0);
  assert_int_equal(total, sent);
  path_expect_regular_end();
  path_close_links();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(sixteen_mib_both_ways_are_byte_exact),
      LOOP_TEST(the_same_over_a_local_socket),
      LOOP_TEST(the_same_over_tls),
      LOOP_TEST(a_late_answer_after_half_close_is_complete),
      LOOP_TEST(an_upload_of_exactly_one_window_and_eof_ends),
      LOOP_TEST(a_reset_of_the_target_resets_the_entry),
      LOOP_TEST(an_early_answer_of_a_target_that_resets_reaches_the_entry),
      LOOP_TEST(a_complete_answer_survives_an_upload_that_fails),
      LOOP_TEST(a_cut_link_resets_both_sockets),
      LOOP_TEST(a_target_that_does_not_read_bounds_memory_and_blocks_nobody),
  };
  return cmocka_run_group_tests(tests, tls_fixture_make, NULL);
}
