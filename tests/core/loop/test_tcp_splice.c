/* tcp <-> tcp through a splice: what a relay must get right (LESSONS R5, R6, P-B*). */
#include <stdlib.h>

#include "tests/core/loop/flow_support.h"
#include "tests/core/loop/tcp_support.h"

/* left peer -- [left | right] -- right peer */
struct relay {
  struct tmesh_tcp ends[2];
  struct tmesh_splice splice;
  int peers[2];
  unsigned closed_count, done_count;
  struct tmesh_status why;
  int broken;
};

static struct relay r;

#define END_EVENTS(i)                                               \
  static void on_readable_##i(void* ctx) {                          \
    tmesh_splice_readable(&((struct relay*)ctx)->splice, i);        \
  }                                                                 \
  static void on_eof_##i(void* ctx) {                               \
    tmesh_splice_eof(&((struct relay*)ctx)->splice, i);             \
  }                                                                 \
  static void on_written_##i(void* ctx, size_t n, bool all) {       \
    tmesh_splice_written(&((struct relay*)ctx)->splice, i, n, all); \
  }                                                                 \
  static void on_broken_##i(void* ctx, struct tmesh_status why) {   \
    tmesh_splice_broken(&((struct relay*)ctx)->splice, i, why);     \
  }
END_EVENTS(0)
END_EVENTS(1)

static void on_closed(void* ctx) {
  ((struct relay*)ctx)->closed_count++;
}

static const struct tmesh_tcp_events events[2] = {
    {on_readable_0, on_eof_0, on_written_0, on_broken_0, on_closed},
    {on_readable_1, on_eof_1, on_written_1, on_broken_1, on_closed},
};

static void on_done(void* ctx, struct tmesh_splice* splice, struct tmesh_status why, int broken) {
  struct relay* relay = ctx;
  (void)splice;
  relay->done_count++;
  relay->why = why;
  relay->broken = broken;
  for (int i = 0; i < 2; i++) tmesh_tcp_close(&relay->ends[i], tmesh_is_ok(why));
}

static void open_relay(void) {
  memset(&r, 0, sizeof r);
  for (int i = 0; i < 2; i++) {
    int fds[2];
    test_tcp_pair(fds);
    r.peers[i] = fds[1];
    assert_true(tmesh_is_ok(tmesh_tcp_open(&r.ends[i], &test_loop, fds[0], &events[i], &r)));
  }
  tmesh_splice_init(&r.splice, tmesh_tcp_end(&r.ends[0]), tmesh_tcp_end(&r.ends[1]), &r, on_done);
  for (int i = 0; i < 2; i++) tmesh_tcp_read(&r.ends[i], TMESH_BLOCK_BYTES);
  tmesh_splice_start(&r.splice);
}

static void both_closed(void) {
  RUN_UNTIL(r.closed_count == 2);
  assert_int_equal(r.done_count, 1);
  for (int i = 0; i < 2; i++) close(r.peers[i]);
}

static void sixteen_mib_both_ways_are_byte_exact(void** state) {
  (void)state;
  open_relay();
  struct flow a = {.from = r.peers[0], .to = r.peers[1], .seed = 1, .total = 16u << 20};
  struct flow b = {.from = r.peers[1], .to = r.peers[0], .seed = 2, .total = 16u << 20};
  RUN_UNTIL(flow_done(&a) & flow_done(&b));
  assert_int_equal(a.got, a.total);
  assert_int_equal(b.got, b.total);
  both_closed();
  assert_true(tmesh_is_ok(r.why));
  assert_int_equal(test_loop.pool.live_count, 0);
}

static void a_late_answer_after_half_close_is_complete(void** state) {
  (void)state;
  open_relay();
  test_send_all(r.peers[0], "request", 7);
  shutdown(r.peers[0], SHUT_WR);
  uint8_t got[16];
  size_t len = 0;
  RUN_UNTIL(test_recv(r.peers[1], got, sizeof got, &len) == 0); /* FIN came through */
  assert_int_equal(len, 7);
  /* Later than the second after which a bridge once cut it. */
  const uint64_t until_us = uv_hrtime() / 1000 + 1300000;
  RUN_UNTIL(uv_hrtime() / 1000 > until_us);
  assert_int_equal(r.done_count, 0);
  struct flow answer = {.from = r.peers[1], .to = r.peers[0], .seed = 5, .total = 524288};
  RUN_UNTIL(flow_done(&answer));
  assert_int_equal(answer.got, answer.total);
  both_closed();
  assert_true(tmesh_is_ok(r.why));
}

static void a_reset_on_one_side_resets_the_other(void** state) {
  (void)state;
  uint8_t got[16];
  size_t len = 0;
  open_relay();
  test_loop_spin(3);
  test_close_reset(r.peers[0]);
  RUN_UNTIL(r.done_count == 1);
  assert_int_equal(r.why.code, TMESH_E_RESET);
  assert_int_equal(r.broken, 0);
  RUN_UNTIL(r.closed_count == 2);
  assert_true(test_recv(r.peers[1], got, sizeof got, &len) < 0); /* not a clean end (R5) */
  close(r.peers[1]);
}

static void a_stopped_reader_bounds_what_the_relay_holds(void** state) {
  (void)state;
  open_relay();
  static uint8_t data[65536];
  uint64_t sent = 0, idle = 0;
  test_loop_begin("everything is full");
  while (idle < 200) {
    size_t n = test_send(r.peers[0], data, sizeof data);
    sent += n;
    idle = n == 0 ? idle + 1 : 0;
    (void)uv_run(&test_loop.uv, UV_RUN_NOWAIT);
    assert_true(tmesh_pool_live_bytes(&test_loop.pool) <=
                2 * TMESH_TCP_OUT_MAX_BYTES + 4 * TMESH_BLOCK_BYTES);
  }
  test_loop_end();
  assert_true(sent > 0);
  /* The reader wakes up: everything arrives. */
  shutdown(r.peers[0], SHUT_WR);
  shutdown(r.peers[1], SHUT_WR);
  uint64_t total = 0;
  int rc = 1;
  test_loop_begin("all read");
  while (rc == 1) {
    size_t len = 0;
    rc = test_recv(r.peers[1], data, sizeof data, &len);
    total += len;
    test_loop_step();
  }
  test_loop_end();
  assert_int_equal(rc, 0);
  assert_int_equal(total, sent);
  both_closed();
}

static void bytes_that_waited_before_the_splice_are_moved(void** state) {
  (void)state;
  struct sock entry;
  int fds[2];
  test_tcp_pair(fds);
  sock_open(&entry, fds[0]);
  tmesh_tcp_read(&entry.tcp, 16384); /* while the target is being opened */
  test_send_all(fds[1], "early", 5);
  RUN_UNTIL(entry.tcp.in.len_bytes == 5);
  int target[2];
  test_tcp_pair(target);
  memset(&r, 0, sizeof r);
  r.peers[0] = fds[1];
  r.peers[1] = target[1];
  assert_true(tmesh_is_ok(tmesh_tcp_open(&r.ends[1], &test_loop, target[0], &events[1], &r)));
  /* The recorder's socket becomes end 0 where it is. */
  assert_true(tmesh_is_ok(tmesh_tcp_send(&entry.tcp, "ok", 2)));
  tmesh_tcp_rebind(&entry.tcp, &events[0], &r);
  tmesh_splice_init(&r.splice, tmesh_tcp_end(&entry.tcp), tmesh_tcp_end(&r.ends[1]), &r, on_done);
  tmesh_splice_start(&r.splice);
  tmesh_tcp_read(&entry.tcp, TMESH_BLOCK_BYTES);
  tmesh_tcp_read(&r.ends[1], TMESH_BLOCK_BYTES);
  uint8_t got[16];
  size_t len = 0;
  RUN_UNTIL(test_recv(target[1], got, sizeof got, &len) == 1 && len == 5);
  assert_memory_equal(got, "early", 5);
  tmesh_splice_cancel(&r.splice);
  RUN_UNTIL(r.closed_count == 2);
  assert_int_equal(r.done_count, 0);
  close(fds[1]);
  close(target[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      LOOP_TEST(sixteen_mib_both_ways_are_byte_exact),
      LOOP_TEST(a_late_answer_after_half_close_is_complete),
      LOOP_TEST(a_reset_on_one_side_resets_the_other),
      LOOP_TEST(a_stopped_reader_bounds_what_the_relay_holds),
      LOOP_TEST(bytes_that_waited_before_the_splice_are_moved),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
