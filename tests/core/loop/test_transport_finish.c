/* core/loop/transport: ending one direction, and resting, plain and with TLS. */
#include "core/wire/tls.h"
#include "tests/core/loop/transport_support.h"
#include "tests/core/wire/tls_fixture.h"

static struct wire c, s;
static struct tls_configs configs;
static bool is_tls;

static int open_plain(void** state) {
  is_tls = false;
  return test_loop_open(state);
}

static int open_tls(void** state) {
  is_tls = true;
  configs = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  return test_loop_open(state);
}

static int close_loop(void** state) {
  if (is_tls) tls_fixture_free(&configs);
  return test_loop_close(state);
}
#define BOTH(f)                                     \
  {"plain_" #f, f, open_plain, close_loop, NULL}, { \
    "tls_" #f, f, open_tls, close_loop, NULL        \
  }

static void open_ready(void) {
  int fds[2];
  test_tcp_pair(fds);
  wire_open(&s, fds[1], is_tls ? configs.server : NULL, true, NULL);
  wire_open(&c, fds[0], is_tls ? configs.client : NULL, false, TLS_NAME);
  RUN_UNTIL(c.ready_count == 1 && s.ready_count == 1);
  assert_true(tmesh_is_ok(c.ready) && tmesh_is_ok(s.ready));
  wire_read(&c, true);
  wire_read(&s, true);
}

static struct tmesh_status finish(struct wire* w) {
  w->is_inside = true;
  const struct tmesh_status st = tmesh_transport_finish(&w->t);
  w->is_inside = false;
  return st;
}

static void close_both(void) {
  wire_close(&c, false);
  wire_close(&s, false);
}

static void after_finish_the_peer_sees_the_end_and_may_go_on_writing(void** state) {
  (void)state;
  enum { TOTAL = 1 << 20 };
  static uint8_t data[TOTAL];
  test_fill(7, 0, data, TOTAL);
  open_ready();
  assert_true(tmesh_is_ok(wire_write(&c, "question", 8)));
  RUN_UNTIL(c.written_count == 1);
  assert_true(tmesh_is_ok(finish(&c)));
  RUN_UNTIL(s.eof_count == 1);
  assert_int_equal(s.got_bytes, 8);
  RUN_UNTIL(c.written_count == 2); /* the end went too */
  assert_true(tmesh_is_ok(wire_write(&s, data, TOTAL)));
  RUN_UNTIL(c.got_bytes == TOTAL);
  test_match(7, 0, c.got, TOTAL);
  assert_true(tmesh_is_ok(finish(&s)));
  RUN_UNTIL(c.eof_count == 1);
  assert_int_equal(c.error_count + s.error_count, 0);
  wire_close(&c, true);
  wire_close(&s, true);
}

static void after_finish_nothing_is_written(void** state) {
  (void)state;
  open_ready();
  assert_true(tmesh_is_ok(finish(&c)));
  assert_int_equal(wire_write(&c, "x", 1).code, TMESH_E_STATE);
  assert_int_equal(finish(&c).code, TMESH_E_STATE);
  RUN_UNTIL(c.written_count == 1);
  assert_int_equal(wire_write(&c, "x", 1).code, TMESH_E_STATE);
  assert_int_equal(finish(&c).code, TMESH_E_STATE);
  RUN_UNTIL(s.eof_count == 1);
  assert_int_equal(s.got_bytes, 0);
  close_both();
}

static void finish_waits_for_no_write_under_way(void** state) {
  (void)state;
  static uint8_t data[8 << 20];
  open_ready();
  wire_read(&s, false);
  assert_true(tmesh_is_ok(wire_write(&c, data, sizeof data)));
  test_loop_spin(20);
  assert_int_equal(c.written_count, 0);
  assert_int_equal(finish(&c).code, TMESH_E_STATE);
  close_both();
}

static void a_finish_that_crosses_the_close_ends_clean(void** state) {
  (void)state;
  for (unsigned steps = 0; steps < 12; steps++) {
    open_ready();
    assert_true(tmesh_is_ok(finish(&c)));
    if (steps % 4 == 1) assert_true(tmesh_is_ok(finish(&s)));
    test_loop_spin(steps / 2);
    wire_start_close(&c, steps % 2 == 0);
    wire_start_close(&s, steps % 3 == 0);
    wire_closed(&c);
    wire_closed(&s);
  }
}

/* Bytes that the socket gave up already come, the rest stays in the kernel. */
static void a_resting_transport_takes_no_more_but_delivers_what_it_has(void** state) {
  (void)state;
  enum { TOTAL = 1 << 20 };
  static uint8_t data[TOTAL];
  test_fill(3, 0, data, TOTAL);
  open_ready();
  wire_read(&c, false);
  assert_true(tmesh_is_ok(wire_write(&s, data, TOTAL)));
  test_loop_spin(20);
  assert_int_equal(c.got_bytes, 0);
  c.rests = true;
  wire_read(&c, true);
  RUN_UNTIL(c.got_bytes > 0);
  test_loop_spin(20);
  assert_null(c.t.stash);
  assert_true(c.got_bytes <= TMESH_READ_BUFFER_BYTES + TMESH_TLS_PLAIN_MAX_BYTES);
  if (is_tls) assert_true(c.data_count > 1); /* several records of one read */
  const size_t first_bytes = c.got_bytes;
  wire_read(&c, true);
  RUN_UNTIL(c.got_bytes > first_bytes);
  c.rests = false;
  wire_read(&c, true);
  RUN_UNTIL(c.got_bytes == TOTAL);
  test_match(3, 0, c.got, TOTAL);
  close_both();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      BOTH(after_finish_the_peer_sees_the_end_and_may_go_on_writing),
      BOTH(after_finish_nothing_is_written),
      BOTH(finish_waits_for_no_write_under_way),
      BOTH(a_finish_that_crosses_the_close_ends_clean),
      BOTH(a_resting_transport_takes_no_more_but_delivers_what_it_has),
  };
  return cmocka_run_group_tests(tests, tls_fixture_make, NULL);
}
