/* core/loop/link: what ends a link, what the peer is told, and in which order all goes. */
#include "core/loop/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/core/loop/link_support.h"

static void expect_close(enum tmesh_code code, uint16_t close_code) {
  expect_down(code);
  raw_wait(&peer, TMESH_WS_CLOSE);
  assert_int_equal(peer.close_code, close_code);
  end_raw();
}

static void a_text_message_ends_the_link_with_1003(void** state) {
  (void)state;
  open_raw(false);
  raw_send(&peer, true, TMESH_WS_OP_TEXT, "hello", 5);
  expect_close(TMESH_E_WS_TEXT, TMESH_WS_CLOSE_UNSUPPORTED_DATA);
}

static void an_unmasked_client_frame_ends_the_link_with_1002(void** state) {
  (void)state;
  open_raw(false);
  test_send_all(peer.fd, "\x82\x01x", 3);
  expect_close(TMESH_E_WS_PROTOCOL, TMESH_WS_CLOSE_PROTOCOL);
}

static void a_masked_server_frame_ends_the_link_with_1002(void** state) {
  (void)state;
  open_raw(true);
  test_send_all(peer.fd, "\x82\x81\0\0\0\0x", 7);
  expect_close(TMESH_E_WS_PROTOCOL, TMESH_WS_CLOSE_PROTOCOL);
}

static void an_oversize_message_ends_the_link_with_1009(void** state) {
  (void)state;
  /* 1 MiB + 17, one byte more than the largest frame; only the header is sent. */
  static const uint8_t head[] = {0x82, 0xff, 0, 0, 0, 0, 0, 0x10, 0, 0x11, 1, 2, 3, 4};
  open_raw(false);
  test_send_all(peer.fd, head, sizeof head);
  expect_close(TMESH_E_TOO_LARGE, TMESH_WS_CLOSE_TOO_BIG);
}

static void every_broken_frame_header_ends_the_link(void** state) {
  (void)state;
  static const struct {
    uint8_t at, value;
    enum tmesh_code code;
    uint16_t close_code;
  } rows[] = {
      {0, 2, TMESH_E_FRAME_VERSION, TMESH_WS_CLOSE_PROTOCOL},
      {1, 0, TMESH_E_FRAME_TYPE, TMESH_WS_CLOSE_PROTOCOL},
      {1, 19, TMESH_E_FRAME_TYPE, TMESH_WS_CLOSE_PROTOCOL},
      {8, 0x7f, TMESH_E_FRAME_LENGTH, TMESH_WS_CLOSE_TOO_BIG},
      {7, 0, TMESH_E_FRAME_STREAM_ID, TMESH_WS_CLOSE_PROTOCOL},
      {11, 1, TMESH_E_TRUNCATED, TMESH_WS_CLOSE_PROTOCOL}, /* one byte is promised, none comes */
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    uint8_t frame[16];
    open_raw(false);
    raw_frame_bytes(frame, header(TMESH_FRAME_DATA, 1, 0), NULL);
    frame[rows[i].at] = rows[i].value;
    raw_send(&peer, true, TMESH_WS_OP_BINARY, frame, sizeof frame);
    expect_close(rows[i].code, rows[i].close_code);
  }
}

static void a_message_shorter_than_a_header_ends_the_link(void** state) {
  (void)state;
  open_raw(false);
  raw_send(&peer, true, TMESH_WS_OP_BINARY, "\1\2\0", 3);
  expect_close(TMESH_E_TRUNCATED, TMESH_WS_CLOSE_PROTOCOL);
}

static void an_empty_message_ends_the_link(void** state) {
  (void)state;
  open_raw(false);
  raw_send(&peer, true, TMESH_WS_OP_BINARY, "", 0);
  expect_close(TMESH_E_TRUNCATED, TMESH_WS_CLOSE_PROTOCOL);
}

static void a_refused_control_frame_ends_the_link_with_that_status(void** state) {
  (void)state;
  open_raw(false);
  b.fails_in_control = true;
  raw_send_frame(&peer, header(TMESH_FRAME_AGENT_HELLO, 0, 2), "{}");
  raw_send_frame(&peer, header(TMESH_FRAME_AGENT_HELLO, 0, 2), "{}");
  expect_down(TMESH_E_POLICY);
  assert_int_equal(b.control_count, 1); /* nothing after it is delivered */
  raw_wait(&peer, TMESH_WS_CLOSE);
  assert_int_equal(peer.close_code, TMESH_WS_CLOSE_POLICY);
  end_raw();
}

static void an_exhausted_control_queue_ends_the_link(void** state) {
  (void)state;
  open_two();
  struct tmesh_status st = tmesh_ok();
  for (unsigned i = 0; i <= TMESH_CONTROL_QUEUE_MAX_FRAMES; i++) {
    st = tmesh_mux_control(tmesh_link_mux(&a.link), TMESH_FRAME_PING, NULL, 0);
  }
  assert_int_equal(st.code, TMESH_E_CONTROL_EXHAUSTED);
  assert_int_equal(a.down_count, 0);
  test_link_closed(&a);
  assert_int_equal(a.down.code, TMESH_E_CONTROL_EXHAUSTED);
  test_link_closed(&b);
}

static void fail_tells_streams_then_owner_then_closes(void** state) {
  (void)state;
  open_two();
  test_link_attach(&a, test_link_stream(&a));
  test_link_attach(&a, test_link_stream(&a));
  RUN_UNTIL(b.stream_count == 2);
  tmesh_link_fail(&a.link, tmesh_err_session(TMESH_E_TIMEOUT));
  tmesh_link_fail(&a.link, tmesh_err_session(TMESH_E_IO)); /* the first counts */
  assert_int_equal(a.down_count + a.over_count, 0);        /* not from inside */
  test_link_closed(&a);
  assert_int_equal(a.down.code, TMESH_E_TIMEOUT);
  assert_string_equal(a.order, "OODC");
  test_link_closed(&b);
  assert_int_equal(b.down.code, TMESH_E_CLOSED);
  assert_string_equal(b.order, "OODC");
}

static void close_sends_what_was_queued_and_1000(void** state) {
  (void)state;
  open_raw(false);
  assert_true(tmesh_is_ok(tmesh_mux_control(&b.link.mux, TMESH_FRAME_GOAWAY, "bye", 3)));
  tmesh_link_close(&b.link);
  tmesh_link_close(&b.link);
  raw_wait_frame(&peer, TMESH_FRAME_GOAWAY);
  raw_wait(&peer, TMESH_WS_CLOSE);
  assert_int_equal(peer.close_code, TMESH_WS_CLOSE_NORMAL);
  expect_down(TMESH_E_CLOSED);
  end_raw();
}

static void a_peers_close_is_echoed_and_ends_the_link(void** state) {
  (void)state;
  open_raw(false);
  raw_send(&peer, true, TMESH_WS_OP_CLOSE, "\x03\xe9going", 7); /* 1001 */
  raw_wait(&peer, TMESH_WS_CLOSE);
  assert_int_equal(peer.close_code, TMESH_WS_CLOSE_GOING_AWAY);
  expect_down(TMESH_E_CLOSED);
  end_raw();
}

static void eof_and_reset_end_the_link(void** state) {
  (void)state;
  open_raw(false);
  close(peer.fd);
  expect_down(TMESH_E_CLOSED);
  test_link_closed(&b);
  open_raw(false);
  test_close_reset(peer.fd);
  expect_down(TMESH_E_CLOSED);
  test_link_closed(&b);
}

static void a_cut_in_the_middle_of_a_frame_ends_streams_and_link(void** state) {
  (void)state;
  open_raw(false);
  open_stream_from_peer(1);
  RUN_UNTIL(b.stream_count == 1);
  test_send_all(peer.fd, "\x82\xfe\x40", 3);
  RUN_UNTIL(b.transport.stats.bytes_in > 0);
  test_close_reset(peer.fd);
  test_link_closed(&b);
  assert_string_equal(b.order, "ODC");
}

static void closing_again_from_on_down_changes_nothing(void** state) {
  (void)state;
  open_raw(false);
  b.closes_in_down = true;
  close(peer.fd);
  test_link_closed(&b);
}

/* A link whose peer reads nothing, with a batch that the kernel did not take. */
static void fill_kernel(void) {
  static uint8_t data[262144];
  open_raw(false);
  for (uint32_t id = 1; id <= 40; id++) open_stream_from_peer(id);
  RUN_UNTIL(b.stream_count == 40);
  test_loop_begin("the kernel is full");
  while (!b.link.is_writing) { /* the peer reads nothing */
    for (unsigned i = 0; i < b.stream_count; i++) (void)tmesh_stream_write(b.streams[i], data, 32768);
    test_loop_step();
  }
  test_loop_end();
}

static void a_link_with_a_full_kernel_closes_within_its_bound(void** state) {
  (void)state;
  fill_kernel();
  assert_true(b.link.rest_cap_bytes > 0);
  const uint64_t from_us = uv_hrtime() / 1000;
  tmesh_link_close(&b.link);
  test_link_closed(&b);
  assert_true(uv_hrtime() / 1000 - from_us < TMESH_LINK_CLOSE_US + TMESH_TRANSPORT_GRACE_US + 3000000);
  close(peer.fd);
}

static void on_leave(struct tmesh_alarm* alarm) {
  (void)alarm;
  close(peer.fd);
}

/* The last batch is on its way when the program ends: the teardown finds what is left. */
static void the_loop_waits_for_a_link_that_closes_while_it_writes(void** state) {
  (void)state;
  static struct tmesh_alarm leave;
  fill_kernel();
  tmesh_link_close(&b.link);
  test_loop_spin(3);
  assert_int_equal(b.closed_count, 0);
  tmesh_alarm_init(&leave, on_leave);
  tmesh_alarm_set(&test_loop, &leave, tmesh_loop_now_us(&test_loop) + 20000);
}

static void closed_waits_for_streams_that_are_still_held(void** state) {
  (void)state;
  open_raw(false);
  b.holds_streams = true;
  open_stream_from_peer(1);
  RUN_UNTIL(b.stream_count == 1);
  close(peer.fd);
  RUN_UNTIL(b.down_count == 1);
  const uint64_t until_us = uv_hrtime() / 1000 + 300000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  assert_int_equal(b.closed_count, 0);
  tmesh_stream_release(b.streams[0]);
  test_link_closed(&b);
}

/* Its memory may go at once; a timer of the loop must not find it then. */
static void a_link_whose_write_fails_while_bytes_are_held_back_waits_for_no_timer(void** state) {
  (void)state;
  uv_os_fd_t fd;
  open_two();
  struct tmesh_stream* s = test_link_stream(&a);
  test_link_attach(&a, s);
  RUN_UNTIL(b.stream_count == 1 && s->state == TMESH_STREAM_OPEN);
  tmesh_mux_set_coalesce(tmesh_link_mux(&a.link), 10000000);
  assert_int_equal(tmesh_stream_write(s, "x", 1), 1);
  RUN_UNTIL(b.stream_got_bytes == 1);
  assert_int_equal(tmesh_stream_write(s, "x", 1), 1);
  RUN_UNTIL(tmesh_list_linked(&a.link.in_due));
  assert_int_equal(uv_fileno((uv_handle_t*)&a.transport.tcp, &fd), 0);
  assert_int_equal(shutdown(fd, SHUT_WR), 0);
  assert_true(tmesh_is_ok(tmesh_mux_control(tmesh_link_mux(&a.link), TMESH_FRAME_PING, "", 0)));
  test_link_closed(&a);
  assert_false(tmesh_list_linked(&a.link.in_due));
  assert_true(tmesh_list_empty(&test_loop.due_links));
  test_link_closed(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(a_text_message_ends_the_link_with_1003),
      LOOP_TEST(an_unmasked_client_frame_ends_the_link_with_1002),
      LOOP_TEST(a_masked_server_frame_ends_the_link_with_1002),
      LOOP_TEST(an_oversize_message_ends_the_link_with_1009),
      LOOP_TEST(every_broken_frame_header_ends_the_link),
      LOOP_TEST(a_message_shorter_than_a_header_ends_the_link),
      LOOP_TEST(an_empty_message_ends_the_link),
      LOOP_TEST(a_refused_control_frame_ends_the_link_with_that_status),
      LOOP_TEST(an_exhausted_control_queue_ends_the_link),
      LOOP_TEST(fail_tells_streams_then_owner_then_closes),
      LOOP_TEST(close_sends_what_was_queued_and_1000),
      LOOP_TEST(a_peers_close_is_echoed_and_ends_the_link),
      LOOP_TEST(eof_and_reset_end_the_link),
      LOOP_TEST(a_cut_in_the_middle_of_a_frame_ends_streams_and_link),
      LOOP_TEST(closing_again_from_on_down_changes_nothing),
      LOOP_TEST(a_link_with_a_full_kernel_closes_within_its_bound),
      LOOP_TEST(the_loop_waits_for_a_link_that_closes_while_it_writes),
      LOOP_TEST(closed_waits_for_streams_that_are_still_held),
      LOOP_TEST(a_link_whose_write_fails_while_bytes_are_held_back_waits_for_no_timer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
