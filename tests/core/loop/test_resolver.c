/* core/loop/resolver: every rule of its header, against a scripted name server. */
#include "tests/core/loop/resolver_support.h"

/* --- names --------------------------------------------------------------------- */

static void a_refused_name_is_dns_at_once(void** state) {
  struct fixture* f = *state;
  const char* refused[] = {"", "a b", "127.1", "0x7f000001"};
  for (size_t i = 0; i < 4; i++) {
    struct tmesh_resolve* q;
    struct tmesh_status st = tmesh_resolver_start(f->resolver, refused[i], NULL, on_answer, &q);
    assert_int_equal(st.code, TMESH_E_DNS);
    assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
    assert_null(q);
  }
}

static void localhost_is_answered_without_a_query(void** state) {
  struct fixture* f = *state;
  const char* names[] = {"localhost", "LocalHost.", "db.localhost"};
  for (size_t i = 0; i < 3; i++) {
    struct answer a;
    ask(f, names[i], &a);
    assert_true(run_until(&f->loop, &a.is_done));
    assert_v4(&a, "127.0.0.1");
    assert_memory_equal(a.first[index_of(&a, AF_INET6)].bytes, &in6addr_loopback, 16);
  }
  assert_int_equal(f->dns.a_count + f->dns.aaaa_count, 0);
}

static void a_hosts_file_name_is_complete_and_not_asked(void** state) {
  struct fixture* f = *state;
  write_file(
      f->hosts,
      "# comment\n10.1.2.3 other Db.Corp # db.comment\n\n10.9.9.9\tdb.corp\nbad db.corp\n::7 six\n10.0.0.1");
  struct answer a;
  ask(f, "DB.corp.", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_v4(&a, "10.1.2.3");
  assert_int_equal(a.counts[index_of(&a, AF_INET)], 2);
  assert_int_equal(a.codes[index_of(&a, AF_INET6)], TMESH_E_DNS);
  ask(f, "six", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(a.counts[index_of(&a, AF_INET6)], 1);
  assert_int_equal(f->dns.a_count + f->dns.aaaa_count, 0);
  ask(f, "db.comment", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(f->dns.a_count, 1);
}

/* --- answers ------------------------------------------------------------------- */

static void both_families_are_asked_and_answered_separately(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "both.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1 10.0.0.2", 0);
  fake_dns_rule(&f->dns, "both.test", FAKE_DNS_AAAA, FAKE_DNS_ANSWER, "fd00::1", 0);
  struct answer a;
  ask(f, "both.test.", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_v4(&a, "10.0.0.1");
  assert_int_equal(a.counts[index_of(&a, AF_INET)], 2);
  assert_int_equal(a.counts[index_of(&a, AF_INET6)], 1);
  assert_int_equal(f->dns.a_count, 1);
  assert_int_equal(f->dns.aaaa_count, 1);
  assert_int_equal(tmesh_resolver_query_count(f->resolver), 0);
}

static void there_is_no_cache(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "twice.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 0);
  for (unsigned i = 1; i <= 3; i++) {
    struct answer a;
    ask(f, "twice.test", &a);
    assert_true(run_until(&f->loop, &a.is_done));
    assert_int_equal(f->dns.a_count, i);
  }
}

static void more_than_16_addresses_are_dropped(void** state) {
  struct fixture* f = *state;
  char many[512] = "";
  for (int i = 1; i <= 20; i++) snprintf(many + strlen(many), sizeof many - strlen(many), "10.0.0.%d ", i);
  fake_dns_rule(&f->dns, "many.test", FAKE_DNS_A, FAKE_DNS_ANSWER, many, 0);
  struct answer a;
  ask(f, "many.test", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(a.counts[index_of(&a, AF_INET)], TMESH_RESOLVE_ADDRESSES_MAX);
}

static void unknown_names_empty_answers_and_broken_servers_are_dns(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "empty.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "", 0);
  fake_dns_rule(&f->dns, "empty.test", FAKE_DNS_AAAA, FAKE_DNS_ANSWER, "", 0);
  fake_dns_rule(&f->dns, "broken.test", FAKE_DNS_A, FAKE_DNS_SERVFAIL, "", 0);
  fake_dns_rule(&f->dns, "broken.test", FAKE_DNS_AAAA, FAKE_DNS_SERVFAIL, "", 0);
  const char* names[] = {"unknown.test", "empty.test", "broken.test", "x.onion"};
  for (size_t i = 0; i < 4; i++) {
    struct answer a;
    ask(f, names[i], &a);
    assert_true(run_until(&f->loop, &a.is_done));
    assert_int_equal(a.codes[0], TMESH_E_DNS);
    assert_int_equal(a.codes[1], TMESH_E_DNS);
  }
}

static void a_server_that_is_not_there_is_dns_not_silence(void** state) {
  struct fixture* f = *state;
  fake_dns_close(&f->dns);
  uv_run(&f->loop.uv, UV_RUN_NOWAIT);
  struct answer a;
  ask(f, "any.test", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(a.codes[0], TMESH_E_DNS);
  assert_int_equal(a.codes[1], TMESH_E_DNS);
  fake_dns_open(&f->dns, &f->loop, "127.0.0.1", 0);
}

static void a_silent_aaaa_does_not_hold_the_a_answer_back(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "half.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 0);
  fake_dns_rule(&f->dns, "half.test", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct answer a;
  ask(f, "half.test", &a);
  assert_true(run_until(&f->loop, &a.has_first));
  assert_int_equal(a.families[0], AF_INET);
  assert_int_equal(a.call_count, 1);
  assert_int_equal(f->dns.aaaa_count, 1); /* not even the first try of AAAA is over */
  tmesh_resolve_cancel(a.query);
}

static void a_silent_server_is_asked_twice_and_then_timeout(void** state) {
  struct fixture* f = *state;
  tmesh_resolver_set_timing(f->resolver, 50, 1000000);
  fake_dns_rule(&f->dns, "*", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "*", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct answer a;
  ask(f, "silent.test", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(a.codes[0], TMESH_E_TIMEOUT);
  assert_int_equal(a.codes[1], TMESH_E_TIMEOUT);
  assert_int_equal(f->dns.a_count, TMESH_RESOLVE_TRIES);
  assert_int_equal(f->dns.aaaa_count, TMESH_RESOLVE_TRIES);
}

static void the_default_try_is_one_and_a_half_seconds(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "late.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 1000);
  struct answer a;
  ask(f, "late.test", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(f->dns.a_count, 1);
  assert_int_equal(TMESH_RESOLVE_TRY_MS, 1500);
  assert_int_equal(TMESH_RESOLVE_TRIES, 2);
}

/* --- cancelling ---------------------------------------------------------------- */

static void a_cancelled_query_is_silent_and_its_memory_goes(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "slow*", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 30);
  fake_dns_rule(&f->dns, "slow*", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "kept.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.2", 60);
  struct answer gone, kept, local;
  ask(f, "slow.test", &gone);
  ask(f, "kept.test", &kept);
  ask(f, "localhost", &local);
  tmesh_resolve_cancel(gone.query);
  tmesh_resolve_cancel(local.query);
  assert_true(run_until(&f->loop, &kept.is_done));
  assert_v4(&kept, "10.0.0.2");
  assert_int_equal(gone.call_count, 0);
  assert_int_equal(local.call_count, 0);
  /* The last owner is gone: what c-ares still waits for is dropped, not timed out. */
  run_for(&f->loop, 1);
  assert_int_equal(tmesh_resolver_query_count(f->resolver), 0);
}

struct pair {
  struct answer first, second;
};

static void on_first(void* ctx, struct tmesh_status st, int family, const struct tmesh_address* addresses,
                     size_t count, bool is_last) {
  struct pair* p = ctx;
  on_answer(&p->first, st, family, addresses, count, is_last);
  if (p->first.call_count == 1) tmesh_resolve_cancel(p->second.query);
}

static void cancel_of_a_query_whose_answer_is_about_to_be_delivered(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "*", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 0);
  fake_dns_rule(&f->dns, "*", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct pair p;
  memset(&p, 0, sizeof p);
  assert_true(tmesh_is_ok(tmesh_resolver_start(f->resolver, "first.test", &p, on_first, &p.first.query)));
  ask(f, "second.test", &p.second); /* both A answers are read in one poll */
  assert_true(run_until(&f->loop, &p.first.has_first));
  run_for(&f->loop, 1);
  assert_int_equal(p.second.call_count, 0);
  tmesh_resolve_cancel(p.first.query);
}

static void cancel_from_inside_the_first_callback(void** state) {
  struct fixture* f = *state;
  struct answer a;
  ask(f, "localhost", &a);
  a.cancels_in_callback = true;
  assert_true(run_until(&f->loop, &a.has_first));
  run_for(&f->loop, 1);
  assert_int_equal(a.call_count, 1);
  assert_int_equal(tmesh_resolver_query_count(f->resolver), 0);
}

static void freeing_the_resolver_cancels_everything(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "*", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "*", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  struct answer a, b, c;
  ask(f, "a.test", &a);
  ask(f, "b.test", &b);
  ask(f, "localhost", &c);
  tmesh_resolve_cancel(b.query);
  tmesh_resolver_free(f->resolver);
  run_for(&f->loop, 1);
  assert_int_equal(a.call_count + b.call_count + c.call_count, 0);
  f->resolver = tmesh_resolver_new(&f->loop, f->dns.servers);
  assert_non_null(f->resolver);
}

static void the_timer_runs_only_while_something_is_asked(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "a.test", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  struct answer a, b;
  ask(f, "a.test", &a);
  ask(f, "b.test", &b);
  assert_true(run_until(&f->loop, &b.is_done));
  run_for(&f->loop, 1);
  assert_true(uv_loop_alive(&f->loop.uv));
  tmesh_resolve_cancel(a.query);
  run_for(&f->loop, 1);
  assert_false(uv_loop_alive(&f->loop.uv));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      T(a_refused_name_is_dns_at_once),
      T(localhost_is_answered_without_a_query),
      T(a_hosts_file_name_is_complete_and_not_asked),
      T(both_families_are_asked_and_answered_separately),
      T(there_is_no_cache),
      T(more_than_16_addresses_are_dropped),
      T(unknown_names_empty_answers_and_broken_servers_are_dns),
      T(a_server_that_is_not_there_is_dns_not_silence),
      T(a_silent_aaaa_does_not_hold_the_a_answer_back),
      T(a_silent_server_is_asked_twice_and_then_timeout),
      T(the_default_try_is_one_and_a_half_seconds),
      T(a_cancelled_query_is_silent_and_its_memory_goes),
      T(cancel_of_a_query_whose_answer_is_about_to_be_delivered),
      T(cancel_from_inside_the_first_callback),
      T(freeing_the_resolver_cancels_everything),
      T(the_timer_runs_only_while_something_is_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
