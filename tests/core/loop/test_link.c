/* core/loop/link: frames over WebSocket, WebSocket control frames, memory. */
#include "core/loop/link.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/core/loop/link_support.h"

/* --- frames ------------------------------------------------------------------------- */

static void frames_pass_both_ways(void** state) {
  (void)state;
  static uint8_t data[100000];
  open_two();
  struct tmesh_stream* s = test_link_stream(&a);
  test_link_attach(&a, s);
  RUN_UNTIL(s->state == TMESH_STREAM_OPEN && b.stream_count == 1);
  assert_int_equal(tmesh_stream_write(s, data, sizeof data), sizeof data);
  assert_int_equal(tmesh_stream_write(b.streams[0], data, 5000), 5000);
  RUN_UNTIL(b.stream_got_bytes == sizeof data && a.stream_got_bytes == 5000);
  tmesh_mux_check(&a.link.mux);
  tmesh_mux_check(&b.link.mux);
  close_two();
}

static void metadata_and_goaway_reach_the_user_of_the_mux(void** state) {
  (void)state;
  open_two();
  struct tmesh_mux* m = tmesh_link_mux(&a.link);
  assert_true(tmesh_is_ok(tmesh_mux_control(m, TMESH_FRAME_CLIENT_HELLO, "{}", 2)));
  assert_true(tmesh_is_ok(tmesh_mux_control(m, TMESH_FRAME_PING, "12345678", 8)));
  assert_true(tmesh_is_ok(tmesh_mux_control(m, TMESH_FRAME_GOAWAY, NULL, 0)));
  RUN_UNTIL(b.goaway_count == 1 && a.pong_count == 1);
  assert_int_equal(b.control_count, 1);
  assert_int_equal(b.control.type, TMESH_FRAME_CLIENT_HELLO);
  assert_int_equal(b.control_len_bytes, 2);
  close_two();
}

static void a_client_masks_and_a_server_does_not(void** state) {
  (void)state;
  open_raw(true); /* the raw peer's decoder, a server, refuses an unmasked frame */
  assert_true(tmesh_is_ok(tmesh_mux_control(&b.link.mux, TMESH_FRAME_PING, "12345678", 8)));
  raw_wait_frame(&peer, TMESH_FRAME_PING);
  assert_memory_equal(peer.message + TMESH_FRAME_HEADER_BYTES, "12345678", 8);
  end_raw();
  open_raw(false);
  assert_true(tmesh_is_ok(tmesh_mux_control(&b.link.mux, TMESH_FRAME_PING, "12345678", 8)));
  raw_wait_frame(&peer, TMESH_FRAME_PING);
  end_raw();
}

static void masks_are_not_repeated(void** state) {
  (void)state;
  enum { COUNT = 40, FRAME = 2 + 4 + 16 };
  uint8_t got[COUNT * FRAME];
  size_t len = 0;
  open_raw(true);
  for (int i = 0; i < COUNT; i++) {
    assert_true(tmesh_is_ok(tmesh_mux_control(&b.link.mux, TMESH_FRAME_PING, NULL, 0)));
  }
  RUN_UNTIL(test_recv(peer.fd, got, sizeof got, &len) == 1 && len == sizeof got);
  for (int i = 0; i < COUNT; i++) {
    for (int j = 0; j < i; j++) assert_memory_not_equal(got + i * FRAME + 2, got + j * FRAME + 2, 4);
  }
  end_raw();
}

static void every_message_is_one_unfragmented_binary_frame(void** state) {
  (void)state;
  static uint8_t data[200000], got[1 << 18];
  size_t len = 0, at = 0, payload_bytes = 0;
  open_raw(false);
  open_stream_from_peer(1);
  RUN_UNTIL(b.stream_count == 1);
  test_fill(1, 0, data, sizeof data);
  assert_int_equal(tmesh_stream_write(b.streams[0], data, sizeof data), sizeof data);
  test_loop_begin("all data frames");
  while (payload_bytes < sizeof data) {
    test_loop_step();
    assert_int_equal(test_recv(peer.fd, got, sizeof got, &len), 1);
    /* Header by hand: FIN + binary, no mask, 16-bit or short length, our 16-byte header. */
    while (len - at >= 4) {
      size_t n = got[at + 1], head = 2;
      if (n == 126) {
        n = (size_t)got[at + 2] << 8 | got[at + 3];
        head = 4;
      }
      assert_int_equal(got[at], 0x82);
      assert_true(n < 65536 && n >= TMESH_FRAME_HEADER_BYTES);
      if (len - at < head + n) break;
      const uint8_t* frame = got + at + head;
      if (frame[1] == TMESH_FRAME_DATA) {
        assert_true(n - 16 <= TMESH_DATA_MAX_BYTES);
        test_match(1, payload_bytes, frame + 16, n - 16);
        payload_bytes += n - 16;
      }
      at += head + n;
    }
  }
  test_loop_end();
  end_raw();
}

static void fragmented_messages_are_reassembled(void** state) {
  (void)state;
  uint8_t frame[64];
  open_raw(false);
  const size_t n =
      raw_frame_bytes(frame, header(TMESH_FRAME_AGENT_HELLO, 0, 20), "{\"agent_id\":\"abcd\"}  ");
  for (size_t i = 0; i < n; i++) { /* one byte per fragment, a control frame between */
    raw_send(&peer, i + 1 == n, i == 0 ? TMESH_WS_OP_BINARY : TMESH_WS_OP_CONTINUATION, frame + i, 1);
    if (i == 10) raw_send(&peer, true, TMESH_WS_OP_PING, "mid", 3);
  }
  RUN_UNTIL(b.control_count == 1);
  assert_int_equal(b.control_len_bytes, 20);
  assert_memory_equal(b.control_payload, "{\"agent_id\":\"abcd\"}  ", 20);
  raw_wait(&peer, TMESH_WS_PONG);
  end_raw();
}

static void bytes_after_the_frame_in_a_message_are_ignored(void** state) {
  (void)state;
  uint8_t frame[64] = {0};
  open_raw(false);
  size_t n = raw_frame_bytes(frame, header(TMESH_FRAME_PING, 0, 2), "hi");
  memset(frame + n, 0xff, 20);
  raw_send(&peer, true, TMESH_WS_OP_BINARY, frame, n + 20);
  raw_wait_frame(&peer, TMESH_FRAME_PONG);
  assert_memory_equal(peer.message + 16, "hi", 2);
  assert_int_equal(b.down_count, 0);
  end_raw();
}

static void early_bytes_are_processed_before_later_ones(void** state) {
  (void)state;
  int fds[2];
  uint8_t frame[64], early[64], rest[64];
  static const uint8_t mask[4] = {1, 2, 3, 4};
  size_t n = raw_frame_bytes(frame, header(TMESH_FRAME_AGENT_HELLO, 0, 8), "{\"n\": 1}");
  size_t head = tmesh_ws_header_encode(early, TMESH_WS_OP_BINARY, n, true, mask);
  tmesh_ws_mask_copy(early + head, frame, n, mask, 0);
  test_tcp_pair(fds);
  /* The second half of the message is in the socket before the link exists. */
  memcpy(rest, early + 11, head + n - 11);
  test_send_all(fds[1], rest, head + n - 11);
  test_link_open(&b, fds[0], false, early, 11);
  memset(early, 0, sizeof early); /* they were copied */
  assert_int_equal(b.control_count, 0);
  RUN_UNTIL(b.control_count == 1);
  assert_memory_equal(b.control_payload, "{\"n\": 1}", 8);
  raw_open(&peer, fds[1], true);
  end_raw();
}

/* What an HTTP owner does: in its on_data the link takes over, with what was read. */
static void take_in_on_data(void* ctx, uint8_t* data, size_t len_bytes) {
  test_link_take(ctx, false, data, len_bytes);
}

static void a_link_taken_inside_on_data_keeps_the_order(void** state) {
  (void)state;
  enum { COUNT = 4000, MESSAGE = 2 + 4 + 16 + 8 };
  static uint8_t out[COUNT * MESSAGE];
  static const uint8_t mask[4] = {5, 6, 7, 8};
  static struct tmesh_transport_events events;
  int fds[2];
  for (unsigned i = 0; i < COUNT; i++) {
    uint8_t frame[24];
    char number[16];
    (void)snprintf(number, sizeof number, "%08u", i);
    const size_t n = raw_frame_bytes(frame, header(TMESH_FRAME_AGENT_METADATA_UPDATE, 0, 8), number);
    uint8_t* at = out + (size_t)i * MESSAGE;
    const size_t head = tmesh_ws_header_encode(at, TMESH_WS_OP_BINARY, n, true, mask);
    tmesh_ws_mask_copy(at + head, frame, n, mask, 0);
  }
  test_tcp_pair(fds);
  test_link_start(&b, fds[0], false, NULL, NULL);
  RUN_UNTIL(b.is_ready);
  /* More than one read: libuv goes on reading after a buffer that became full. */
  test_send_all(fds[1], out, sizeof out);
  assert_true(sizeof out > TMESH_READ_BUFFER_BYTES);
  events = test_link_before;
  events.on_data = take_in_on_data;
  tmesh_transport_rebind(&b.transport, &events, &b);
  tmesh_transport_read(&b.transport, true);
  RUN_UNTIL(b.control_count == COUNT);
  assert_int_equal(b.disorder_count, 0);
  raw_open(&peer, fds[1], true);
  end_raw();
}

static void frames_wait_until_the_answer_to_the_upgrade_went(void** state) {
  (void)state;
  enum { TOTAL = 12 << 20 };
  uint8_t* answer = calloc(1, TOTAL); /* larger than any kernel buffer */
  static uint8_t got[65536];
  int fds[2];
  uint64_t total = 0;
  size_t len = 0;
  test_tcp_pair(fds);
  test_link_start(&b, fds[0], false, NULL, NULL);
  RUN_UNTIL(b.is_ready);
  assert_true(tmesh_is_ok(tmesh_transport_write(&b.transport, answer, TOTAL)));
  assert_true(b.transport.is_write_pending);
  test_link_take(&b, false, NULL, 0);
  assert_true(tmesh_is_ok(tmesh_mux_control(&b.link.mux, TMESH_FRAME_PING, "12345678", 8)));
  test_loop_begin("the answer and the frame");
  while (total < TOTAL + 26) {
    test_loop_step();
    len = 0;
    assert_int_equal(test_recv(fds[1], got, sizeof got, &len), 1);
    total += len;
  }
  test_loop_end();
  assert_int_equal(total, TOTAL + 26);
  assert_memory_equal(got + len - 8, "12345678", 8);
  free(answer);
  raw_open(&peer, fds[1], true);
  end_raw();
}

static void a_zero_window_update_ends_its_stream_only(void** state) {
  (void)state;
  uint8_t frame[16];
  open_raw(false);
  open_stream_from_peer(1);
  RUN_UNTIL(b.stream_count == 1);
  struct tmesh_frame_header h = header(TMESH_FRAME_WINDOW_UPDATE, 1, 0);
  h.window_bytes = 1;
  raw_frame_bytes(frame, h, NULL);
  memset(frame + 12, 0, 4); /* increment 0 */
  raw_send(&peer, true, TMESH_WS_OP_BINARY, frame, sizeof frame);
  raw_wait_frame(&peer, TMESH_FRAME_RESET);
  assert_int_equal(b.over_count, 1);
  assert_int_equal(b.down_count, 0);
  end_raw();
}

/* --- WebSocket control frames ------------------------------------------------------------ */

static void a_ping_is_answered_with_its_payload(void** state) {
  (void)state;
  open_raw(false);
  raw_send(&peer, true, TMESH_WS_OP_PING, "payload", 7);
  raw_wait(&peer, TMESH_WS_PONG);
  assert_int_equal(peer.message_bytes, 7);
  assert_memory_equal(peer.message, "payload", 7);
  raw_send(&peer, true, TMESH_WS_OP_PING, "", 0);
  raw_wait(&peer, TMESH_WS_PONG);
  assert_int_equal(peer.message_bytes, 0);
  end_raw();
}

static void ws_ping_is_sent_and_its_pong_counts_as_life(void** state) {
  (void)state;
  open_raw(false);
  const uint64_t before_us = tmesh_link_last_read_us(&b.link);
  tmesh_link_ws_ping(&b.link);
  raw_wait(&peer, TMESH_WS_PING);
  const uint64_t until_us = uv_hrtime() / 1000 + 20000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  raw_send(&peer, true, TMESH_WS_OP_PONG, "", 0);
  RUN_UNTIL(tmesh_link_last_read_us(&b.link) > before_us);
  assert_int_equal(b.down_count, 0);
  end_raw();
}

static void a_ping_is_answered_under_bulk(void** state) {
  (void)state;
  static uint8_t data[65536];
  unsigned pongs = 0, pings = 0;
  uint64_t messages = 0;
  open_raw(false);
  open_stream_from_peer(1);
  RUN_UNTIL(b.stream_count == 1);
  test_loop_begin("pings answered");
  while (pongs < 20) {
    (void)tmesh_stream_write(b.streams[0], data, sizeof data);
    if (pings == pongs) {
      pings++;
      test_send_all(peer.fd, "\x89\x80\1\2\3\4", 6);
    }
    test_loop_step();
    while (raw_next(&peer)) {
      if (peer.kind == TMESH_WS_PONG) pongs++;
      if (peer.kind != TMESH_WS_MESSAGE_END) continue;
      messages++;
      struct tmesh_frame_header h;
      assert_true(tmesh_is_ok(tmesh_frame_header_decode(&h, peer.message)));
      if (h.type != TMESH_FRAME_DATA) continue;
      /* Credit, so that bulk never ends. */
      uint8_t update[16], out[32];
      struct tmesh_frame_header u = header(TMESH_FRAME_WINDOW_UPDATE, 1, 0);
      u.window_bytes = h.length_bytes;
      raw_frame_bytes(update, u, NULL);
      static const uint8_t mask[4] = {9, 9, 9, 9};
      size_t head = tmesh_ws_header_encode(out, TMESH_WS_OP_BINARY, 16, true, mask);
      tmesh_ws_mask_copy(out + head, update, 16, mask, 0);
      test_send_all(peer.fd, out, head + 16);
    }
  }
  test_loop_end();
  assert_true(messages > 20);
  end_raw();
}

static void a_flood_of_pings_holds_one_answer(void** state) {
  (void)state;
  static uint8_t flood[6 * 4000];
  for (size_t i = 0; i < sizeof flood; i += 6) memcpy(flood + i, "\x89\x80\1\2\3\4", 6);
  open_raw(false);
  size_t sent = 0;
  RUN_UNTIL((sent += test_send(peer.fd, flood + sent, sizeof flood - sent)) == sizeof flood);
  raw_wait(&peer, TMESH_WS_PONG);
  test_loop_spin(20);
  unsigned pongs = 1;
  while (raw_next(&peer)) pongs++;
  assert_true(pongs < 4000);
  assert_int_equal(b.down_count, 0);
  end_raw();
}

/* --- memory ------------------------------------------------------------------------------- */

static void an_idle_link_holds_no_batch(void** state) {
  (void)state;
  static uint8_t data[262144];
  open_raw(false);
  open_stream_from_peer(1);
  RUN_UNTIL(b.stream_count == 1);
  int small = 4096;
  (void)setsockopt(peer.fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  assert_int_equal(tmesh_stream_write(b.streams[0], data, sizeof data), sizeof data);
  RUN_UNTIL(b.link.is_writing || b.streams[0]->out.len_bytes == 0);
  static uint8_t got[1 << 20];
  size_t len = 0;
  RUN_UNTIL(test_recv(peer.fd, got, sizeof got, &len) == 1 && len >= sizeof data);
  RUN_UNTIL(!b.link.is_writing);
  test_loop_spin(5);
  assert_null(b.link.rest);
  assert_int_equal(test_loop.pool.live_count, 0);
  end_raw();
}

static void stop_loop(uv_timer_t* timer) {
  tmesh_loop_stop(timer->data);
}

static void idle_links_and_sockets_let_the_loop_sleep(void** state) {
  (void)state;
  uv_timer_t timer;
  open_two();
  struct tmesh_stream* s = test_link_stream(&a);
  test_link_attach(&a, s);
  RUN_UNTIL(s->state == TMESH_STREAM_OPEN && b.stream_count == 1);
  test_loop_spin(5);
  assert_int_equal(uv_timer_init(&test_loop.uv, &timer), 0);
  timer.data = &test_loop;
  assert_int_equal(uv_timer_start(&timer, stop_loop, 200, 0), 0);
  const uint64_t before = test_loop.poll_count;
  tmesh_loop_run(&test_loop);
  assert_true(test_loop.poll_count - before <= 3);
  uv_close((uv_handle_t*)&timer, NULL);
  close_two();
}

static void bytes_that_the_mux_holds_back_leave_in_time(void** state) {
  (void)state;
  open_two();
  struct tmesh_stream* s = test_link_stream(&a);
  test_link_attach(&a, s);
  RUN_UNTIL(b.stream_count == 1 && s->state == TMESH_STREAM_OPEN);
  tmesh_mux_set_coalesce(tmesh_link_mux(&a.link), 5000);
  for (uint64_t i = 1; i <= 20; i++) { /* one leaves at once, the others wait for the timer */
    assert_int_equal(tmesh_stream_write(s, "x", 1), 1);
    RUN_UNTIL(b.stream_got_bytes == i);
  }
  assert_true(tmesh_list_empty(&test_loop.due_links));
  close_two();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(frames_pass_both_ways),
      LOOP_TEST(metadata_and_goaway_reach_the_user_of_the_mux),
      LOOP_TEST(a_client_masks_and_a_server_does_not),
      LOOP_TEST(masks_are_not_repeated),
      LOOP_TEST(every_message_is_one_unfragmented_binary_frame),
      LOOP_TEST(fragmented_messages_are_reassembled),
      LOOP_TEST(bytes_after_the_frame_in_a_message_are_ignored),
      LOOP_TEST(early_bytes_are_processed_before_later_ones),
      LOOP_TEST(a_link_taken_inside_on_data_keeps_the_order),
      LOOP_TEST(frames_wait_until_the_answer_to_the_upgrade_went),
      LOOP_TEST(a_zero_window_update_ends_its_stream_only),
      LOOP_TEST(a_ping_is_answered_with_its_payload),
      LOOP_TEST(ws_ping_is_sent_and_its_pong_counts_as_life),
      LOOP_TEST(a_ping_is_answered_under_bulk),
      LOOP_TEST(a_flood_of_pings_holds_one_answer),
      LOOP_TEST(an_idle_link_holds_no_batch),
      LOOP_TEST(idle_links_and_sockets_let_the_loop_sleep),
      LOOP_TEST(bytes_that_the_mux_holds_back_leave_in_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
