/* core/loop/transport without TLS. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include "tests/core/loop/transport_support.h"

static struct wire w;
static int peer;

static void open_pair(void) {
  int fds[2];
  test_tcp_pair(fds);
  wire_open(&w, fds[0], NULL, false, NULL);
  peer = fds[1];
}

static void open_ready(void) {
  open_pair();
  RUN_UNTIL(w.ready_count == 1);
  assert_true(tmesh_is_ok(w.ready));
}

static void ready_comes_once_from_the_loop(void** state) {
  (void)state;
  open_pair();
  assert_int_equal(w.ready_count, 0);
  test_loop_spin(3);
  assert_int_equal(w.ready_count, 1);
  assert_true(tmesh_is_ok(w.ready));
  wire_close(&w, false);
  close(peer);
}

static void a_bad_descriptor_needs_no_close(void** state) {
  (void)state;
  struct tmesh_status st =
      tmesh_transport_open(&w.t, &test_loop, 100000, NULL, false, NULL, &wire_events, &w);
  assert_int_equal(st.code, TMESH_E_IO);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
}

static void a_descriptor_libuv_refuses_is_a_failed_ready(void** state) {
  (void)state;
  struct wire second;
  open_ready();
  wire_read(&w, true);
  test_loop_spin(1);
  uv_os_fd_t fd;
  assert_int_equal(uv_fileno((const uv_handle_t*)&w.t.tcp, &fd), 0);
  wire_open(&second, fd, NULL, false, NULL);
  RUN_UNTIL(second.ready_count == 1);
  assert_int_equal(second.ready.scope, TMESH_SCOPE_SESSION);
  test_loop_spin(3);
  assert_int_equal(second.error_count, 0); /* one report is enough */
  wire_close(&second, true);
  wire_close(&w, false);
  close(peer);
}

static void reading_starts_and_stops_as_asked(void** state) {
  (void)state;
  open_ready();
  test_send_all(peer, "one", 3);
  test_loop_spin(5);
  assert_int_equal(w.got_bytes, 0);
  wire_read(&w, true);
  RUN_UNTIL(w.got_bytes == 3);
  assert_int_equal(w.t.stats.bytes_in, 3);
  wire_read(&w, false);
  test_send_all(peer, "two", 3);
  test_loop_spin(5);
  assert_int_equal(w.got_bytes, 3);
  wire_read(&w, true);
  RUN_UNTIL(w.got_bytes == 6);
  assert_memory_equal(w.got, "onetwo", 6);
  wire_close(&w, false);
  close(peer);
}

static void any_byte_moves_the_time_of_the_last_read(void** state) {
  (void)state;
  open_ready();
  const uint64_t opened_us = w.t.stats.last_read_us;
  assert_int_not_equal(opened_us, 0);
  wire_read(&w, true);
  const uint64_t until_us = uv_hrtime() / 1000 + 50000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  test_send_all(peer, "x", 1);
  RUN_UNTIL(w.got_bytes == 1);
  assert_true(w.t.stats.last_read_us >= opened_us + 45000);
  wire_close(&w, false);
  close(peer);
}

static void a_read_burst_ends_and_goes_on(void** state) {
  (void)state;
  open_ready();
  static uint8_t data[1 << 20];
  size_t sent = test_send(peer, data, sizeof data), before = 0;
  assert_true(sent > TMESH_READ_BURST_BYTES);
  wire_read(&w, true);
  test_loop_begin("all read");
  while (w.got_bytes < sent) {
    test_loop_step();
    assert_true(w.got_bytes - before <= TMESH_READ_BURST_BYTES + TMESH_READ_BUFFER_BYTES);
    before = w.got_bytes;
  }
  test_loop_end();
  wire_close(&w, false);
  close(peer);
}

static void fin_is_eof_and_writing_goes_on(void** state) {
  (void)state;
  uint8_t got[8];
  size_t len = 0;
  open_ready();
  wire_read(&w, true);
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(w.eof_count == 1);
  assert_true(tmesh_is_ok(wire_write(&w, "late", 4)));
  RUN_UNTIL(w.written_count == 1);
  assert_int_equal(test_recv(peer, got, sizeof got, &len), 1);
  assert_int_equal(len, 4);
  assert_int_equal(w.eof_count, 1);
  assert_int_equal(w.error_count, 0);
  wire_close(&w, false);
  close(peer);
}

static void a_write_that_goes_at_once_is_reported_later(void** state) {
  (void)state;
  uint8_t got[8];
  size_t len = 0;
  open_ready();
  assert_true(tmesh_is_ok(wire_write(&w, "hello", 5)));
  assert_int_equal(w.written_count, 0);
  assert_int_equal(wire_write(&w, "again", 5).code, TMESH_E_STATE); /* one at a time */
  RUN_UNTIL(w.written_count == 1);
  assert_int_equal(test_recv(peer, got, sizeof got, &len), 1);
  assert_int_equal(len, 5);
  assert_int_equal(w.t.stats.bytes_out, 5);
  wire_close(&w, false);
  close(peer);
}

static size_t read_all(uint8_t* got, size_t cap, size_t* len) {
  assert_true(test_recv(peer, got, cap, len) >= 0);
  return *len;
}

static void a_large_write_is_reported_when_the_kernel_has_all(void** state) {
  (void)state;
  enum { TOTAL = 12 << 20 };
  uint8_t* data = malloc(TOTAL);
  uint8_t* got = malloc(TOTAL);
  size_t len = 0;
  test_fill(1, 0, data, TOTAL);
  open_ready();
  bool done = true;
  w.is_inside = true;
  assert_true(tmesh_is_ok(tmesh_transport_try_write(&w.t, data, TOTAL, &done)));
  w.is_inside = false;
  assert_false(done);
  test_loop_spin(20);
  assert_int_equal(w.written_count, 0);
  RUN_UNTIL(read_all(got, TOTAL, &len) == TOTAL);
  RUN_UNTIL(w.written_count == 1);
  test_match(1, 0, got, TOTAL);
  assert_int_equal(w.t.stats.bytes_out, TOTAL);
  free(data);
  free(got);
  wire_close(&w, false);
  close(peer);
}

static void try_write_that_went_reports_nothing(void** state) {
  (void)state;
  bool done = false;
  open_ready();
  assert_true(tmesh_is_ok(tmesh_transport_try_write(&w.t, "hello", 5, &done)));
  assert_true(done);
  test_loop_spin(5);
  assert_int_equal(w.written_count, 0);
  wire_close(&w, false);
  close(peer);
}

static void push_keeps_no_pointer_and_write_sends_the_rest(void** state) {
  (void)state;
  enum { PIECE = 100000 };
  uint8_t* piece = malloc(PIECE);
  uint8_t* got = malloc(64 << 20);
  uint8_t* rest = NULL;
  uint64_t at = 0;
  size_t len = 0, taken = PIECE;
  bool is_flushed = true;
  open_ready();
  while (taken == PIECE && is_flushed) {
    test_fill(9, at, piece, PIECE);
    assert_true(tmesh_is_ok(tmesh_transport_push(&w.t, piece, PIECE, &taken, &is_flushed)));
    at += PIECE;
  }
  rest = malloc(PIECE - taken);
  memcpy(rest, piece + taken, PIECE - taken);
  memset(piece, 0, PIECE);
  assert_true(tmesh_is_ok(wire_write(&w, rest, PIECE - taken)));
  RUN_UNTIL(read_all(got, 64 << 20, &len) == at && w.written_count == 1);
  test_match(9, 0, got, len);
  free(piece);
  free(rest);
  free(got);
  wire_close(&w, false);
  close(peer);
}

static void a_reset_is_one_error_and_the_end_of_writing(void** state) {
  (void)state;
  open_ready();
  wire_read(&w, true);
  test_loop_spin(1);
  test_close_reset(peer);
  RUN_UNTIL(w.error_count == 1);
  assert_int_equal(w.error.code, TMESH_E_CLOSED);
  assert_int_equal(w.error.scope, TMESH_SCOPE_SESSION);
  assert_int_equal(wire_write(&w, "x", 1).code, TMESH_E_CLOSED);
  test_loop_spin(5);
  assert_int_equal(w.error_count, 1);
  assert_int_equal(w.written_count + w.eof_count, 0);
  wire_close(&w, true);
}

static void a_write_that_fails_is_an_error_from_the_loop(void** state) {
  (void)state;
  open_ready();
  test_close_reset(peer);
  struct tmesh_status st = wire_write(&w, "x", 1);
  assert_int_equal(st.code, TMESH_E_CLOSED);
  assert_int_equal(w.error_count, 0);
  RUN_UNTIL(w.error_count == 1);
  assert_int_equal(w.written_count, 0);
  wire_close(&w, false);
}

static void events_go_to_the_new_owner_after_rebind(void** state) {
  (void)state;
  struct wire other;
  memset(&other, 0, sizeof other);
  other.got = malloc(WIRE_GOT_MAX);
  open_ready();
  w.rebinds_to = &other;
  w.stops_reading = true;
  wire_read(&w, true);
  test_send_all(peer, "head+early", 10);
  RUN_UNTIL(w.got_bytes == 10); /* the early bytes are the old owner's to pass on */
  test_send_all(peer, "later", 5);
  test_loop_spin(5);
  assert_int_equal(other.got_bytes, 0);
  tmesh_transport_read(&w.t, true);
  RUN_UNTIL(other.got_bytes == 5);
  assert_int_equal(w.got_bytes, 10);
  tmesh_transport_close(&w.t, false);
  RUN_UNTIL(other.closed_count == 1);
  free(other.got);
  free(w.got);
  close(peer);
}

static void a_graceful_close_finishes_the_write_and_ignores_unread_bytes(void** state) {
  (void)state;
  enum { TOTAL = 1 << 20 };
  static uint8_t data[TOTAL], got[TOTAL + 1];
  size_t len = 0;
  int rc = 1;
  open_ready();
  test_fill(4, 0, data, TOTAL);
  test_send_all(peer, "not wanted", 10);
  assert_true(tmesh_is_ok(wire_write(&w, data, TOTAL)));
  wire_start_close(&w, true);
  RUN_UNTIL((rc = test_recv(peer, got, sizeof got, &len)) != 1);
  assert_int_equal(rc, 0);
  assert_int_equal(len, TOTAL);
  test_match(4, 0, got, TOTAL);
  close(peer);
  const uint64_t from_us = uv_hrtime() / 1000;
  wire_closed(&w);
  assert_true(uv_hrtime() / 1000 - from_us < TMESH_TRANSPORT_GRACE_US / 2); /* the peer's end is seen */
}

static void a_graceful_close_is_bounded(void** state) {
  (void)state;
  open_ready();
  const uint64_t from_us = uv_hrtime() / 1000;
  wire_start_close(&w, true); /* the peer never ends its side */
  wire_closed(&w);
  const uint64_t took_us = uv_hrtime() / 1000 - from_us;
  assert_in_range(took_us, TMESH_TRANSPORT_GRACE_US, TMESH_TRANSPORT_GRACE_US + 3000000);
  close(peer);
}

static void an_abrupt_close_overtakes_a_graceful_one(void** state) {
  (void)state;
  open_ready();
  wire_start_close(&w, true);
  test_loop_spin(3);
  assert_int_equal(w.closed_count, 0);
  wire_close(&w, false);
  close(peer);
}

static void close_at_any_moment_is_clean(void** state) {
  (void)state;
  static uint8_t data[8 << 20];
  open_pair(); /* before ready */
  wire_close(&w, true);
  close(peer);
  open_ready(); /* during a write */
  assert_true(tmesh_is_ok(wire_write(&w, data, sizeof data)));
  wire_close(&w, false);
  close(peer);
  open_ready(); /* from inside a callback */
  w.closes = true;
  wire_read(&w, true);
  test_send_all(peer, "x", 1);
  RUN_UNTIL(w.closed_count == 1);
  assert_int_equal(w.data_count, 1);
  free(w.got);
  close(peer);
}

static void the_peers_address_is_text_without_port(void** state) {
  (void)state;
  char text[64];
  open_ready();
  assert_true(tmesh_transport_peer(&w.t, text, sizeof text));
  assert_string_equal(text, "127.0.0.1");
  assert_false(tmesh_transport_peer(&w.t, text, 4));
  wire_close(&w, false);
  close(peer);
}

static void lowat_and_nodelay_are_set(void** state) {
  (void)state;
  uv_os_fd_t fd;
  int value = 0;
  socklen_t len = sizeof value;
  open_ready();
  tmesh_transport_set_lowat(&w.t, 32768);
  assert_int_equal(uv_fileno((const uv_handle_t*)&w.t.tcp, &fd), 0);
  assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &value, &len), 0);
  assert_int_equal(value, 32768);
  assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &len), 0);
  assert_int_not_equal(value, 0);
  wire_close(&w, false);
  close(peer);
}

static void ack_at_once_leaves_the_mode_that_waits(void** state) {
  (void)state;
#ifdef TCP_QUICKACK
  uv_os_fd_t fd;
  int value = 0;
  socklen_t len = sizeof value;
  open_ready();
  assert_int_equal(uv_fileno((const uv_handle_t*)&w.t.tcp, &fd), 0);
  assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &value, len), 0);
  tmesh_transport_ack_at_once(&w.t);
  assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_QUICKACK, &value, &len), 0);
  assert_int_equal(value, 1);
  wire_close(&w, false);
  close(peer);
#endif
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(ready_comes_once_from_the_loop),
      LOOP_TEST(a_bad_descriptor_needs_no_close),
      LOOP_TEST(a_descriptor_libuv_refuses_is_a_failed_ready),
      LOOP_TEST(reading_starts_and_stops_as_asked),
      LOOP_TEST(any_byte_moves_the_time_of_the_last_read),
      LOOP_TEST(a_read_burst_ends_and_goes_on),
      LOOP_TEST(fin_is_eof_and_writing_goes_on),
      LOOP_TEST(a_write_that_goes_at_once_is_reported_later),
      LOOP_TEST(a_large_write_is_reported_when_the_kernel_has_all),
      LOOP_TEST(try_write_that_went_reports_nothing),
      LOOP_TEST(push_keeps_no_pointer_and_write_sends_the_rest),
      LOOP_TEST(a_reset_is_one_error_and_the_end_of_writing),
      LOOP_TEST(a_write_that_fails_is_an_error_from_the_loop),
      LOOP_TEST(events_go_to_the_new_owner_after_rebind),
      LOOP_TEST(a_graceful_close_finishes_the_write_and_ignores_unread_bytes),
      LOOP_TEST(a_graceful_close_is_bounded),
      LOOP_TEST(an_abrupt_close_overtakes_a_graceful_one),
      LOOP_TEST(close_at_any_moment_is_clean),
      LOOP_TEST(the_peers_address_is_text_without_port),
      LOOP_TEST(lowat_and_nodelay_are_set),
      LOOP_TEST(ack_at_once_leaves_the_mode_that_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
