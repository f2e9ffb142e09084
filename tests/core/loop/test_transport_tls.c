/* core/loop/transport with TLS: two transports on one loop, over loopback. */
#include "tests/core/loop/transport_support.h"
#include "tests/core/wire/tls_fixture.h"

static struct wire c, s;
static struct tls_configs configs;

static void open_with(const char* name) {
  int fds[2];
  test_tcp_pair(fds);
  wire_open(&s, fds[1], configs.server, true, NULL);
  wire_open(&c, fds[0], configs.client, false, name);
}

static int open_configs(void** state) {
  configs = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  return test_loop_open(state);
}

static int close_configs(void** state) {
  tls_fixture_free(&configs);
  return test_loop_close(state);
}
#define TLS_TEST(f) cmocka_unit_test_setup_teardown(f, open_configs, close_configs)

static void open_ready(void) {
  open_with(TLS_NAME);
  RUN_UNTIL(c.ready_count == 1 && s.ready_count == 1);
  assert_true(tmesh_is_ok(c.ready) && tmesh_is_ok(s.ready));
}

static void close_both(void) {
  wire_close(&c, false);
  wire_close(&s, false);
}

static void bytes_pass_both_ways(void** state) {
  (void)state;
  enum { TOTAL = 3 << 20 };
  uint8_t* data = malloc(TOTAL);
  test_fill(1, 0, data, TOTAL);
  open_ready();
  wire_read(&c, true);
  wire_read(&s, true);
  assert_true(tmesh_is_ok(wire_write(&c, data, TOTAL)));
  assert_true(tmesh_is_ok(wire_write(&s, data, TOTAL)));
  RUN_UNTIL(c.got_bytes == TOTAL && s.got_bytes == TOTAL);
  RUN_UNTIL(c.written_count == 1 && s.written_count == 1);
  test_match(1, 0, c.got, TOTAL);
  test_match(1, 0, s.got, TOTAL);
  assert_true(c.t.stats.bytes_out > TOTAL); /* on the wire */
  free(data);
  close_both();
}

static void tls_1_2_works_too(void** state) {
  (void)state;
  struct tls_configs newer = configs;
  configs = tls_fixture_configs(TMESH_TLS_VERSION_1_2);
  open_ready();
  wire_read(&s, true);
  assert_true(tmesh_is_ok(wire_write(&c, "hello", 5)));
  RUN_UNTIL(s.got_bytes == 5);
  close_both();
  tls_fixture_free(&configs);
  configs = newer;
}

static void a_wrong_name_fails_the_clients_ready_with_tls_verify(void** state) {
  (void)state;
  open_with("other.example");
  RUN_UNTIL(c.ready_count == 1);
  assert_int_equal(c.ready.code, TMESH_E_TLS_VERIFY);
  assert_int_equal(c.error_count, 0);
  wire_close(&c, true);
  RUN_UNTIL(s.ready_count == 1 || s.error_count == 1);
  wire_close(&s, true);
}

static void garbage_fails_the_handshake(void** state) {
  (void)state;
  int fds[2];
  test_tcp_pair(fds);
  wire_open(&s, fds[1], configs.server, true, NULL);
  test_send_all(fds[0], "GET / HTTP/1.1\r\n\r\n", 18);
  RUN_UNTIL(s.ready_count == 1);
  assert_int_equal(s.ready.code, TMESH_E_TLS);
  assert_int_equal(s.data_count, 0);
  wire_close(&s, false);
  close(fds[0]);
}

static void a_peer_that_leaves_in_the_handshake_is_closed(void** state) {
  (void)state;
  int fds[2];
  test_tcp_pair(fds);
  wire_open(&c, fds[0], configs.client, false, TLS_NAME);
  test_loop_spin(3);
  close(fds[1]);
  RUN_UNTIL(c.ready_count == 1);
  assert_int_equal(c.ready.code, TMESH_E_CLOSED);
  wire_close(&c, true);
}

/* From its Finished on (hello, key exchange, cipher change, Finished) the client gets no turn, as if others
 * had used the budget up. */
static void hold_client(uv_check_t* check) {
  unsigned* flights = check->data;
  static uint64_t sent_bytes;
  if (c.t.stats.bytes_out != sent_bytes) (*flights)++;
  sent_bytes = c.t.stats.bytes_out;
  if (*flights >= 4) tmesh_flush_cancel(&c.t.step);
}

static void a_peer_that_leaves_right_after_the_handshake_is_noticed(void** state) {
  (void)state;
  static uv_check_t check; /* runs before the loop's own, which does the steps */
  unsigned flights = 0;
  struct tls_configs newer = configs;
  configs = tls_fixture_configs(TMESH_TLS_VERSION_1_2); /* here the server has the last word */
  open_with(TLS_NAME);
  assert_int_equal(uv_check_init(&test_loop.uv, &check), 0);
  check.data = &flights;
  assert_int_equal(uv_check_start(&check, hold_client), 0);
  RUN_UNTIL(s.ready_count == 1);
  wire_close(&s, false);
  RUN_UNTIL(c.t.is_eof);
  assert_int_equal(c.ready_count, 0);
  uv_close((uv_handle_t*)&check, NULL);
  tmesh_loop_after_poll_request(&test_loop, &c.t.step);
  RUN_UNTIL(c.ready_count == 1);
  assert_int_equal(c.ready.code, TMESH_OK);
  wire_read(&c, true);
  RUN_UNTIL(c.error_count == 1);
  assert_int_equal(c.error.code, TMESH_E_CLOSED); /* no close_notify */
  assert_int_equal(c.eof_count, 0);
  wire_close(&c, false);
  tls_fixture_free(&configs);
  configs = newer;
}

static void writing_before_ready_is_refused(void** state) {
  (void)state;
  open_with(TLS_NAME);
  assert_int_equal(wire_write(&c, "x", 1).code, TMESH_E_STATE);
  RUN_UNTIL(c.ready_count == 1 && s.ready_count == 1);
  close_both();
}

static void a_bad_server_name_needs_no_close(void** state) {
  (void)state;
  int fds[2];
  test_tcp_pair(fds);
  memset(&c, 0, sizeof c);
  struct tmesh_status st =
      tmesh_transport_open(&c.t, &test_loop, fds[0], configs.client, false, "", &wire_events, &c);
  assert_int_equal(st.code, TMESH_E_INVALID);
  close(fds[1]);
}

static void no_data_is_delivered_while_reading_is_off(void** state) {
  (void)state;
  static uint8_t data[200000];
  test_fill(2, 0, data, sizeof data);
  open_ready();
  s.stops_reading = true;
  assert_true(tmesh_is_ok(wire_write(&c, data, sizeof data)));
  wire_read(&s, true);
  RUN_UNTIL(s.data_count == 1);
  test_loop_spin(10);
  assert_int_equal(s.data_count, 1); /* although the socket gave more than one record */
  assert_true(s.got_bytes <= TMESH_TLS_PLAIN_MAX_BYTES + 1);
  s.stops_reading = false;
  wire_read(&s, true);
  RUN_UNTIL(s.got_bytes == sizeof data);
  test_match(2, 0, s.got, sizeof data);
  close_both();
}

static void records_that_came_with_the_handshake_wait_for_reading(void** state) {
  (void)state;
  open_with(TLS_NAME);
  RUN_UNTIL(c.ready_count == 1);
  /* The client's last flight and its data may arrive together. */
  assert_true(tmesh_is_ok(wire_write(&c, "early", 5)));
  RUN_UNTIL(s.ready_count == 1);
  test_loop_spin(10);
  assert_int_equal(s.got_bytes, 0);
  wire_read(&s, true);
  RUN_UNTIL(s.got_bytes == 5);
  close_both();
}

static void rebinding_keeps_the_order_of_bytes(void** state) {
  (void)state;
  static uint8_t data[100000];
  struct wire link;
  test_fill(3, 0, data, sizeof data);
  memset(&link, 0, sizeof link);
  link.got = malloc(WIRE_GOT_MAX);
  open_ready();
  s.rebinds_to = &link;
  s.stops_reading = true;
  assert_true(tmesh_is_ok(wire_write(&c, data, sizeof data)));
  wire_read(&s, true);
  RUN_UNTIL(s.data_count == 1);
  tmesh_transport_read(&s.t, true);
  RUN_UNTIL(s.got_bytes + link.got_bytes == sizeof data);
  test_match(3, 0, s.got, s.got_bytes);
  test_match(3, s.got_bytes, link.got, link.got_bytes);
  wire_close(&c, false);
  tmesh_transport_close(&s.t, false);
  RUN_UNTIL(link.closed_count == 1);
  free(link.got);
  free(s.got);
}

static void close_notify_is_a_regular_end(void** state) {
  (void)state;
  open_ready();
  wire_read(&s, true);
  assert_true(tmesh_is_ok(wire_write(&c, "bye", 3)));
  wire_start_close(&c, true); /* the write, close_notify, FIN */
  RUN_UNTIL(s.eof_count == 1);
  assert_int_equal(s.got_bytes, 3);
  assert_int_equal(s.error_count, 0);
  /* Our side may still speak; then it ends too. */
  assert_true(tmesh_is_ok(wire_write(&s, "bye", 3)));
  RUN_UNTIL(s.written_count == 1);
  wire_start_close(&s, true);
  wire_closed(&s);
  wire_closed(&c);
}

static void fin_without_close_notify_is_an_error(void** state) {
  (void)state;
  open_ready();
  wire_read(&s, true);
  test_loop_spin(3);
  uv_os_fd_t fd;
  assert_int_equal(uv_fileno((const uv_handle_t*)&c.t.tcp, &fd), 0);
  shutdown(fd, SHUT_WR);
  RUN_UNTIL(s.error_count == 1);
  assert_int_equal(s.error.code, TMESH_E_CLOSED);
  assert_int_equal(s.eof_count, 0);
  close_both();
}

static void a_forged_record_is_an_error(void** state) {
  (void)state;
  static const uint8_t forged[] = {23, 3,  3,  0,  20, 1,  2,  3,  4,  5,  6,  7, 8,
                                   9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  open_ready();
  wire_read(&s, true);
  uv_os_fd_t fd;
  assert_int_equal(uv_fileno((const uv_handle_t*)&c.t.tcp, &fd), 0);
  test_send_all(fd, forged, sizeof forged);
  RUN_UNTIL(s.error_count == 1);
  assert_int_equal(s.error.code, TMESH_E_TLS);
  assert_int_equal(s.data_count, 0);
  close_both();
}

static void a_handshake_takes_one_step_per_iteration(void** state) {
  (void)state;
  open_with(TLS_NAME);
  const uint64_t from = test_loop.poll_count;
  RUN_UNTIL(c.ready_count == 1 && s.ready_count == 1);
  /* A TLS 1.3 handshake has over ten steps on each side in this library. */
  assert_true(test_loop.poll_count - from > 10);
  close_both();
}

static void many_handshakes_at_once_all_succeed(void** state) {
  (void)state;
  enum { PAIRS = 12 };
  static struct wire clients[PAIRS], servers[PAIRS];
  unsigned ready = 0;
  for (int i = 0; i < PAIRS; i++) {
    int fds[2];
    test_tcp_pair(fds);
    wire_open(&servers[i], fds[1], configs.server, true, NULL);
    wire_open(&clients[i], fds[0], configs.client, false, TLS_NAME);
  }
  test_loop_begin("all ready");
  while (ready < 2 * PAIRS) {
    test_loop_step();
    ready = 0;
    for (int i = 0; i < PAIRS; i++) ready += clients[i].ready_count + servers[i].ready_count;
  }
  test_loop_end();
  for (int i = 0; i < PAIRS; i++) {
    assert_true(tmesh_is_ok(clients[i].ready) && tmesh_is_ok(servers[i].ready));
    wire_close(&clients[i], false);
    wire_close(&servers[i], false);
  }
}

static void without_budget_no_step_is_made(void** state) {
  (void)state;
  open_with(TLS_NAME);
  /* Spend the budget of an iteration before its check phase comes. */
  for (int i = 0; i < 10; i++) {
    struct tmesh_list* first = test_loop.after_polls.next;
    test_loop.handshake_us_left = 0;
    struct tmesh_flush* f = TMESH_CONTAINER(first, struct tmesh_flush, node);
    tmesh_flush_cancel(f);
    f->run(f);
  }
  assert_int_equal(c.t.stats.bytes_out + s.t.stats.bytes_out, 0);
  RUN_UNTIL(c.ready_count == 1 && s.ready_count == 1);
  close_both();
}

static void close_at_any_moment_is_clean(void** state) {
  (void)state;
  static uint8_t data[4 << 20];
  for (unsigned steps = 0; steps < 40; steps++) {
    open_with(TLS_NAME);
    test_loop_spin(steps);
    wire_close(steps % 2 ? &c : &s, steps % 3 == 0);
    wire_close(steps % 2 ? &s : &c, steps % 5 == 0);
  }
  open_ready();
  assert_true(tmesh_is_ok(wire_write(&c, data, sizeof data)));
  wire_close(&c, false);
  wire_close(&s, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      TLS_TEST(bytes_pass_both_ways),
      TLS_TEST(tls_1_2_works_too),
      TLS_TEST(a_wrong_name_fails_the_clients_ready_with_tls_verify),
      TLS_TEST(garbage_fails_the_handshake),
      TLS_TEST(a_peer_that_leaves_in_the_handshake_is_closed),
      TLS_TEST(a_peer_that_leaves_right_after_the_handshake_is_noticed),
      TLS_TEST(writing_before_ready_is_refused),
      TLS_TEST(a_bad_server_name_needs_no_close),
      TLS_TEST(no_data_is_delivered_while_reading_is_off),
      TLS_TEST(records_that_came_with_the_handshake_wait_for_reading),
      TLS_TEST(rebinding_keeps_the_order_of_bytes),
      TLS_TEST(close_notify_is_a_regular_end),
      TLS_TEST(fin_without_close_notify_is_an_error),
      TLS_TEST(a_forged_record_is_an_error),
      TLS_TEST(a_handshake_takes_one_step_per_iteration),
      TLS_TEST(many_handshakes_at_once_all_succeed),
      TLS_TEST(without_budget_no_step_is_made),
      TLS_TEST(close_at_any_moment_is_clean),
  };
  return cmocka_run_group_tests(tests, tls_fixture_make, NULL);
}
