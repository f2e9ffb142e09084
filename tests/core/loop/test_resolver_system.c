/* core/loop/resolver_system behind the resolver: getaddrinfo() is the test's. */
#include <arpa/inet.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/loop/resolver_internal.h"
#include "core/loop/resolver_system.h"
#include "tests/core/loop/loop_support.h"

#define NAMES_MAX 1000

/* --- the system ------------------------------------------------------------------ */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned asked_count, inside_count, inside_peak;
static bool is_stuck; /* names "slow..." do not come back */

int __real_getaddrinfo(const char* node, const char* service, const struct addrinfo* hints,
                       struct addrinfo** res);
int __wrap_getaddrinfo(const char* node, const char* service, const struct addrinfo* hints,
                       struct addrinfo** res);

static int numeric(const char* address, struct addrinfo** res) {
  const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM};
  return __real_getaddrinfo(address, NULL, &hints, res);
}

int __wrap_getaddrinfo(const char* node, const char* service, const struct addrinfo* hints,
                       struct addrinfo** res) {
  assert_null(service);
  assert_int_equal(hints->ai_family, AF_UNSPEC);
  pthread_mutex_lock(&lock);
  asked_count++;
  inside_count++;
  if (inside_count > inside_peak) inside_peak = inside_count;
  while (is_stuck && strncmp(node, "slow", 4) == 0) pthread_cond_wait(&changed, &lock);
  inside_count--;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
  if (strncmp(node, "none", 4) == 0) return EAI_NONAME;
  if (strncmp(node, "silent", 6) == 0) return EAI_AGAIN;
  if (strncmp(node, "memory", 6) == 0) return EAI_MEMORY;
  if (strncmp(node, "six", 3) == 0) return numeric("fd00::7", res);
  if (strncmp(node, "both", 4) != 0) return numeric("10.0.0.1", res);
  const int error = numeric("10.0.0.1", res);
  return error != 0 ? error : numeric("fd00::7", &(*res)->ai_next);
}

static unsigned seen(const unsigned* count) {
  pthread_mutex_lock(&lock);
  const unsigned n = *count;
  pthread_mutex_unlock(&lock);
  return n;
}

static void set_stuck(bool on) {
  pthread_mutex_lock(&lock);
  is_stuck = on;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&lock);
}

static unsigned thread_count(void) {
  char line[128];
  unsigned n = 0;
  FILE* f = fopen("/proc/self/status", "r");
  assert_non_null(f);
  while (fgets(line, sizeof line, f) != NULL) sscanf(line, "Threads: %u", &n);
  fclose(f);
  return n;
}

/* --- the asker ------------------------------------------------------------------- */

struct answer {
  struct tmesh_resolve* query;
  unsigned calls, last_calls;
  int families[2];
  unsigned codes[2];
  size_t counts[2];
  struct tmesh_address first[2];
};

static struct tmesh_resolver* resolver;
static unsigned threads_at_start;
static bool is_inside;

static void on_answer(void* ctx, struct tmesh_status st, int family, const struct tmesh_address* addresses,
                      size_t count, bool is_last) {
  struct answer* a = ctx;
  assert_false(is_inside);
  assert_true(a->calls < 2);
  a->families[a->calls] = family;
  a->codes[a->calls] = st.code;
  a->counts[a->calls] = count;
  if (count > 0) a->first[a->calls] = addresses[0];
  a->calls++;
  if (is_last) a->last_calls++;
}

static struct tmesh_status ask(struct answer* a, const char* name) {
  memset(a, 0, sizeof *a);
  is_inside = true;
  const struct tmesh_status st = tmesh_resolver_start(resolver, name, a, on_answer, &a->query);
  is_inside = false;
  return st;
}

static void answered(struct answer* a, const char* name) {
  assert_true(tmesh_is_ok(ask(a, name)));
  RUN_UNTIL(a->last_calls == 1);
  assert_int_equal(a->calls, 2);
  assert_int_equal(a->families[0], AF_INET6);
  assert_int_equal(a->families[1], AF_INET);
}

static int open_resolver(void** state) {
  if (test_loop_open(state) != 0) return -1;
  pthread_mutex_lock(&lock);
  asked_count = inside_count = inside_peak = 0;
  is_stuck = false;
  pthread_mutex_unlock(&lock);
  resolver = tmesh_resolver_new_system(&test_loop);
  return resolver == NULL ? -1 : 0;
}

/* Threads that were left alone are not left to the next test, nor to the leak checker. */
static void threads_are_gone(void) {
  while (thread_count() > threads_at_start) sched_yield();
}

static int close_resolver(void** state) {
  tmesh_resolver_free(resolver);
  const int rc = test_loop_close(state);
  threads_are_gone();
  return rc;
}
#define SYSTEM_TEST(f) cmocka_unit_test_setup_teardown(f, open_resolver, close_resolver)

/* --- rules ------------------------------------------------------------------------- */

static void both_families_come_with_one_question(void** state) {
  (void)state;
  struct answer a;
  answered(&a, "both.corp");
  assert_int_equal(asked_count, 1);
  assert_int_equal(a.codes[0] | a.codes[1], TMESH_OK);
  assert_int_equal(a.counts[0], 1);
  assert_int_equal(a.counts[1], 1);
  assert_int_equal(a.first[1].bytes[0], 10);
  assert_int_equal(a.first[0].bytes[0], 0xfd);
  assert_int_equal(tmesh_resolver_query_count(resolver), 0);
}

static void a_family_without_an_address_is_dns(void** state) {
  (void)state;
  struct answer a;
  answered(&a, "six.corp");
  assert_int_equal(a.codes[0], TMESH_OK);
  assert_int_equal(a.codes[1], TMESH_E_DNS);
}

static void failures_have_their_codes(void** state) {
  (void)state;
  const struct {
    const char* name;
    unsigned code;
  } rows[] = {
      {"none.corp", TMESH_E_DNS}, {"silent.corp", TMESH_E_TIMEOUT}, {"memory.corp", TMESH_E_NO_MEMORY}};
  for (size_t i = 0; i < 3; i++) {
    struct answer a;
    answered(&a, rows[i].name);
    assert_int_equal(a.codes[0], rows[i].code);
    assert_int_equal(a.codes[1], rows[i].code);
  }
}

static void refused_names_and_localhost_never_reach_the_system(void** state) {
  (void)state;
  struct answer a;
  const char* refused[] = {"", "a b", "127.1", "0x7f000001"};
  for (size_t i = 0; i < 4; i++) assert_int_equal(ask(&a, refused[i]).code, TMESH_E_DNS);
  answered(&a, "localhost");
  assert_int_equal(asked_count, 0);
}

static void a_cancelled_lookup_never_calls_back(void** state) {
  (void)state;
  struct answer stuck, other;
  set_stuck(true);
  assert_true(tmesh_is_ok(ask(&stuck, "slow.corp")));
  RUN_UNTIL(seen(&inside_count) == 1);
  tmesh_resolve_cancel(stuck.query);
  assert_int_equal(tmesh_resolver_query_count(resolver), 0);
  set_stuck(false);
  answered(&other, "fast.corp");
  RUN_UNTIL(seen(&inside_count) == 0);
  test_loop_spin(5);
  assert_int_equal(stuck.calls, 0);
}

/* LESSONS P-G7. */
static void a_thousand_stuck_names_take_a_bounded_number_of_threads(void** state) {
  (void)state;
  static struct answer a[NAMES_MAX];
  struct answer other;
  char name[32];
  set_stuck(true);
  for (unsigned i = 0; i < NAMES_MAX; i++) {
    snprintf(name, sizeof name, "slow%u.corp", i);
    assert_true(tmesh_is_ok(ask(&a[i], name)));
  }
  RUN_UNTIL(seen(&inside_count) == TMESH_SYSTEM_THREADS);
  test_loop_spin(5);
  assert_int_equal(seen(&inside_peak), TMESH_SYSTEM_THREADS);
  assert_int_equal(thread_count(), threads_at_start + TMESH_SYSTEM_THREADS);

  /* Cancelled, those that wait are never asked for. */
  for (unsigned i = 0; i < NAMES_MAX; i++) tmesh_resolve_cancel(a[i].query);
  assert_int_equal(tmesh_resolver_query_count(resolver), 0);
  assert_true(tmesh_is_ok(ask(&other, "fast.corp")));
  test_loop_spin(5);
  assert_int_equal(other.calls, 0); /* what a stuck name costs: its thread */
  set_stuck(false);
  RUN_UNTIL(other.last_calls == 1);
  assert_int_equal(seen(&asked_count), TMESH_SYSTEM_THREADS + 1);
  for (unsigned i = 0; i < NAMES_MAX; i++) assert_int_equal(a[i].calls, 0);
}

static void one_free_thread_is_enough_for_the_others(void** state) {
  (void)state;
  struct answer stuck[TMESH_SYSTEM_THREADS - 1], other;
  set_stuck(true);
  for (unsigned i = 0; i < TMESH_SYSTEM_THREADS - 1; i++)
    assert_true(tmesh_is_ok(ask(&stuck[i], "slow.corp")));
  RUN_UNTIL(seen(&inside_count) == TMESH_SYSTEM_THREADS - 1);
  for (int i = 0; i < 20; i++) answered(&other, "fast.corp");
  set_stuck(false);
  for (unsigned i = 0; i < TMESH_SYSTEM_THREADS - 1; i++) RUN_UNTIL(stuck[i].last_calls == 1);
}

static void queries_are_limited(void** state) {
  (void)state;
  static struct answer a[TMESH_RESOLVE_QUERIES_MAX];
  struct answer more;
  set_stuck(true);
  for (unsigned i = 0; i < TMESH_RESOLVE_QUERIES_MAX; i++) assert_true(tmesh_is_ok(ask(&a[i], "slow.corp")));
  assert_int_equal(ask(&more, "slow.corp").code, TMESH_E_LIMIT);
  for (unsigned i = 0; i < TMESH_RESOLVE_QUERIES_MAX; i++) tmesh_resolve_cancel(a[i].query);
  set_stuck(false);
}

/* A process that stops must not wait for the system's patience. */
static void the_end_does_not_wait_for_stuck_names(void** state) {
  struct answer a[3];
  set_stuck(true);
  for (int i = 0; i < 3; i++) assert_true(tmesh_is_ok(ask(&a[i], "slow.corp")));
  RUN_UNTIL(seen(&inside_count) == 3);
  tmesh_resolver_free(resolver);
  assert_int_equal(test_loop_close(state), 0); /* closes clean */
  assert_int_equal(seen(&inside_count), 3);
  set_stuck(false);
  for (int i = 0; i < 3; i++) assert_int_equal(a[i].calls, 0);
  threads_are_gone();
  assert_int_equal(open_resolver(state), 0);
}

static void* no_work(void* arg) {
  return arg;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      SYSTEM_TEST(both_families_come_with_one_question),
      SYSTEM_TEST(a_family_without_an_address_is_dns),
      SYSTEM_TEST(failures_have_their_codes),
      SYSTEM_TEST(refused_names_and_localhost_never_reach_the_system),
      SYSTEM_TEST(a_cancelled_lookup_never_calls_back),
      SYSTEM_TEST(a_thousand_stuck_names_take_a_bounded_number_of_threads),
      SYSTEM_TEST(one_free_thread_is_enough_for_the_others),
      SYSTEM_TEST(queries_are_limited),
      SYSTEM_TEST(the_end_does_not_wait_for_stuck_names),
  };
  /* A sanitizer starts a thread of its own beside the first one. */
  pthread_t first;
  if (pthread_create(&first, NULL, no_work, NULL) != 0 || pthread_join(first, NULL) != 0) return 1;
  threads_at_start = thread_count();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
