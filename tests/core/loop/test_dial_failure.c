/* core/loop/dial: errors, deadlines, the filter and cancelling, on loopback. */
#include "tests/core/loop/dial_support.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/loop/dial_errno.h"

/* --- failures ------------------------------------------------------------------ */

static void a_closed_port_is_refused_in_connect(void** state) {
  struct fixture* f = *state;
  bind_only(f, "127.0.0.1"); /* bound, not listening: nobody else gets the port */
  struct outcome o = {0};
  dial(f, "127.0.0.1", 8000, 5000, &o);
  assert_failed(&o, TMESH_E_REFUSED, TMESH_DIAL_CONNECT);
}

static int resetting = -1; /* a listener whose connections are reset before connect() returns */

int __real_connect(int fd, const struct sockaddr* to, socklen_t len);
int __wrap_connect(int fd, const struct sockaddr* to, socklen_t len);

int __wrap_connect(int fd, const struct sockaddr* to, socklen_t len) {
  const int rc = __real_connect(fd, to, len);
  const int error = errno;
  if (resetting >= 0) {
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    const int peer = accept(resetting, NULL, NULL);
    resetting = -1;
    assert_true(peer >= 0);
    assert_int_equal(setsockopt(peer, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
    close(peer);
  }
  errno = error;
  return rc;
}

/* As a closed port: nobody there wants this connection. */
static void a_target_that_accepts_and_resets_at_once_is_refused_in_connect(void** state) {
  struct fixture* f = *state;
  resetting = live(f, "127.0.0.1");
  struct outcome o = {0};
  dial(f, "127.0.0.1", 8000, 5000, &o);
  assert_int_equal(resetting, -1);
  assert_failed(&o, TMESH_E_REFUSED, TMESH_DIAL_CONNECT);
}

static void an_unroutable_address_is_network_unreachable(void** state) {
  struct fixture* f = *state;
  f->port = 9;
  struct outcome o = {0};
  dial(f, "ff05::1", 8000, 5000, &o);
  assert_failed(&o, TMESH_E_NET_UNREACHABLE, TMESH_DIAL_CONNECT);
}

static void a_silent_address_times_out_per_attempt(void** state) {
  struct fixture* f = *state;
  black_hole(f, "127.0.0.1");
  struct outcome o = {0};
  dial(f, "127.0.0.1", 15000, 100, &o);
  assert_failed(&o, TMESH_E_TIMEOUT, TMESH_DIAL_CONNECT);
  assert_true(o.result.connect_us >= 95000);
  assert_true(o.result.connect_us < 5000000);
}

static void the_deadline_counts_for_everything(void** state) {
  struct fixture* f = *state;
  black_hole(f, "127.0.0.1");
  struct outcome o = {0};
  dial(f, "127.0.0.1", 100, 0, &o);
  assert_failed(&o, TMESH_E_TIMEOUT, TMESH_DIAL_CONNECT);
  fake_dns_rule(&f->dns, "silent.test", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "silent.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  memset(&o, 0, sizeof o);
  dial(f, "silent.test", 100, 5000, &o);
  assert_failed(&o, TMESH_E_TIMEOUT, TMESH_DIAL_DNS);
  assert_int_equal(f->dns.a_count, 1);
}

static void names_that_do_not_resolve_fail_in_dns(void** state) {
  struct fixture* f = *state;
  struct outcome o = {0};
  dial(f, "unknown.test", 8000, 5000, &o);
  assert_failed(&o, TMESH_E_DNS, TMESH_DIAL_DNS);
  fake_dns_rule(&f->dns, "nx4.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  tmesh_resolver_set_timing(f->resolver, 50, 1000000);
  memset(&o, 0, sizeof o);
  dial(f, "nx4.test", 8000, 5000, &o); /* a definite answer says more than silence */
  assert_failed(&o, TMESH_E_DNS, TMESH_DIAL_DNS);
}

static void refused_names_fail_at_once(void** state) {
  struct fixture* f = *state;
  const char* hosts[] = {"0x7f.1", "127.1", "fe80::1%lo", "[::1]", "a b", ""};
  for (int i = 0; i < 6; i++) {
    struct tmesh_dial_params p = {.host = hosts[i], .port = 1, .timeout_ms = 1000, .done = on_done};
    struct tmesh_dial* d;
    assert_int_equal(tmesh_dial_start(&f->loop, f->resolver, &p, &d).code, TMESH_E_DNS);
    assert_null(d);
  }
}

static void the_most_telling_error_is_told(void** state) {
  struct fixture* f = *state;
  bind_only(f, "127.0.0.2");
  black_hole(f, "127.0.0.3");
  names(f, "mixed.test", "127.0.0.3 127.0.0.2", "ff05::1");
  struct outcome o = {0};
  dial(f, "mixed.test", 8000, 400, &o);
  assert_failed(&o, TMESH_E_REFUSED, TMESH_DIAL_CONNECT);
  memset(&o, 0, sizeof o);
  dial(f, "mixed.test", 600, 0, &o); /* also when the deadline ends it */
  assert_failed(&o, TMESH_E_REFUSED, TMESH_DIAL_CONNECT);

  const enum tmesh_code order[] = {TMESH_OK,
                                   TMESH_E_DNS,
                                   TMESH_E_IO,
                                   TMESH_E_TIMEOUT,
                                   TMESH_E_NET_UNREACHABLE,
                                   TMESH_E_HOST_UNREACHABLE,
                                   TMESH_E_REFUSED};
  for (size_t i = 0; i < 7; i++) {
    for (size_t j = 0; j < 7; j++) {
      assert_int_equal(tmesh_dial_worse(order[i], order[j]), order[i > j ? i : j]);
    }
  }
}

static void errno_table(void** state) {
  (void)state;
  const struct {
    int error;
    enum tmesh_code code;
  } rows[] = {{ECONNREFUSED, TMESH_E_REFUSED},
              {ENETUNREACH, TMESH_E_NET_UNREACHABLE},
              {EAFNOSUPPORT, TMESH_E_NET_UNREACHABLE},
              {EHOSTUNREACH, TMESH_E_HOST_UNREACHABLE},
              {EACCES, TMESH_E_HOST_UNREACHABLE},
              {ETIMEDOUT, TMESH_E_TIMEOUT},
              {EMFILE, TMESH_E_IO},
              {ECONNRESET, TMESH_E_REFUSED},
              {ECONNABORTED, TMESH_E_REFUSED},
              {EPIPE, TMESH_E_REFUSED},
              {EIO, TMESH_E_IO}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    assert_int_equal(tmesh_dial_status_of_errno(rows[i].error).code, rows[i].code);
  }
  for (int e = -1; e < 200; e++) { /* nothing outside what dial.h documents, and no POLICY */
    struct tmesh_status st = tmesh_dial_status_of_errno(e);
    assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
    assert_true(st.code == TMESH_E_REFUSED || st.code == TMESH_E_NET_UNREACHABLE ||
                st.code == TMESH_E_HOST_UNREACHABLE || st.code == TMESH_E_TIMEOUT || st.code == TMESH_E_IO);
  }
}

/* --- filter -------------------------------------------------------------------- */

static void denied_addresses_drop_out_of_the_race(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  live(f, "::1");
  names(f, "both.test", "127.0.0.1", "::1");
  struct outcome o = {.denied = {"::1"}};
  dial(f, "both.test", 8000, 5000, &o);
  assert_connected_to(&o, "127.0.0.1");
}

static void all_denied_is_policy(void** state) {
  struct fixture* f = *state;
  int fd = live(f, "127.0.0.1");
  live(f, "::1");
  names(f, "both.test", "127.0.0.1", "::1");
  struct outcome o = {.denied = {"::1", "127.0.0.1"}};
  dial(f, "both.test", 8000, 5000, &o);
  assert_failed(&o, TMESH_E_POLICY, TMESH_DIAL_CONNECT);
  names(f, "v4.test", "127.0.0.1", ""); /* the other family has no address at all */
  struct outcome p = {.denied = {"127.0.0.1"}};
  dial(f, "v4.test", 8000, 5000, &p);
  assert_failed(&p, TMESH_E_POLICY, TMESH_DIAL_CONNECT);
  struct outcome q = {.denied = {"127.0.0.1"}};
  dial(f, "127.0.0.1", 8000, 5000, &q);
  assert_failed(&q, TMESH_E_POLICY, TMESH_DIAL_CONNECT);
  assert_int_equal(accept(fd, NULL, NULL), -1); /* nothing ever knocked */
}

static void a_denied_and_a_failed_address_tell_the_failure(void** state) {
  struct fixture* f = *state;
  bind_only(f, "127.0.0.1");
  names(f, "both.test", "127.0.0.1", "::1");
  struct outcome o = {.denied = {"::1"}};
  dial(f, "both.test", 8000, 5000, &o);
  assert_failed(&o, TMESH_E_REFUSED, TMESH_DIAL_CONNECT);
}

/* --- cancel -------------------------------------------------------------------- */

static void cancel_before_anything_ran(void** state) {
  struct fixture* f = *state;
  int fd = live(f, "127.0.0.1");
  struct outcome o = {0};
  tmesh_dial_cancel(begin(f, "127.0.0.1", 8000, 5000, &o));
  tmesh_dial_cancel(begin(f, "some.test", 8000, 5000, &o));
  run_for(&f->loop, 5);
  assert_int_equal(o.done_count, 0);
  assert_int_equal(o.filter_count, 0);
  assert_int_equal(accept(fd, NULL, NULL), -1);
}

static void cancel_during_the_lookup(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "slow.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "127.0.0.1", 30);
  fake_dns_rule(&f->dns, "slow.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct outcome o = {0};
  struct tmesh_dial* d = begin(f, "slow.test", 8000, 5000, &o);
  run_for(&f->loop, 5);
  tmesh_dial_cancel(d);
  run_for(&f->loop, 60);
  assert_int_equal(o.done_count + o.filter_count, 0);
  assert_int_equal(tmesh_resolver_query_count(f->resolver), 0);
}

static void cancel_during_the_resolution_delay(void** state) {
  struct fixture* f = *state;
  f->port = 9;
  fake_dns_rule(&f->dns, "half.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "127.0.0.1", 0);
  fake_dns_rule(&f->dns, "half.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct outcome o = {0};
  struct tmesh_dial* d = begin(f, "half.test", 8000, 5000, &o);
  while (o.filter_count == 0) uv_run(&f->loop.uv, UV_RUN_ONCE);
  tmesh_dial_cancel(d);
  run_for(&f->loop, 60);
  assert_int_equal(o.done_count, 0);
}

static void cancel_during_connect(void** state) {
  struct fixture* f = *state;
  black_hole(f, "127.0.0.1");
  struct outcome o = {0};
  unsigned before = open_fd_count();
  struct tmesh_dial* d = begin(f, "127.0.0.1", 8000, 5000, &o);
  run_for(&f->loop, 5);
  assert_int_equal(open_fd_count(), before + 1);
  tmesh_dial_cancel(d);
  assert_int_equal(open_fd_count(), before);
  run_for(&f->loop, 5);
  assert_int_equal(o.done_count, 0);
}

struct canceller {
  struct tmesh_flush flush;
  struct tmesh_dial* dial;
  bool is_done;
};

static void on_flush(struct tmesh_flush* flush) {
  struct canceller* c = TMESH_CONTAINER(flush, struct canceller, flush);
  tmesh_dial_cancel(c->dial);
  c->is_done = true;
}

/* Requested behind the dial's, it runs in the same round: the connect was seen, the result is
 * delivered in the next one. */
static void cancel_between_success_and_delivery(void** state) {
  struct fixture* f = *state;
  int fd = live(f, "127.0.0.1");
  struct outcome o = {0};
  unsigned before = open_fd_count();
  struct canceller c = {.dial = begin(f, "127.0.0.1", 8000, 5000, &o)};
  tmesh_flush_init(&c.flush, on_flush);
  tmesh_loop_flush_request(&f->loop, &c.flush);
  assert_true(run_until(&f->loop, &c.is_done));
  assert_int_equal(o.done_count, 0);
  assert_int_equal(open_fd_count(), before); /* the winner's descriptor is closed too */
  int peer = accept(fd, NULL, NULL);
  assert_true(peer >= 0);
  char byte;
  assert_int_equal(read(peer, &byte, 1), 0);
  close(peer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      T(a_closed_port_is_refused_in_connect),
      T(a_target_that_accepts_and_resets_at_once_is_refused_in_connect),
      T(an_unroutable_address_is_network_unreachable),
      T(a_silent_address_times_out_per_attempt),
      T(the_deadline_counts_for_everything),
      T(names_that_do_not_resolve_fail_in_dns),
      T(refused_names_fail_at_once),
      T(the_most_telling_error_is_told),
      cmocka_unit_test(errno_table),
      T(denied_addresses_drop_out_of_the_race),
      T(all_denied_is_policy),
      T(a_denied_and_a_failed_address_tell_the_failure),
      T(cancel_before_anything_ran),
      T(cancel_during_the_lookup),
      T(cancel_during_the_resolution_delay),
      T(cancel_during_connect),
      T(cancel_between_success_and_delivery),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
