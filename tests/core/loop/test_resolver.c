/* core/loop/resolver: every rule of its header, against a scripted name server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/loop/resolver_internal.h"
#include "tests/core/loop/fake_dns.h"

struct fixture {
  struct tmesh_loop loop;
  struct fake_dns dns;
  struct tmesh_resolver* resolver;
  char dir[64];
  char hosts[96];
  char resolv_conf[96];
};

static void write_file(const char* path, const char* text) {
  /* A new inode each time, as editors and network managers do. */
  char temp[128];
  snprintf(temp, sizeof temp, "%s.new", path);
  FILE* f = fopen(temp, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(rename(temp, path), 0);
}

static int set_up(void** state) {
  struct fixture* f = calloc(1, sizeof *f);
  assert_non_null(f);
  assert_true(tmesh_is_ok(tmesh_loop_init(&f->loop, 1 << 20)));
  snprintf(f->dir, sizeof f->dir, "/tmp/tmesh-resolver-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  snprintf(f->hosts, sizeof f->hosts, "%s/hosts", f->dir);
  snprintf(f->resolv_conf, sizeof f->resolv_conf, "%s/resolv.conf", f->dir);
  write_file(f->hosts, "");
  fake_dns_open(&f->dns, &f->loop, "127.0.0.1", 0);
  f->resolver = tmesh_resolver_new(&f->loop, f->dns.servers);
  assert_non_null(f->resolver);
  assert_true(tmesh_is_ok(tmesh_resolver_set_files(f->resolver, NULL, f->hosts)));
  *state = f;
  return 0;
}

/* Proves of every test that nothing leaked. */
static int tear_down(void** state) {
  struct fixture* f = *state;
  tmesh_resolver_free(f->resolver);
  fake_dns_close(&f->dns);
  assert_true(tmesh_loop_close(&f->loop));
  unlink(f->hosts);
  unlink(f->resolv_conf);
  rmdir(f->dir);
  free(f);
  return 0;
}

struct answer {
  struct tmesh_resolve* query;
  bool is_in_start;
  bool is_done;
  unsigned call_count;
  unsigned families[2]; /* in order of arrival */
  uint8_t codes[2];
  size_t counts[2];
  struct tmesh_address first[2];
  bool cancels_in_callback;
  bool has_first;
};

static void on_answer(void* ctx, struct tmesh_status st, int family, const struct tmesh_address* addresses,
                      size_t count, bool is_last) {
  struct answer* a = ctx;
  assert_false(a->is_in_start);
  assert_true(a->call_count < 2);
  assert_true(is_last == (a->call_count == 1));
  assert_true(tmesh_is_ok(st) == (count > 0));
  for (size_t i = 0; i < count; i++) assert_int_equal(addresses[i].family, family);
  a->families[a->call_count] = (unsigned)family;
  a->codes[a->call_count] = st.code;
  a->counts[a->call_count] = count;
  if (count > 0) a->first[a->call_count] = addresses[0];
  a->call_count++;
  a->has_first = true;
  if (is_last) a->is_done = true;
  if (a->cancels_in_callback) tmesh_resolve_cancel(a->query);
}

static void ask(struct fixture* f, const char* name, struct answer* a) {
  memset(a, 0, sizeof *a);
  a->is_in_start = true;
  assert_true(tmesh_is_ok(tmesh_resolver_start(f->resolver, name, a, on_answer, &a->query)));
  assert_non_null(a->query);
  a->is_in_start = false;
}

static unsigned index_of(const struct answer* a, int family) {
  return a->families[0] == (unsigned)family ? 0 : 1;
}

static void assert_v4(const struct answer* a, const char* text) {
  uint8_t bytes[4];
  assert_int_equal(inet_pton(AF_INET, text, bytes), 1);
  assert_memory_equal(a->first[index_of(a, AF_INET)].bytes, bytes, 4);
}

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

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

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
