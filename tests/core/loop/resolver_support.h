/* A resolver that asks a scripted name server, with hosts and resolv.conf of its own. */
#ifndef TMESH_TESTS_RESOLVER_SUPPORT_H
#define TMESH_TESTS_RESOLVER_SUPPORT_H

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

static inline void write_file(const char* path, const char* text) {
  /* A new inode each time, as editors and network managers do. */
  char temp[128];
  snprintf(temp, sizeof temp, "%s.new", path);
  FILE* f = fopen(temp, "w");
  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
  assert_int_equal(rename(temp, path), 0);
}

static inline int set_up(void** state) {
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
static inline int tear_down(void** state) {
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

static inline void on_answer(void* ctx, struct tmesh_status st, int family,
                             const struct tmesh_address* addresses, size_t count, bool is_last) {
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

static inline void ask(struct fixture* f, const char* name, struct answer* a) {
  memset(a, 0, sizeof *a);
  a->is_in_start = true;
  assert_true(tmesh_is_ok(tmesh_resolver_start(f->resolver, name, a, on_answer, &a->query)));
  assert_non_null(a->query);
  a->is_in_start = false;
}

static inline unsigned index_of(const struct answer* a, int family) {
  return a->families[0] == (unsigned)family ? 0 : 1;
}

static inline void assert_v4(const struct answer* a, const char* text) {
  uint8_t bytes[4];
  assert_int_equal(inet_pton(AF_INET, text, bytes), 1);
  assert_memory_equal(a->first[index_of(a, AF_INET)].bytes, bytes, 4);
}

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
