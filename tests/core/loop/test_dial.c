/* core/loop/dial: who wins the race (RFC 8305), on loopback. */
#include "tests/core/loop/dial_support.h"

#include <stdio.h>
#include <string.h>

/* --- success ------------------------------------------------------------------- */

static void literals_connect_without_a_query(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  live(f, "::1");
  const char* hosts[] = {"127.0.0.1", "::1", "::ffff:127.0.0.1"};
  for (int i = 0; i < 3; i++) {
    struct outcome o = {0};
    (void)begin(f, hosts[i], 5000, 0, &o);
    for (uint64_t from = uv_hrtime(); uv_hrtime() < from + 2000000;) continue; /* a busy loop is no lookup */
    assert_true(run_until(&f->loop, &o.is_done));
    assert_connected_to(&o, hosts[i]);
    assert_int_equal(o.result.phase, TMESH_DIAL_CONNECT);
    assert_false(o.was_name);
    assert_int_equal(o.filter_count, 1);
    assert_int_equal(o.result.dns_us, 0);
  }
  assert_int_equal(f->dns.a_count + f->dns.aaaa_count, 0);
}

struct turn {
  struct fixture* fixture;
  struct outcome outcome;
  uint64_t poll_count; /* polls before the end */
};

static void on_done_in_turn(void* ctx, const struct tmesh_dial_result* result) {
  struct turn* turn = ctx;
  turn->poll_count = turn->fixture->loop.poll_count;
  on_done(&turn->outcome, result);
}

/* The kernel knows the outcome when connect() returns: nothing waits for a poll. */
static void a_target_on_this_machine_needs_no_poll(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  (void)bind_only(f, "127.0.0.2");
  const char* hosts[] = {"127.0.0.1", "127.0.0.2"};
  for (int i = 0; i < 2; i++) {
    struct turn turn = {.fixture = f};
    struct tmesh_dial* d;
    const struct tmesh_dial_params params = {
        .host = hosts[i], .port = f->port, .timeout_ms = 5000, .ctx = &turn, .done = on_done_in_turn};
    run_for(&f->loop, 1);
    const uint64_t before = f->loop.poll_count;
    assert_true(tmesh_is_ok(tmesh_dial_start(&f->loop, f->resolver, &params, &d)));
    assert_true(run_until(&f->loop, &turn.outcome.is_done));
    assert_int_equal(turn.poll_count, before);
    if (i == 0) assert_connected_to(&turn.outcome, hosts[i]);
    if (i == 1) assert_failed(&turn.outcome, TMESH_E_REFUSED, TMESH_DIAL_CONNECT);
  }
}

static void a_name_prefers_ipv6(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  live(f, "::1");
  names(f, "both.test", "127.0.0.1", "::1");
  struct outcome o = {0};
  dial(f, "both.test", 5000, 0, &o);
  assert_connected_to(&o, "::1");
  assert_true(o.was_name);
}

static void the_descriptor_is_free_of_the_loop(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  struct outcome o = {0};
  dial(f, "127.0.0.1", 5000, 0, &o);
  assert_true(o.result.fd >= 0);
  uv_tcp_t tcp; /* libuv refuses a descriptor that a poll handle still watches */
  assert_int_equal(uv_tcp_init(&f->loop.uv, &tcp), 0);
  assert_int_equal(uv_tcp_open(&tcp, o.result.fd), 0);
  uv_close((uv_handle_t*)&tcp, NULL);
  run_for(&f->loop, 1);
}

/* --- Happy Eyeballs ------------------------------------------------------------ */

static void a_silent_aaaa_costs_only_the_resolution_delay(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  fake_dns_rule(&f->dns, "half.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "127.0.0.1", 0);
  fake_dns_rule(&f->dns, "half.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct outcome o = {0};
  uint64_t begin_us = uv_hrtime() / 1000;
  dial(f, "half.test", 8000, 5000, &o);
  assert_connected_to(&o, "127.0.0.1");
  uint64_t took_us = uv_hrtime() / 1000 - begin_us;
  assert_int_equal(f->dns.aaaa_count, 1); /* its first try was still running */
  assert_true(took_us >= 45000);          /* but IPv6 had its 50 ms */
  assert_true(took_us < 350000);          /* LESSONS P-G1 */
}

static void an_aaaa_within_the_resolution_delay_goes_first(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  live(f, "::1");
  fake_dns_rule(&f->dns, "late.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "127.0.0.1", 0);
  fake_dns_rule(&f->dns, "late.test", FAKE_DNS_AAAA, FAKE_DNS_ANSWER, "::1", 5);
  struct outcome o = {0};
  dial(f, "late.test", 8000, 5000, &o);
  assert_connected_to(&o, "::1");
}

static void a_negative_aaaa_ends_the_resolution_delay(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  fake_dns_rule(&f->dns, "v4.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "127.0.0.1", 0);
  fake_dns_rule(&f->dns, "v4.test", FAKE_DNS_AAAA, FAKE_DNS_ANSWER, "", 3);
  struct outcome o = {0};
  uint64_t begin_us = uv_hrtime() / 1000;
  dial(f, "v4.test", 8000, 5000, &o);
  assert_true(uv_hrtime() / 1000 - begin_us < 45000);
  assert_connected_to(&o, "127.0.0.1");
}

static void an_aaaa_answer_does_not_wait_for_a(void** state) {
  struct fixture* f = *state;
  live(f, "::1");
  fake_dns_rule(&f->dns, "six.test", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "six.test", FAKE_DNS_AAAA, FAKE_DNS_ANSWER, "::1", 0);
  struct outcome o = {0};
  dial(f, "six.test", 8000, 5000, &o);
  assert_connected_to(&o, "::1");
  assert_int_equal(f->dns.a_count, 1);
}

static void a_dead_aaaa_costs_one_attempt_delay(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  black_hole(f, "::1");
  names(f, "dead6.test", "127.0.0.1", "::1");
  struct outcome o = {0};
  uint64_t begin_us = uv_hrtime() / 1000;
  dial(f, "dead6.test", 8000, 5000, &o);
  uint64_t took_us = uv_hrtime() / 1000 - begin_us;
  assert_connected_to(&o, "127.0.0.1");
  assert_true(took_us >= 245000); /* the stagger */
  assert_true(took_us < 350000);  /* LESSONS P-G1 */
}

static void a_refused_or_unroutable_address_does_not_wait(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  names(f, "refused6.test", "127.0.0.1", "::1");        /* nobody listens on ::1 */
  names(f, "unroutable6.test", "127.0.0.1", "ff05::1"); /* connect() fails at once */
  const char* hosts[] = {"refused6.test", "unroutable6.test"};
  for (int i = 0; i < 2; i++) {
    struct outcome o = {0};
    dial(f, hosts[i], 8000, 5000, &o);
    assert_connected_to(&o, "127.0.0.1");
    assert_true(o.result.connect_us < 245000);
  }
}

static void families_alternate(void** state) {
  struct fixture* f = *state;
  black_hole(f, "::1");
  live(f, "127.0.0.1");
  names(f, "order.test", "127.0.0.1", "::1 ::1 ::1");
  struct outcome o = {0};
  dial(f, "order.test", 8000, 5000, &o);
  assert_connected_to(&o, "127.0.0.1");
  assert_true(o.result.connect_us >= 245000);
  assert_true(o.result.connect_us < 740000); /* second, not fourth */
}

static void answers_keep_their_order(void** state) {
  struct fixture* f = *state;
  black_hole(f, "127.0.0.4");
  black_hole(f, "127.0.0.2");
  live(f, "127.0.0.3");
  names(f, "order.test", "127.0.0.4 127.0.0.2 127.0.0.3", "");
  struct outcome o = {0};
  dial(f, "order.test", 8000, 5000, &o);
  assert_connected_to(&o, "127.0.0.3");
  assert_true(o.result.connect_us >= 490000); /* two attempt delays */
  assert_true(o.result.connect_us < 740000);
}

static void losers_are_closed(void** state) {
  struct fixture* f = *state;
  black_hole(f, "127.0.0.2");
  live(f, "127.0.0.3");
  names(f, "race.test", "127.0.0.2 127.0.0.3", "");
  unsigned before = open_fd_count();
  struct outcome o = {0};
  dial(f, "race.test", 8000, 5000, &o);
  assert_connected_to(&o, "127.0.0.3"); /* closes the winner */
  assert_int_equal(open_fd_count(), before);
}

static void at_most_eight_attempts_in_flight(void** state) {
  struct fixture* f = *state;
  char v4[512] = "";
  for (int i = 2; i <= 12; i++) {
    char ip[32];
    snprintf(ip, sizeof ip, "127.0.0.%d", i);
    black_hole(f, ip);
    strcat(strcat(v4, ip), " ");
  }
  names(f, "many.test", v4, "");
  unsigned before = open_fd_count();
  struct outcome o = {0};
  struct tmesh_dial* d = begin(f, "many.test", 20000, 0, &o);
  run_for(&f->loop, 2700); /* eleven would have begun by 2.5 s */
  assert_false(o.is_done);
  assert_int_equal(open_fd_count(), before + 8);
  tmesh_dial_cancel(d);
  assert_int_equal(open_fd_count(), before);
}

/* --- load ---------------------------------------------------------------------- */

static void forty_dead_dials_do_not_delay_another(void** state) {
  struct fixture* f = *state;
  live(f, "127.0.0.1");
  black_hole(f, "127.0.0.2");
  fake_dns_rule(&f->dns, "slow.test", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "slow.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct outcome slow[40] = {0}, o = {0};
  struct tmesh_dial* dials[40];
  for (int i = 0; i < 40; i++) dials[i] = begin(f, i % 2 ? "127.0.0.2" : "slow.test", 8000, 5000, &slow[i]);
  dial(f, "127.0.0.1", 8000, 5000, &o);
  assert_connected_to(&o, "127.0.0.1");
  assert_true(o.result.connect_us < 1000000); /* requirement K6 */
  for (int i = 0; i < 40; i++) {
    assert_false(slow[i].is_done);
    tmesh_dial_cancel(dials[i]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      T(literals_connect_without_a_query),
      T(a_target_on_this_machine_needs_no_poll),
      T(a_name_prefers_ipv6),
      T(the_descriptor_is_free_of_the_loop),
      T(a_silent_aaaa_costs_only_the_resolution_delay),
      T(an_aaaa_within_the_resolution_delay_goes_first),
      T(a_negative_aaaa_ends_the_resolution_delay),
      T(an_aaaa_answer_does_not_wait_for_a),
      T(a_dead_aaaa_costs_one_attempt_delay),
      T(a_refused_or_unroutable_address_does_not_wait),
      T(families_alternate),
      T(answers_keep_their_order),
      T(losers_are_closed),
      T(at_most_eight_attempts_in_flight),
      T(forty_dead_dials_do_not_delay_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
