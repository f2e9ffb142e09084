/* TLS and memory: records cost no allocation, and an allocation that fails anywhere in
 * a connection's life ends in a status. The libraries are static, so the linker can put
 * a counter between them and malloc (see CMakeLists.txt). */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdlib.h>
#include <string.h>

#include "tests/core/wire/tls_fixture.h"

/* The library itself loses a cipher context when a later allocation of the same record
 * protection fails. Leaks of ours have other names and are still reported. */
const char* __lsan_default_suppressions(void);
const char* __lsan_default_suppressions(void) {
  return "leak:chachapoly_ctx_alloc\n";
}

void* __real_malloc(size_t n);
void* __real_calloc(size_t n, size_t size);
void* __wrap_malloc(size_t n);
void* __wrap_calloc(size_t n, size_t size);

static size_t calls;
static size_t fail_at; /* 0: never */

void* __wrap_malloc(size_t n) {
  return ++calls == fail_at ? NULL : __real_malloc(n);
}
void* __wrap_calloc(size_t n, size_t size) {
  return ++calls == fail_at ? NULL : __real_calloc(n, size);
}

/* Round trips of full records; the first ones also carry tickets. */
static void pump(struct tls_pair* p, int rounds) {
  static uint8_t plain[TMESH_TLS_PLAIN_MAX_BYTES];
  struct tls_end* ends[] = {&p->client, &p->server};
  for (int i = 0; i < 2 * rounds; i++) {
    struct tls_end *from = ends[i % 2], *to = ends[1 - i % 2];
    size_t n;
    assert_true(tmesh_is_ok(tmesh_tls_write(from->tls, plain, sizeof plain)));
    while (tls_pair_carry(p, from, to) > 0) continue;
    assert_true(tmesh_is_ok(tls_end_read(to, plain, sizeof plain, &n)));
    assert_int_equal(n, sizeof plain);
  }
}

static void test_records_allocate_nothing(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    struct tls_pair p;
    size_t before;
    tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
    assert_true(tls_pair_handshake(&p));
    pump(&p, 2);
    before = calls;
    assert_true(before > 100); /* the handshake was counted */
    pump(&p, 100);
    assert_int_equal(calls, before);
    tls_pair_close(&p);
    tls_fixture_free(&c);
  }
}

static void test_every_failing_allocation_of_a_configuration_is_a_status(void** state) {
  const struct tmesh_tls_options server = {.cert = tls_fixture_pem(tls_certs.server.cert_pem),
                                           .key = tls_fixture_pem(tls_certs.server.key_pem)};
  const struct tmesh_tls_options client = {.ca = tls_fixture_pem(tls_certs.ca.cert_pem)};
  (void)state;
  for (int is_server = 0; is_server < 2; is_server++) {
    struct tmesh_tls_config* c = NULL;
    size_t n = 0;
    while (c == NULL) {
      enum tmesh_tls_config_error error;
      struct tmesh_status st;
      calls = 0;
      fail_at = ++n;
      st = is_server ? tmesh_tls_config_new_server(&server, &c, &error)
                     : tmesh_tls_config_new_client(&client, &c, &error);
      fail_at = 0;
      assert_int_equal(tmesh_is_ok(st), c != NULL);
      assert_int_equal(error == TMESH_TLS_CONFIG_OK, c != NULL);
      assert_true(calls >= n || c != NULL);
    }
    assert_true(n > 10);
    tmesh_tls_config_unref(c);
  }
}

/* Connections, and every allocation of their handshakes; far ones in growing steps,
 * because big-number arithmetic makes thousands of the same kind. */
static void test_every_failing_allocation_of_a_handshake_is_a_status(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  size_t failures = 0;
  (void)state;
  for (size_t n = 1;; n += 1 + n / 50) {
    struct tls_pair p = {.piece_bytes = TLS_ALL, .client.st = tmesh_again(), .server.st = tmesh_again()};
    bool is_good;
    calls = 0;
    fail_at = n;
    is_good = tmesh_is_ok(tmesh_tls_new(c.client, TLS_NAME, &p.client.tls));
    is_good = is_good && tmesh_is_ok(tmesh_tls_new(c.server, NULL, &p.server.tls));
    if (is_good) {
      const size_t inbox = 65536; /* the pair's own buffers are not what is tested */
      p.client.inbox = __real_malloc(inbox);
      p.server.inbox = __real_malloc(inbox);
      p.client.inbox_cap = p.server.inbox_cap = inbox;
      is_good = tls_pair_handshake(&p);
    }
    fail_at = 0;
    if (!is_good) failures++;
    tls_pair_close(&p);
    if (calls < n) {
      assert_true(is_good);
      break;
    }
  }
  assert_true(failures > 100);
  tls_fixture_free(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_records_allocate_nothing),
      cmocka_unit_test(test_every_failing_allocation_of_a_configuration_is_a_status),
      cmocka_unit_test(test_every_failing_allocation_of_a_handshake_is_a_status),
  };
  return cmocka_run_group_tests_name("tls_alloc", tests, tls_fixture_make, NULL);
}
