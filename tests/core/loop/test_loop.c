/* core/loop/loop, alarm and socket: flush order and bounds, time, alarms, what close finds. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "core/loop/alarm.h"
#include "core/loop/closing.h"
#include "core/loop/link.h"
#include "core/loop/socket.h"
#include "tests/core/loop/loop_support.h"

/* --- flush ------------------------------------------------------------------------ */

static char order[64];

struct item {
  struct tmesh_flush flush;
  char name;
  unsigned again; /* requests itself this many times more */
  struct item* also;
};

static void run_item(struct tmesh_flush* f) {
  struct item* i = TMESH_CONTAINER(f, struct item, flush);
  size_t len = strlen(order);
  if (len + 1 < sizeof order) order[len] = i->name;
  if (i->also != NULL) tmesh_loop_flush_request(&test_loop, &i->also->flush);
  if (i->again > 0) {
    i->again--;
    tmesh_loop_flush_request(&test_loop, &i->flush);
  }
}

static void init_item(struct item* i, char name) {
  *i = (struct item){.name = name};
  tmesh_flush_init(&i->flush, run_item);
}

static int open_flush(void** state) {
  memset(order, 0, sizeof order);
  return test_loop_open(state);
}
#define FLUSH_TEST(f) cmocka_unit_test_setup_teardown(f, open_flush, test_loop_close)

static void flushes_run_in_order_of_request_and_once(void** state) {
  (void)state;
  struct item a, b, c;
  init_item(&a, 'a'), init_item(&b, 'b'), init_item(&c, 'c');
  tmesh_loop_flush_request(&test_loop, &b.flush);
  tmesh_loop_flush_request(&test_loop, &a.flush);
  tmesh_loop_flush_request(&test_loop, &b.flush);
  tmesh_loop_flush_request(&test_loop, &c.flush);
  test_loop_spin(1);
  assert_string_equal(order, "bac");
}

static void a_request_during_the_flush_runs_in_the_next_round(void** state) {
  (void)state;
  struct item a, b, c;
  init_item(&a, 'a'), init_item(&b, 'b'), init_item(&c, 'c');
  a.again = 1;
  b.also = &c;
  tmesh_loop_flush_request(&test_loop, &a.flush);
  tmesh_loop_flush_request(&test_loop, &b.flush);
  test_loop_spin(1);
  assert_string_equal(order, "abac");
}

static void a_cancelled_flush_does_not_run(void** state) {
  (void)state;
  struct item a, b;
  init_item(&a, 'a'), init_item(&b, 'b');
  tmesh_loop_flush_request(&test_loop, &a.flush);
  tmesh_loop_flush_request(&test_loop, &b.flush);
  tmesh_flush_cancel(&a.flush);
  tmesh_flush_cancel(&a.flush);
  test_loop_spin(1);
  assert_string_equal(order, "b");
}

static void cancel_other(struct tmesh_flush* f) {
  struct item* i = TMESH_CONTAINER(f, struct item, flush);
  tmesh_flush_cancel(&i->also->flush);
}

static void a_flush_may_cancel_one_of_its_round(void** state) {
  (void)state;
  struct item a, b;
  init_item(&a, 'a'), init_item(&b, 'b');
  a.also = &b;
  a.flush.run = cancel_other;
  tmesh_loop_flush_request(&test_loop, &a.flush);
  tmesh_loop_flush_request(&test_loop, &b.flush);
  test_loop_spin(1);
  assert_string_equal(order, "");
}

static void pending_flush_work_keeps_the_loop_alive_and_poll_from_blocking(void** state) {
  (void)state;
  struct item a;
  init_item(&a, 'a');
  a.again = 20;
  tmesh_loop_flush_request(&test_loop, &a.flush);
  tmesh_loop_run(&test_loop); /* ends by itself: nothing else is there */
  assert_int_equal(strlen(order), 21);
}

static unsigned polls_of_hot;

static void run_hot(struct tmesh_flush* f) {
  polls_of_hot++;
  tmesh_loop_flush_request(&test_loop, f);
}

static void a_hot_object_cannot_stop_polling(void** state) {
  (void)state;
  struct tmesh_flush hot;
  polls_of_hot = 0;
  tmesh_flush_init(&hot, run_hot);
  tmesh_loop_flush_request(&test_loop, &hot);
  const uint64_t before = test_loop.poll_count;
  test_loop_spin(3);
  assert_int_equal(test_loop.poll_count - before, 3);
  assert_true(polls_of_hot <= 3 * 2 * TMESH_FLUSH_ROUNDS_MAX);
  tmesh_flush_cancel(&hot);
}

static uint64_t seen_poll_count;

static void run_after_poll(struct tmesh_flush* f) {
  (void)f;
  seen_poll_count = test_loop.poll_count;
}

static void after_poll_work_runs_in_the_check_phase_only(void** state) {
  (void)state;
  struct tmesh_flush f;
  tmesh_flush_init(&f, run_after_poll);
  const uint64_t before = test_loop.poll_count;
  seen_poll_count = UINT64_MAX;
  tmesh_loop_after_poll_request(&test_loop, &f);
  test_loop_spin(1);
  assert_int_equal(seen_poll_count, before + 1);
}

static void hot_after_poll(struct tmesh_flush* f) {
  polls_of_hot++;
  tmesh_loop_after_poll_request(&test_loop, f);
}

static void after_poll_work_runs_once_per_iteration(void** state) {
  (void)state;
  struct tmesh_flush f;
  polls_of_hot = 0;
  tmesh_flush_init(&f, hot_after_poll);
  tmesh_loop_after_poll_request(&test_loop, &f);
  test_loop_spin(5);
  assert_int_equal(polls_of_hot, 5);
  tmesh_flush_cancel(&f);
}

/* --- time, random, bursts ------------------------------------------------------------ */

static void time_is_monotonic_and_in_microseconds(void** state) {
  (void)state;
  const uint64_t real_us = uv_hrtime() / 1000;
  uv_update_time(&test_loop.uv);
  uint64_t last = tmesh_loop_now_us(&test_loop);
  assert_in_range(last, real_us - 100000, real_us + 1000000);
  for (int i = 0; i < 100; i++) {
    test_loop_spin(1);
    const uint64_t now = tmesh_loop_now_us(&test_loop);
    assert_true(now >= last);
    assert_int_equal(tmesh_loop_now_us(&test_loop), now);
    last = now;
  }
}

static void random_bytes_differ_across_refills(void** state) {
  (void)state;
  uint8_t first[16], next[16];
  assert_true(tmesh_loop_random(&test_loop, first, sizeof first));
  for (unsigned i = 0; i < 2 * TMESH_RANDOM_STORE_BYTES / sizeof next; i++) {
    assert_true(tmesh_loop_random(&test_loop, next, sizeof next));
    assert_memory_not_equal(first, next, sizeof next);
  }
}

static void a_burst_ends_with_the_iteration(void** state) {
  (void)state;
  struct tmesh_burst b = {0};
  tmesh_burst_add(&b, &test_loop, TMESH_READ_BURST_BYTES - 1);
  assert_false(tmesh_burst_is_over(&b, &test_loop));
  tmesh_burst_add(&b, &test_loop, 1);
  assert_true(tmesh_burst_is_over(&b, &test_loop));
  test_loop_spin(1);
  assert_false(tmesh_burst_is_over(&b, &test_loop));
}

/* --- alarms ----------------------------------------------------------------------------- */

struct clock_alarm {
  struct tmesh_alarm alarm;
  uint64_t ran_us;
  unsigned count;
  struct clock_alarm* clears;
};

static void run_alarm(struct tmesh_alarm* a) {
  struct clock_alarm* c = TMESH_CONTAINER(a, struct clock_alarm, alarm);
  c->ran_us = tmesh_loop_now_us(&test_loop);
  c->count++;
  if (c->clears != NULL) tmesh_alarm_clear(&c->clears->alarm);
}

static void an_alarm_runs_once_and_not_early(void** state) {
  (void)state;
  struct clock_alarm a = {0}, b = {0};
  tmesh_alarm_init(&a.alarm, run_alarm);
  tmesh_alarm_init(&b.alarm, run_alarm);
  const uint64_t now = tmesh_loop_now_us(&test_loop);
  tmesh_alarm_set(&test_loop, &b.alarm, now + 250000);
  tmesh_alarm_set(&test_loop, &a.alarm, now + 50000); /* earlier than what is armed */
  tmesh_loop_run(&test_loop);                         /* an alarm keeps the loop alive */
  assert_int_equal(a.count, 1);
  assert_int_equal(b.count, 1);
  assert_true(a.ran_us >= now + 50000);
  assert_true(b.ran_us >= now + 250000);
  assert_true(a.ran_us < b.ran_us);
}

static void a_cleared_or_moved_alarm_does_not_run_at_its_old_time(void** state) {
  (void)state;
  struct clock_alarm a = {0}, b = {0};
  tmesh_alarm_init(&a.alarm, run_alarm);
  tmesh_alarm_init(&b.alarm, run_alarm);
  const uint64_t now = tmesh_loop_now_us(&test_loop);
  tmesh_alarm_set(&test_loop, &a.alarm, now);
  tmesh_alarm_set(&test_loop, &b.alarm, now);
  tmesh_alarm_set(&test_loop, &b.alarm, now + 200000);
  tmesh_alarm_clear(&a.alarm);
  tmesh_alarm_clear(&a.alarm);
  assert_false(tmesh_alarm_is_set(&a.alarm));
  tmesh_loop_run(&test_loop);
  assert_int_equal(a.count, 0);
  assert_int_equal(b.count, 1);
  assert_true(b.ran_us >= now + 200000);
}

static void an_alarm_may_clear_one_that_is_due_with_it(void** state) {
  (void)state;
  struct clock_alarm a = {0}, b = {0};
  tmesh_alarm_init(&a.alarm, run_alarm);
  tmesh_alarm_init(&b.alarm, run_alarm);
  a.clears = &b;
  b.clears = &a;
  tmesh_alarm_set(&test_loop, &a.alarm, 0);
  tmesh_alarm_set(&test_loop, &b.alarm, 0);
  tmesh_loop_run(&test_loop);
  assert_int_equal(a.count + b.count, 1);
}

/* --- close ------------------------------------------------------------------------------ */

static void ignore_timer(uv_timer_t* t) {
  (void)t;
}

static void close_finds_a_leaked_handle(void** state) {
  (void)state;
  struct tmesh_loop loop;
  uv_timer_t leaked;
  assert_true(tmesh_is_ok(tmesh_loop_init(&loop, 1 << 20)));
  assert_int_equal(uv_timer_init(&loop.uv, &leaked), 0);
  assert_int_equal(uv_timer_start(&leaked, ignore_timer, 1000000, 0), 0);
  assert_false(tmesh_loop_close(&loop));
  uv_close((uv_handle_t*)&leaked, NULL);
  (void)uv_run(&loop.uv, UV_RUN_NOWAIT);
  assert_int_equal(uv_loop_close(&loop.uv), 0);
}

static void close_finds_a_leaked_block(void** state) {
  (void)state;
  struct tmesh_loop loop;
  assert_true(tmesh_is_ok(tmesh_loop_init(&loop, 1 << 20)));
  struct tmesh_block* b = tmesh_pool_get(&loop.pool);
  assert_false(tmesh_loop_close(&loop));
  tmesh_pool_put(&loop.pool, b);
  tmesh_pool_close(&loop.pool);
}

static bool is_done;

static void note_done(struct tmesh_closing* c) {
  (void)c;
  is_done = true;
}

static void close_waits_for_closing_objects(void** state) {
  (void)state;
  struct tmesh_loop loop;
  struct tmesh_closing c = {0};
  uv_timer_t a, b;
  is_done = false;
  assert_true(tmesh_is_ok(tmesh_loop_init(&loop, 1 << 20)));
  assert_int_equal(uv_timer_init(&loop.uv, &a), 0);
  assert_int_equal(uv_timer_init(&loop.uv, &b), 0);
  tmesh_closing_begin(&c, &loop, note_done);
  tmesh_closing_handle(&c, (uv_handle_t*)&a);
  tmesh_closing_handle(&c, (uv_handle_t*)&b);
  assert_false(is_done); /* never from inside */
  assert_true(tmesh_loop_close(&loop));
  assert_true(is_done);
}

static void stop_ends_run(void** state) {
  (void)state;
  uv_timer_t t;
  assert_int_equal(uv_timer_init(&test_loop.uv, &t), 0);
  assert_int_equal(uv_timer_start(&t, ignore_timer, 1000000, 0), 0);
  tmesh_loop_stop(&test_loop);
  tmesh_loop_run(&test_loop);
  assert_true(uv_is_active((uv_handle_t*)&t));
  uv_close((uv_handle_t*)&t, NULL);
  test_loop_spin(1);
}

/* --- tables ----------------------------------------------------------------------------- */

static void every_errno_of_the_table_has_its_code(void** state) {
  (void)state;
  const struct {
    int uv_error;
    enum tmesh_code code;
  } want[] = {{UV_EOF, TMESH_E_CLOSED},
              {UV_ECONNRESET, TMESH_E_RESET},
              {UV_EPIPE, TMESH_E_RESET},
              {UV_ECONNABORTED, TMESH_E_RESET},
              {UV_ENOTCONN, TMESH_E_RESET},
              {UV_ECONNREFUSED, TMESH_E_REFUSED},
              {UV_ETIMEDOUT, TMESH_E_TIMEOUT},
              {UV_ENETUNREACH, TMESH_E_NET_UNREACHABLE},
              {UV_ENETDOWN, TMESH_E_NET_UNREACHABLE},
              {UV_EHOSTUNREACH, TMESH_E_HOST_UNREACHABLE},
              {UV_EACCES, TMESH_E_POLICY},
              {UV_EPERM, TMESH_E_POLICY},
              {UV_ENOMEM, TMESH_E_NO_MEMORY},
              {UV_EMFILE, TMESH_E_LIMIT},
              {UV_ECANCELED, TMESH_E_CANCELLED},
              {UV_EBADF, TMESH_E_IO},
              {-1000000, TMESH_E_IO},
              {0, TMESH_E_IO}};
  for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
    assert_int_equal(tmesh_code_from_uv(want[i].uv_error), want[i].code);
  }
}

static void every_code_has_a_close_code_that_may_be_sent(void** state) {
  (void)state;
  for (unsigned code = 0; code < TMESH_CODE_COUNT + 3; code++) {
    assert_true(tmesh_ws_close_code_valid(tmesh_link_close_code(code)));
  }
  assert_int_equal(tmesh_link_close_code(TMESH_E_CLOSED), 1000);
  assert_int_equal(tmesh_link_close_code(TMESH_E_WS_PROTOCOL), 1002);
  assert_int_equal(tmesh_link_close_code(TMESH_E_WS_TEXT), 1003);
  assert_int_equal(tmesh_link_close_code(TMESH_E_TOO_LARGE), 1009);
  assert_int_equal(tmesh_link_close_code(TMESH_E_FRAME_TYPE), 1002);
  assert_int_equal(tmesh_link_close_code(TMESH_E_TRUNCATED), 1002);
  assert_int_equal(tmesh_link_close_code(TMESH_E_CONTROL_EXHAUSTED), 1011);
}

static void a_mapped_ipv4_address_is_shown_as_ipv4(void** state) {
  (void)state;
  struct sockaddr_storage a = {0};
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(80)};
  memcpy(six.sin6_addr.s6_addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1", 16);
  memcpy(&a, &six, sizeof six);
  tmesh_sockaddr_unmap(&a);
  const struct sockaddr_in* four = (const struct sockaddr_in*)&a;
  assert_int_equal(four->sin_family, AF_INET);
  assert_int_equal(four->sin_port, htons(80));
  assert_int_equal(four->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  six.sin6_addr = in6addr_loopback;
  memcpy(&a, &six, sizeof six);
  tmesh_sockaddr_unmap(&a);
  assert_int_equal(a.ss_family, AF_INET6);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      FLUSH_TEST(flushes_run_in_order_of_request_and_once),
      FLUSH_TEST(a_request_during_the_flush_runs_in_the_next_round),
      FLUSH_TEST(a_cancelled_flush_does_not_run),
      FLUSH_TEST(a_flush_may_cancel_one_of_its_round),
      FLUSH_TEST(pending_flush_work_keeps_the_loop_alive_and_poll_from_blocking),
      LOOP_TEST(a_hot_object_cannot_stop_polling),
      LOOP_TEST(after_poll_work_runs_in_the_check_phase_only),
      LOOP_TEST(after_poll_work_runs_once_per_iteration),
      LOOP_TEST(time_is_monotonic_and_in_microseconds),
      LOOP_TEST(random_bytes_differ_across_refills),
      LOOP_TEST(a_burst_ends_with_the_iteration),
      LOOP_TEST(an_alarm_runs_once_and_not_early),
      LOOP_TEST(a_cleared_or_moved_alarm_does_not_run_at_its_old_time),
      LOOP_TEST(an_alarm_may_clear_one_that_is_due_with_it),
      cmocka_unit_test(close_finds_a_leaked_handle),
      cmocka_unit_test(close_finds_a_leaked_block),
      cmocka_unit_test(close_waits_for_closing_objects),
      LOOP_TEST(stop_ends_run),
      cmocka_unit_test(every_errno_of_the_table_has_its_code),
      cmocka_unit_test(every_code_has_a_close_code_that_may_be_sent),
      cmocka_unit_test(a_mapped_ipv4_address_is_shown_as_ipv4),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
