/* TLS after the handshake: data, records, bounds of the output, and the two ends. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "tests/core/wire/tls_fixture.h"

/* --- data ---------------------------------------------------------------------------------- */

static uint8_t pattern(size_t i) {
  return (uint8_t)(i * 131 + (i >> 11));
}

/* Sends `total` bytes from one end to the other; writes vary in size, reads too. */
static void transfer(struct tls_pair* p, struct tls_end* from, struct tls_end* to, size_t total) {
  uint8_t plain[TMESH_TLS_PLAIN_MAX_BYTES], back[5000];
  size_t sent = 0, got = 0, turn = 0;
  while (got < total) {
    struct tmesh_status st;
    size_t want = turn++ % 3 == 0 ? 1 + turn % 100 : sizeof plain, n;
    if (want > total - sent) want = total - sent;
    for (size_t i = 0; i < want; i++) plain[i] = pattern(sent + i);
    if (want > 0) {
      const bool is_writable = tmesh_tls_writable(from->tls);
      st = tmesh_tls_write(from->tls, plain, want);
      assert_int_equal(st.code, is_writable ? TMESH_OK : TMESH_E_AGAIN);
      if (is_writable) sent += want;
    }
    (void)tls_pair_carry(p, from, to);
    while (tmesh_is_ok(st = tls_end_read(to, back, 1 + turn % sizeof back, &n))) {
      for (size_t i = 0; i < n; i++) assert_int_equal(back[i], pattern(got + i));
      got += n;
    }
    assert_int_equal(st.code, TMESH_E_AGAIN);
    assert_int_equal(n, 0);
  }
  assert_int_equal(got, total);
}

static void test_one_mebibyte_both_ways(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    struct tls_pair p;
    tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
    assert_true(tls_pair_handshake(&p));
    p.piece_bytes = 20000;
    transfer(&p, &p.client, &p.server, 1u << 20);
    transfer(&p, &p.server, &p.client, 1u << 20);
    assert_true(tmesh_tls_records(p.client.tls) >= (1u << 20) / TMESH_TLS_PLAIN_MAX_BYTES);
    assert_int_equal(tmesh_tls_records(p.client.tls), tmesh_tls_records(p.server.tls));
    tls_pair_close(&p);
    tls_fixture_free(&c);
  }
}

static void test_data_in_pieces_of_one_byte(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  (void)state;
  tls_pair_open(&p, c.client, c.server, TLS_NAME, 1);
  assert_true(tls_pair_handshake(&p));
  transfer(&p, &p.client, &p.server, 3000);
  transfer(&p, &p.server, &p.client, 3000);
  tls_pair_close(&p);
  tls_fixture_free(&c);
}

static void test_records_are_counted_once_each(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  uint8_t byte;
  size_t n;
  (void)state;
  tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
  assert_true(tls_pair_handshake(&p));
  for (int i = 0; i < 5; i++) {
    assert_true(tmesh_is_ok(tmesh_tls_write(p.client.tls, (const uint8_t*)"four", 4)));
    while (tls_pair_carry(&p, &p.client, &p.server) > 0) continue;
    for (int k = 0; k < 4; k++) assert_true(tmesh_is_ok(tls_end_read(&p.server, &byte, 1, &n)));
  }
  assert_int_equal(tmesh_tls_records(p.client.tls), 5);
  assert_int_equal(tmesh_tls_records(p.server.tls), 5);
  tls_pair_close(&p);
  tls_fixture_free(&c);
}

static void test_a_full_output_takes_no_more_and_stays_bounded(void** state) {
  static uint8_t plain[TMESH_TLS_PLAIN_MAX_BYTES];
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    struct tls_pair p;
    const uint8_t* data;
    size_t n;
    int records = 0;
    tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
    assert_true(tls_pair_handshake(&p));
    while (tmesh_is_ok(tmesh_tls_write(p.client.tls, plain, sizeof plain))) records++;
    assert_int_equal(records, 2);
    assert_int_equal(tmesh_tls_write(p.client.tls, plain, 1).code, TMESH_E_AGAIN);
    tmesh_tls_close(p.client.tls); /* its alert has room all the same */
    tmesh_tls_pending(p.client.tls, &data, &n);
    assert_true(n <= TMESH_TLS_PENDING_MAX_BYTES);
    while (tls_pair_carry(&p, &p.client, &p.server) > 0) continue;
    for (int i = 0; i < records; i++) {
      assert_true(tmesh_is_ok(tls_end_read(&p.server, plain, sizeof plain, &n)));
      assert_int_equal(n, sizeof plain);
    }
    assert_int_equal(tls_end_read(&p.server, plain, sizeof plain, &n).code, TMESH_E_CLOSED);
    tls_pair_close(&p);
    tls_fixture_free(&c);
  }
}

/* --- ends ------------------------------------------------------------------------------------ */

static void test_close_notify_is_told_from_truncation(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    for (int is_clean = 0; is_clean < 2; is_clean++) {
      struct tls_configs c = tls_fixture_configs(tls_versions[v]);
      struct tls_pair p;
      uint8_t buf[16];
      size_t n;
      tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
      assert_true(tls_pair_handshake(&p));
      assert_true(tmesh_is_ok(tmesh_tls_write(p.client.tls, (const uint8_t*)"bye", 3)));
      if (is_clean) tmesh_tls_close(p.client.tls);
      while (tls_pair_carry(&p, &p.client, &p.server) > 0) continue;
      assert_true(tmesh_is_ok(tls_end_read(&p.server, buf, sizeof buf, &n)));
      assert_memory_equal(buf, "bye", 3);
      for (int i = 0; i < 2; i++) {
        struct tmesh_status st = tls_end_read(&p.server, buf, sizeof buf, &n);
        assert_int_equal(st.code, is_clean ? TMESH_E_CLOSED : TMESH_E_AGAIN);
      }
      assert_int_equal(tmesh_tls_eof(p.server.tls).code, is_clean ? TMESH_E_CLOSED : TMESH_E_TRUNCATED);
      assert_int_equal(tmesh_tls_eof(p.server.tls).scope, TMESH_SCOPE_SESSION);
      tls_pair_close(&p);
      tls_fixture_free(&c);
    }
  }
}

static void test_after_close_reading_works_and_writing_does_not(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  const uint8_t* data;
  uint8_t buf[16];
  size_t n, first;
  (void)state;
  tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
  assert_true(tls_pair_handshake(&p));
  tmesh_tls_close(p.client.tls);
  tmesh_tls_pending(p.client.tls, &data, &first);
  tmesh_tls_close(p.client.tls);
  tmesh_tls_pending(p.client.tls, &data, &n);
  assert_true(first > 0);
  assert_int_equal(n, first);
  assert_false(tmesh_tls_writable(p.client.tls));
  assert_int_equal(tmesh_tls_write(p.client.tls, buf, 1).code, TMESH_E_CLOSED);
  while (tls_pair_carry(&p, &p.client, &p.server) > 0) continue;
  assert_int_equal(tls_end_read(&p.server, buf, sizeof buf, &n).code, TMESH_E_CLOSED);
  assert_true(tmesh_is_ok(tmesh_tls_write(p.server.tls, (const uint8_t*)"late", 4)));
  while (tls_pair_carry(&p, &p.server, &p.client) > 0) continue;
  assert_true(tmesh_is_ok(tls_end_read(&p.client, buf, sizeof buf, &n)));
  assert_int_equal(n, 4);
  tls_pair_close(&p);
  tls_fixture_free(&c);
}

static void test_close_before_the_handshake_sends_nothing(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tmesh_tls* t;
  const uint8_t* data;
  size_t n;
  (void)state;
  assert_true(tmesh_is_ok(tmesh_tls_new(c.server, NULL, &t)));
  tmesh_tls_close(t);
  tmesh_tls_pending(t, &data, &n);
  assert_int_equal(n, 0);
  assert_false(tmesh_tls_writable(t));
  tmesh_tls_free(t);
  tmesh_tls_free(NULL);
  tls_fixture_free(&c);
}

static void test_a_forged_record_ends_the_connection(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    struct tls_pair p;
    uint8_t buf[16];
    size_t n;
    tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
    assert_true(tls_pair_handshake(&p));
    assert_true(tmesh_is_ok(tmesh_tls_write(p.client.tls, (const uint8_t*)"data", 4)));
    while (tls_pair_carry(&p, &p.client, &p.server) > 0) continue;
    p.server.inbox[p.server.inbox_len - 1] ^= 1;
    for (int i = 0; i < 2; i++) {
      struct tmesh_status st = tls_end_read(&p.server, buf, sizeof buf, &n);
      assert_int_equal(st.code, TMESH_E_TLS);
      assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
      assert_int_equal(n, 0);
    }
    assert_int_equal(tmesh_tls_write(p.server.tls, buf, 1).code, TMESH_E_TLS);
    tls_pair_close(&p);
    tls_fixture_free(&c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_one_mebibyte_both_ways),
      cmocka_unit_test(test_data_in_pieces_of_one_byte),
      cmocka_unit_test(test_records_are_counted_once_each),
      cmocka_unit_test(test_a_full_output_takes_no_more_and_stays_bounded),
      cmocka_unit_test(test_close_notify_is_told_from_truncation),
      cmocka_unit_test(test_after_close_reading_works_and_writing_does_not),
      cmocka_unit_test(test_close_before_the_handshake_sends_nothing),
      cmocka_unit_test(test_a_forged_record_ends_the_connection),
  };
  return cmocka_run_group_tests_name("tls_data", tests, tls_fixture_make, NULL);
}
