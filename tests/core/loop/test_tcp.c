/* core/loop/tcp: reading, writing, half-close, and how a socket breaks. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

static int socket_option(int level, int option) {
  uv_os_fd_t fd;
  int value = -1;
  socklen_t len = sizeof value;
  assert_int_equal(uv_fileno((const uv_handle_t*)&s.tcp.tcp, &fd), 0);
  assert_int_equal(getsockopt(fd, level, option, &value, &len), 0);
  return value;
}

static void expect_prepared(void) {
  assert_int_not_equal(socket_option(IPPROTO_TCP, TCP_NODELAY), 0);
  assert_int_not_equal(socket_option(SOL_SOCKET, SO_KEEPALIVE), 0);
  assert_int_equal(socket_option(IPPROTO_TCP, TCP_KEEPIDLE), TMESH_TCP_KEEPALIVE_S);
  assert_int_equal(socket_option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
  assert_int_equal(socket_option(IPPROTO_TCP, TCP_KEEPCNT), 10);
}

/* --- opening ------------------------------------------------------------------------ */

static void open_sets_nodelay_and_keepalive(void** state) {
  (void)state;
  open_pair();
  expect_prepared();
  sock_close(&s, false);
  close(peer);
}

static void what_a_prepared_listener_accepts_is_prepared(void** state) {
  (void)state;
  uint16_t port;
  const int listening = test_listen(&port);
  assert_true(tmesh_tcp_prepare(listening));
  peer = test_connect(port);
  const int fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
  assert_true(fd >= 0);
  close(listening);
  s = (struct sock){0};
  tmesh_tcp_open_prepared(&s.tcp, &test_loop, fd, &sock_events, &s);
  expect_prepared();
  tmesh_tcp_read(&s.tcp, 100);
  test_send_all(peer, "hello", 5);
  RUN_UNTIL(s.tcp.in.len_bytes == 5);
  sock_close(&s, false);
  close(peer);
}

static void a_bad_descriptor_is_refused_and_needs_no_close(void** state) {
  (void)state;
  struct tmesh_status st = tmesh_tcp_open(&s.tcp, &test_loop, 100000, &sock_events, &s);
  assert_int_equal(st.code, TMESH_E_IO);
  assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
}

static void a_descriptor_libuv_refuses_breaks_later(void** state) {
  (void)state;
  int fds[2];
  struct sock second;
  test_tcp_pair(fds);
  sock_open(&s, fds[0]);
  tmesh_tcp_read(&s.tcp, 10); /* the loop now watches this descriptor */
  test_loop_spin(1);
  sock_open(&second, fds[0]);               /* twice: libuv finds it in use; it is closed all the same */
  assert_int_equal(second.broken_count, 0); /* not from inside */
  RUN_UNTIL(second.broken_count == 1);
  sock_close(&second, true);
  sock_close(&s, false);
  close(fds[1]);
}

/* --- reading ------------------------------------------------------------------------ */

static void nothing_is_read_before_read_is_called(void** state) {
  (void)state;
  open_pair();
  test_send_all(peer, "hello", 5);
  test_loop_spin(5);
  assert_int_equal(s.readable_count, 0);
  tmesh_tcp_read(&s.tcp, 100);
  assert_int_equal(s.readable_count, 0); /* not from inside */
  RUN_UNTIL(s.tcp.in.len_bytes == 5);
  uint8_t got[5];
  assert_int_equal(tmesh_chunkq_read(&s.tcp.in, got, 5), 5);
  assert_memory_equal(got, "hello", 5);
  sock_close(&s, false);
  close(peer);
}

static void an_idle_socket_holds_no_block(void** state) {
  (void)state;
  open_pair();
  s.takes = true;
  tmesh_tcp_read(&s.tcp, 32768);
  test_loop_spin(3);
  assert_int_equal(test_loop.pool.live_count, 0);
  test_send_all(peer, "x", 1);
  RUN_UNTIL(s.read_bytes == 1);
  test_loop_spin(3);
  assert_int_equal(test_loop.pool.live_count, 0);
  sock_close(&s, false);
  close(peer);
}

static void eof_is_reported_once_after_the_bytes(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 100);
  test_send_all(peer, "bye", 3);
  shutdown(peer, SHUT_WR);
  RUN_UNTIL(s.eof_count > 0);
  test_loop_spin(5);
  assert_int_equal(s.eof_count, 1);
  assert_int_equal(s.tcp.in.len_bytes, 3);
  assert_int_equal(s.broken_count, 0);
  sock_close(&s, false);
  close(peer);
}

static void reset_while_reading_is_broken_reset(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_read(&s.tcp, 100);
  test_loop_spin(2);
  test_close_reset(peer);
  RUN_UNTIL(s.broken_count == 1);
  assert_int_equal(s.why.code, TMESH_E_RESET);
  assert_int_equal(s.why.scope, TMESH_SCOPE_STREAM);
  assert_int_equal(s.eof_count, 0);
  test_loop_spin(5);
  assert_int_equal(s.broken_count, 1);
  sock_close(&s, true);
}

static void a_burst_ends_and_reading_goes_on_in_the_next_iteration(void** state) {
  (void)state;
  enum { TOTAL = 2 << 20 };
  open_pair();
  uint8_t* data = calloc(1, TOTAL);
  size_t sent = 0;
  s.takes = true;
  while (sent < TMESH_READ_BURST_BYTES * 2) { /* loopback takes some MiB */
    size_t n = test_send(peer, data, TOTAL - sent);
    if (n == 0) break;
    sent += n;
  }
  tmesh_tcp_read(&s.tcp, 32768);
  uint64_t before = 0;
  test_loop_begin("all read");
  while (s.read_bytes < sent) {
    test_loop_step();
    assert_true(s.read_bytes - before <= TMESH_READ_BURST_BYTES + TMESH_BLOCK_BYTES);
    before = s.read_bytes;
  }
  test_loop_end();
  free(data);
  sock_close(&s, false);
  close(peer);
}

static void events_go_to_the_owner_after_rebind(void** state) {
  (void)state;
  struct sock other;
  open_pair();
  memset(&other, 0, sizeof other);
  tmesh_tcp_read(&s.tcp, 3);
  test_send_all(peer, "abcdef", 6);
  RUN_UNTIL(s.tcp.in.len_bytes == 3); /* never more than was asked for */
  test_loop_spin(5);
  assert_int_equal(s.tcp.in.len_bytes, 3);
  tmesh_tcp_rebind(&s.tcp, &sock_events, &other);
  tmesh_tcp_read(&s.tcp, 100);
  RUN_UNTIL(other.readable_count > 0);
  assert_int_equal(s.tcp.in.len_bytes, 6);
  tmesh_tcp_close(&s.tcp, false);
  RUN_UNTIL(other.closed_count == 1);
  assert_int_equal(s.closed_count, 0);
  close(peer);
}

/* --- writing ------------------------------------------------------------------------ */

static void written_counts_every_byte_and_says_when_all_went(void** state) {
  (void)state;
  enum { TOTAL = 8 << 20 };
  uint8_t* got = malloc(TOTAL);
  uint8_t piece[40000];
  size_t len = 0;
  uint64_t queued = 0;
  bool was_full = false;
  open_pair();
  struct tmesh_end end = tmesh_tcp_end(&s.tcp);
  test_loop_begin("all written");
  while (len < TOTAL) {
    size_t room = end.ops->room(end.impl);
    assert_true(room <= TMESH_TCP_OUT_MAX_BYTES);
    if (room > TOTAL - queued) room = (size_t)(TOTAL - queued);
    if (room > sizeof piece) room = sizeof piece;
    if (room > 0) {
      test_fill(7, queued, piece, room);
      queue(piece, room);
      queued += room;
      end.ops->added(end.impl);
    }
    tmesh_tcp_check(&s.tcp);
    assert_true(s.tcp.out.len_bytes <= TMESH_TCP_OUT_MAX_BYTES);
    assert_int_equal(s.written_bytes, queued - s.tcp.out.len_bytes); /* nothing counted early */
    test_loop_step();
    /* A reader that lets the kernel fill up, so that both ways of writing are used. */
    was_full = was_full || s.tcp.is_writing;
    if (queued == TOTAL || s.tcp.out.len_bytes == TMESH_TCP_OUT_MAX_BYTES) {
      assert_int_equal(test_recv(peer, got, TOTAL, &len), 1);
    }
  }
  test_loop_end();
  RUN_UNTIL(s.written_bytes == TOTAL);
  assert_true(s.all_written);
  assert_true(was_full);
  test_match(7, 0, got, TOTAL);
  free(got);
  sock_close(&s, false);
  close(peer);
}

static void send_queues_a_reply_and_is_reported(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_pair();
  assert_true(tmesh_is_ok(tmesh_tcp_send(&s.tcp, "reply", 5)));
  assert_int_equal(s.written_count, 0);
  assert_int_equal(tmesh_tcp_end(&s.tcp).foreign_bytes, 5);
  RUN_UNTIL(test_recv(peer, got, sizeof got, &len) == 1 && len == 5);
  assert_memory_equal(got, "reply", 5);
  assert_int_equal(s.written_bytes, 5);
  assert_true(s.all_written);
  tmesh_tcp_finish(&s.tcp);
  assert_int_equal(tmesh_tcp_send(&s.tcp, "x", 1).code, TMESH_E_STATE);
  sock_close(&s, false);
  close(peer);
}

static void send_reports_a_refused_block(void** state) {
  (void)state;
  struct tmesh_block* all[4096];
  size_t count = 0;
  open_pair();
  while ((all[count] = tmesh_pool_get(&test_loop.pool)) != NULL) count++;
  assert_int_equal(tmesh_tcp_send(&s.tcp, "x", 1).code, TMESH_E_NO_MEMORY);
  while (count > 0) tmesh_pool_put(&test_loop.pool, all[--count]);
  sock_close(&s, false);
  close(peer);
}

static void finish_sends_fin_behind_the_bytes(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_pair();
  queue("last", 4);
  tmesh_tcp_finish(&s.tcp);
  tmesh_tcp_finish(&s.tcp);
  RUN_UNTIL(test_recv(peer, got, sizeof got, &len) == 0);
  assert_int_equal(len, 4);
  RUN_UNTIL(s.all_written);
  assert_int_equal(s.written_bytes, 4);
  assert_int_equal(tmesh_tcp_end(&s.tcp).ops->room(&s.tcp), 0);
  /* The other direction goes on (LESSONS R6). */
  tmesh_tcp_read(&s.tcp, 100);
  test_send_all(peer, "answer", 6);
  RUN_UNTIL(s.tcp.in.len_bytes == 6);
  sock_close(&s, false);
  close(peer);
}

struct fin_probe {
  struct tmesh_flush flush;
  bool has_run, has_fin;
};

static void look_for_fin(struct tmesh_flush* flush) {
  struct fin_probe* probe = TMESH_CONTAINER(flush, struct fin_probe, flush);
  char byte;
  probe->has_run = true;
  probe->has_fin = recv(peer, &byte, 1, MSG_DONTWAIT) == 0;
}

/* It runs behind the socket's flush, in the same round: no poll was needed. */
static void the_fin_leaves_with_the_flush(void** state) {
  (void)state;
  struct fin_probe probe = {0};
  open_pair();
  test_loop_spin(2);
  tmesh_tcp_finish(&s.tcp);
  tmesh_flush_init(&probe.flush, look_for_fin);
  tmesh_loop_flush_request(&test_loop, &probe.flush);
  RUN_UNTIL(probe.has_run);
  assert_true(probe.has_fin);
  assert_true(s.all_written);
  sock_close(&s, false);
  close(peer);
}

static void finish_of_an_empty_queue_is_reported_as_all_written(void** state) {
  (void)state;
  open_pair();
  tmesh_tcp_finish(&s.tcp);
  assert_false(s.all_written);
  RUN_UNTIL(s.all_written);
  assert_int_equal(s.written_count, 1);
  assert_int_equal(s.written_bytes, 0);
  sock_close(&s, false);
  close(peer);
}

static void a_failed_write_breaks_the_socket(void** state) {
  (void)state;
  open_pair();
  test_close_reset(peer);
  queue("x", 1);
  tmesh_tcp_end(&s.tcp).ops->added(&s.tcp);
  RUN_UNTIL(s.broken_count == 1);
  assert_int_equal(s.why.code, TMESH_E_RESET);
  assert_int_equal(tmesh_tcp_send(&s.tcp, "x", 1).code, TMESH_E_STATE);
  assert_int_equal(tmesh_tcp_end(&s.tcp).ops->room(&s.tcp), 0);
  sock_close(&s, false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(open_sets_nodelay_and_keepalive),
      LOOP_TEST(what_a_prepared_listener_accepts_is_prepared),
      LOOP_TEST(a_bad_descriptor_is_refused_and_needs_no_close),
      LOOP_TEST(a_descriptor_libuv_refuses_breaks_later),
      LOOP_TEST(nothing_is_read_before_read_is_called),
      LOOP_TEST(an_idle_socket_holds_no_block),
      LOOP_TEST(eof_is_reported_once_after_the_bytes),
      LOOP_TEST(reset_while_reading_is_broken_reset),
      LOOP_TEST(a_burst_ends_and_reading_goes_on_in_the_next_iteration),
      LOOP_TEST(events_go_to_the_owner_after_rebind),
      LOOP_TEST(written_counts_every_byte_and_says_when_all_went),
      LOOP_TEST(send_queues_a_reply_and_is_reported),
      LOOP_TEST(send_reports_a_refused_block),
      LOOP_TEST(finish_sends_fin_behind_the_bytes),
      LOOP_TEST(finish_of_an_empty_queue_is_reported_as_all_written),
      LOOP_TEST(the_fin_leaves_with_the_flush),
      LOOP_TEST(a_failed_write_breaks_the_socket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
