/* core/loop/resolver: its bounds, and resolv.conf as it changes. */
#include "tests/core/loop/resolver_support.h"

/* --- bounds -------------------------------------------------------------------- */

static void a_thousand_slow_names_cost_no_handles_and_stop_nobody(void** state) {
  struct fixture* f = *state;
  enum { COUNT = 1000 };
  fake_dns_rule(&f->dns, "slow*", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "slow*", FAKE_DNS_AAAA, FAKE_DNS_SILENT, "", 0);
  fake_dns_rule(&f->dns, "quick.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 0);
  struct answer* slow = calloc(COUNT, sizeof *slow);
  assert_non_null(slow);
  unsigned before = handles_of(&f->loop);
  for (int i = 0; i < COUNT; i++) {
    char name[32];
    snprintf(name, sizeof name, "slow%d.test", i);
    ask(f, name, &slow[i]);
    /* Lets the one-threaded server read, so that its socket does not overflow. */
    if (i % 100 == 99) uv_run(&f->loop.uv, UV_RUN_NOWAIT);
  }
  run_for(&f->loop, 1);
  assert_true(handles_of(&f->loop) <= before + 2);
  struct answer quick;
  ask(f, "quick.test", &quick);
  assert_true(run_until(&f->loop, &quick.is_done));
  assert_v4(&quick, "10.0.0.1");
  assert_false(slow[0].has_first);
  for (int i = 0; i < COUNT; i++) tmesh_resolve_cancel(slow[i].query);
  run_for(&f->loop, 1);
  assert_int_equal(tmesh_resolver_query_count(f->resolver), 0);
  free(slow);
}

static void at_most_4096_queries_in_flight(void** state) {
  struct fixture* f = *state;
  struct answer* all = calloc(TMESH_RESOLVE_QUERIES_MAX, sizeof *all);
  assert_non_null(all);
  for (unsigned i = 0; i < TMESH_RESOLVE_QUERIES_MAX; i++) ask(f, "localhost", &all[i]);
  struct tmesh_resolve* q;
  assert_int_equal(tmesh_resolver_start(f->resolver, "localhost", NULL, on_answer, &q).code, TMESH_E_LIMIT);
  tmesh_resolve_cancel(all[0].query);
  ask(f, "localhost", &all[0]);
  assert_true(run_until(&f->loop, &all[0].is_done));
  free(all);
}

/* --- resolv.conf --------------------------------------------------------------- */

static struct fake_dns* second_server(struct fixture* f) {
  static struct fake_dns dns;
  fake_dns_open(&dns, &f->loop, "127.0.0.2", f->dns.port);
  return &dns;
}

static void use_resolv_conf(struct fixture* f, uint64_t check_interval_us) {
  tmesh_resolver_free(f->resolver);
  f->resolver = tmesh_resolver_new(&f->loop, NULL);
  assert_non_null(f->resolver);
  assert_true(tmesh_is_ok(tmesh_resolver_set_files(f->resolver, f->resolv_conf, f->hosts)));
  tmesh_resolver_set_port(f->resolver, f->dns.port);
  tmesh_resolver_set_timing(f->resolver, 1500, check_interval_us);
}

static void a_changed_resolv_conf_is_followed(void** state) {
  struct fixture* f = *state;
  struct fake_dns* second = second_server(f);
  fake_dns_rule(&f->dns, "late.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 100);
  fake_dns_rule(second, "late.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.2", 0);
  write_file(f->resolv_conf, "nameserver 127.0.0.1\n");
  use_resolv_conf(f, 0);
  struct answer old, new;
  ask(f, "late.test.", &old);
  uv_run(&f->loop.uv, UV_RUN_NOWAIT); /* the c-ares handle from before the setters goes */
  write_file(f->resolv_conf, "nameserver 127.0.0.2\n");
  ask(f, "late.test.", &new);
  assert_int_equal(tmesh_resolver_ares_count(f->resolver), 2);
  assert_true(run_until(&f->loop, &new.is_done));
  assert_v4(&new, "10.0.0.2");
  assert_true(run_until(&f->loop, &old.is_done)); /* what was asked before ends as it began */
  assert_v4(&old, "10.0.0.1");
  run_for(&f->loop, 1);
  assert_int_equal(tmesh_resolver_ares_count(f->resolver), 1);
  fake_dns_close(second);
}

static void an_unchanged_resolv_conf_rebuilds_nothing(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "*", FAKE_DNS_A, FAKE_DNS_SILENT, "", 0);
  write_file(f->resolv_conf, "nameserver 127.0.0.1\n");
  use_resolv_conf(f, 0);
  struct answer a, b;
  ask(f, "a.test.", &a);
  ask(f, "b.test.", &b);
  assert_int_equal(tmesh_resolver_ares_count(f->resolver), 2); /* the one of before the setters, and one */
  run_for(&f->loop, 1);
  assert_int_equal(tmesh_resolver_ares_count(f->resolver), 1);
}

static void resolv_conf_is_looked_at_once_per_interval(void** state) {
  struct fixture* f = *state;
  struct fake_dns* second = second_server(f);
  fake_dns_rule(&f->dns, "x.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.1", 0);
  fake_dns_rule(second, "x.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.2", 0);
  write_file(f->resolv_conf, "nameserver 127.0.0.1\n");
  use_resolv_conf(f, UINT64_C(3600) * 1000000);
  write_file(f->resolv_conf, "nameserver 127.0.0.2\n");
  struct answer a;
  ask(f, "x.test.", &a); /* built now, from the new file: the setters asked for it */
  assert_true(run_until(&f->loop, &a.is_done));
  assert_v4(&a, "10.0.0.2");
  write_file(f->resolv_conf, "nameserver 127.0.0.1\n");
  ask(f, "x.test.", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_v4(&a, "10.0.0.2");
  fake_dns_close(second);
}

static void a_host_without_resolv_conf_at_start_works_later(void** state) {
  struct fixture* f = *state;
  struct fake_dns* second = second_server(f);
  fake_dns_rule(second, "x.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.2", 0);
  use_resolv_conf(f, 0);
  struct answer a;
  ask(f, "x.test.", &a); /* c-ares without a file asks 127.0.0.1 */
  assert_true(run_until(&f->loop, &a.is_done));
  assert_int_equal(a.codes[index_of(&a, AF_INET)], TMESH_E_DNS);
  write_file(f->resolv_conf, "nameserver 127.0.0.2\n");
  ask(f, "x.test.", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_v4(&a, "10.0.0.2");
  fake_dns_close(second);
}

static void search_domains_of_resolv_conf_are_used(void** state) {
  struct fixture* f = *state;
  fake_dns_rule(&f->dns, "db.corp.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "10.0.0.7", 0);
  write_file(f->resolv_conf, "search corp.test\nnameserver 127.0.0.1\n");
  use_resolv_conf(f, 0);
  struct answer a;
  ask(f, "db", &a);
  assert_true(run_until(&f->loop, &a.is_done));
  assert_v4(&a, "10.0.0.7");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      T(a_thousand_slow_names_cost_no_handles_and_stop_nobody),
      T(at_most_4096_queries_in_flight),
      T(a_changed_resolv_conf_is_followed),
      T(an_unchanged_resolv_conf_rebuilds_nothing),
      T(resolv_conf_is_looked_at_once_per_interval),
      T(a_host_without_resolv_conf_at_start_works_later),
      T(search_domains_of_resolv_conf_are_used),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
