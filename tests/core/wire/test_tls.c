/* TLS: configurations, handshakes, names and resumption, all in memory. */
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

/* --- configuration ---------------------------------------------------------------- */

static void expect_config(bool is_server, struct tmesh_tls_options o, enum tmesh_tls_config_error want) {
  struct tmesh_tls_config* c = (void*)&c;
  enum tmesh_tls_config_error error;
  struct tmesh_status st =
      is_server ? tmesh_tls_config_new_server(&o, &c, &error) : tmesh_tls_config_new_client(&o, &c, &error);
  assert_int_equal(error, want);
  assert_int_equal(tmesh_is_ok(st), want == TMESH_TLS_CONFIG_OK);
  assert_int_equal(c != NULL, want == TMESH_TLS_CONFIG_OK);
  tmesh_tls_config_unref(c);
}

static void test_config_names_what_is_wrong(void** state) {
  const struct tmesh_tls_pem cert = tls_fixture_pem(tls_certs.server.cert_pem),
                             key = tls_fixture_pem(tls_certs.server.key_pem);
  const struct tmesh_tls_pem junk =
      tls_fixture_pem("-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n");
  (void)state;
  expect_config(true, (struct tmesh_tls_options){.cert = cert, .key = key}, TMESH_TLS_CONFIG_OK);
  expect_config(true, (struct tmesh_tls_options){.key = key}, TMESH_TLS_CONFIG_CERT);
  expect_config(true, (struct tmesh_tls_options){.cert = junk, .key = key}, TMESH_TLS_CONFIG_CERT);
  expect_config(true, (struct tmesh_tls_options){.cert = cert}, TMESH_TLS_CONFIG_KEY);
  expect_config(true, (struct tmesh_tls_options){.cert = cert, .key = cert}, TMESH_TLS_CONFIG_KEY);
  expect_config(true,
                (struct tmesh_tls_options){.cert = cert, .key = tls_fixture_pem(tls_certs.node.key_pem)},
                TMESH_TLS_CONFIG_KEY_PAIR);
  expect_config(true, (struct tmesh_tls_options){.cert = cert, .key = key, .ca = junk}, TMESH_TLS_CONFIG_CA);
  expect_config(false, (struct tmesh_tls_options){.ca = junk}, TMESH_TLS_CONFIG_CA);
  expect_config(false, (struct tmesh_tls_options){.ca = tls_fixture_pem("")}, TMESH_TLS_CONFIG_CA);
  expect_config(false, (struct tmesh_tls_options){.ca = tls_fixture_pem(tls_certs.ca.cert_pem), .cert = cert},
                TMESH_TLS_CONFIG_KEY);
}

static void test_config_takes_pem_with_and_without_a_nul(void** state) {
  struct tmesh_tls_pem with_nul = tls_fixture_pem(tls_certs.ca.cert_pem);
  (void)state;
  with_nul.len_bytes++;
  expect_config(false, (struct tmesh_tls_options){.ca = with_nul}, TMESH_TLS_CONFIG_OK);
}

static void test_config_lives_as_long_as_its_connections(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  (void)state;
  tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
  assert_ptr_equal(tmesh_tls_config_ref(c.client), c.client);
  tmesh_tls_config_unref(c.client);
  tls_fixture_free(&c);
  assert_true(tls_pair_handshake(&p));
  tls_pair_close(&p);
}

static void test_new_refuses_names_that_cannot_be_checked(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tmesh_tls* t;
  char name[300];
  (void)state;
  memset(name, 'a', sizeof name);
  name[256] = '\0';
  assert_int_equal(tmesh_tls_new(c.client, name, &t).code, TMESH_E_INVALID);
  assert_null(t);
  assert_int_equal(tmesh_tls_new(c.client, "", &t).code, TMESH_E_INVALID);
  name[255] = '\0';
  assert_true(tmesh_is_ok(tmesh_tls_new(c.client, name, &t)));
  tmesh_tls_free(t);
  tls_fixture_free(&c);
}

/* --- handshake --------------------------------------------------------------------- */

static void test_handshake_in_both_versions_and_any_pieces(void** state) {
  static const size_t pieces[] = {1, 5, 1000, TLS_ALL};
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
      struct tls_configs c = tls_fixture_configs(tls_versions[v]);
      struct tls_pair p;
      tls_pair_open(&p, c.client, c.server, TLS_NAME, pieces[i]);
      assert_true(tls_pair_handshake(&p));
      assert_int_equal(tmesh_tls_negotiated(p.client.tls), tls_versions[v]);
      assert_int_equal(tmesh_tls_negotiated(p.server.tls), tls_versions[v]);
      assert_false(tmesh_tls_resumed(p.client.tls));
      assert_false(tmesh_tls_resumed(p.server.tls));
      assert_int_equal(tmesh_tls_records(p.client.tls), 0);
      tls_pair_close(&p);
      tls_fixture_free(&c);
    }
  }
}

static void test_handshake_proceeds_in_several_steps(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tmesh_tls* t;
  size_t used, pending;
  const uint8_t* data;
  int steps = 0;
  (void)state;
  assert_true(tmesh_is_ok(tmesh_tls_new(c.client, TLS_NAME, &t)));
  while (tmesh_is_ok(tmesh_tls_handshake_step(t, NULL, 0, &used))) steps++;
  assert_true(steps >= 2);
  assert_false(tmesh_tls_handshake_done(t));
  tmesh_tls_pending(t, &data, &pending);
  assert_true(pending > 0);
  assert_int_equal(data[0], 0x16);
  tmesh_tls_free(t);
  tls_fixture_free(&c);
}

static void test_min_version_1_3_refuses_1_2(void** state) {
  struct tmesh_tls_config* client = tls_fixture_client(&tls_certs.ca, NULL, TMESH_TLS_VERSION_1_2);
  struct tmesh_tls_config* server = tls_fixture_server(&tls_certs.server, NULL, TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  (void)state;
  tls_pair_open(&p, client, server, TLS_NAME, TLS_ALL);
  assert_false(tls_pair_handshake(&p));
  assert_int_equal(p.server.st.code, TMESH_E_TLS);
  assert_int_equal(p.server.st.scope, TMESH_SCOPE_SESSION);
  tls_pair_close(&p);
  tmesh_tls_config_unref(client);
  tmesh_tls_config_unref(server);
}

static void expect_refused(const struct test_cert* ca, const struct test_cert* leaf, const char* name,
                           enum tmesh_tls_verify_error want) {
  for (size_t v = 0; v < 2; v++) {
    struct tmesh_tls_config* client = tls_fixture_client(ca, NULL, tls_versions[v]);
    struct tmesh_tls_config* server = tls_fixture_server(leaf, NULL, TMESH_TLS_VERSION_NONE);
    struct tls_pair p;
    size_t used;
    tls_pair_open(&p, client, server, name, TLS_ALL);
    assert_false(tls_pair_handshake(&p));
    assert_int_equal(p.client.st.code, TMESH_E_TLS_VERIFY);
    assert_int_equal(p.client.st.scope, TMESH_SCOPE_SESSION);
    assert_int_equal(tmesh_tls_verify_result(p.client.tls), want);
    /* the server was told by an alert, and the error is sticky */
    assert_int_equal(p.server.st.code, TMESH_E_TLS);
    assert_int_equal(tmesh_tls_handshake_step(p.client.tls, NULL, 0, &used).code, TMESH_E_TLS_VERIFY);
    tls_pair_close(&p);
    tmesh_tls_config_unref(client);
    tmesh_tls_config_unref(server);
  }
}

static void test_untrusted_wrong_name_and_wrong_dates_are_refused(void** state) {
  (void)state;
  expect_refused(&tls_certs.other_ca, &tls_certs.server, TLS_NAME, TMESH_TLS_VERIFY_UNTRUSTED);
  expect_refused(&tls_certs.ca, &tls_certs.server, "other.example", TMESH_TLS_VERIFY_NAME);
  expect_refused(&tls_certs.ca, &tls_certs.server, "a.b.wild.example", TMESH_TLS_VERIFY_NAME);
  expect_refused(&tls_certs.ca, &tls_certs.server, "anything", TMESH_TLS_VERIFY_NAME);
  expect_refused(&tls_certs.ca, &tls_certs.expired, TLS_NAME, TMESH_TLS_VERIFY_EXPIRED);
  expect_refused(&tls_certs.ca, &tls_certs.future, TLS_NAME, TMESH_TLS_VERIFY_EXPIRED);
}

static void test_ip_literals_are_checked_against_ip_sans(void** state) {
  static const char* const good[] = {"127.0.0.1", "::1", "0:0:0:0:0:0:0:1", "x.wild.example"};
  (void)state;
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
    struct tls_pair p;
    tls_pair_open(&p, c.client, c.server, good[i], TLS_ALL);
    assert_true(tls_pair_handshake(&p));
    tls_pair_close(&p);
    tls_fixture_free(&c);
  }
  expect_refused(&tls_certs.ca, &tls_certs.server, "127.0.0.2", TMESH_TLS_VERIFY_NAME);
  expect_refused(&tls_certs.ca, &tls_certs.server, "::2", TMESH_TLS_VERIFY_NAME);
  expect_refused(&tls_certs.ca, &tls_certs.node, "127.0.0.1", TMESH_TLS_VERIFY_NAME);
}

static void test_ip_literals_are_not_sent_as_sni(void** state) {
  static const char* const names[] = {TLS_NAME, "127.0.0.1"};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
    struct tmesh_tls* t;
    const uint8_t* data;
    size_t used, n;
    assert_true(tmesh_is_ok(tmesh_tls_new(c.client, names[i], &t)));
    while (tmesh_is_ok(tmesh_tls_handshake_step(t, NULL, 0, &used))) continue;
    tmesh_tls_pending(t, &data, &n);
    assert_int_equal(memmem(data, n, names[i], strlen(names[i])) != NULL, i == 0);
    tmesh_tls_free(t);
    tls_fixture_free(&c);
  }
}

/* A TLS 1.2 server takes the first algorithm that its RSA key can do, and the library
 * verifies RSA-PSS (0x0804 to 0x0806) in TLS 1.3 only. */
static void test_rsa_pss_is_offered_last(void** state) {
  static const uint8_t offers[] = {0x00, 0x12, 0x04, 0x03, 0x05, 0x03, 0x06, 0x03, 0x04, 0x01,
                                   0x05, 0x01, 0x06, 0x01, 0x08, 0x04, 0x08, 0x05, 0x08, 0x06};
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tmesh_tls* t;
  const uint8_t* data;
  size_t used, n;
  (void)state;
  assert_true(tmesh_is_ok(tmesh_tls_new(c.client, TLS_NAME, &t)));
  while (tmesh_is_ok(tmesh_tls_handshake_step(t, NULL, 0, &used))) continue;
  tmesh_tls_pending(t, &data, &n);
  assert_non_null(memmem(data, n, offers, sizeof offers));
  tmesh_tls_free(t);
  tls_fixture_free(&c);
}

static void test_garbage_is_a_tls_error(void** state) {
  static const uint8_t http[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tmesh_tls* t;
  struct tmesh_status st;
  size_t used;
  (void)state;
  assert_true(tmesh_is_ok(tmesh_tls_new(c.server, NULL, &t)));
  do {
    st = tmesh_tls_handshake_step(t, http, sizeof http, &used);
  } while (tmesh_is_ok(st));
  assert_int_equal(st.code, TMESH_E_TLS);
  tmesh_tls_free(t);
  tls_fixture_free(&c);
}

/* --- client certificates -------------------------------------------------------------- */

static void test_client_certificate_is_required_and_verified(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    const struct test_cert* own[] = {&tls_certs.node, NULL, &tls_certs.expired};
    for (size_t i = 0; i < 3; i++) {
      struct tmesh_tls_config* client = tls_fixture_client(&tls_certs.ca, own[i], tls_versions[v]);
      struct tmesh_tls_config* server =
          tls_fixture_server(&tls_certs.server, &tls_certs.ca, TMESH_TLS_VERSION_NONE);
      struct tls_pair p;
      tls_pair_open(&p, client, server, TLS_NAME, TLS_ALL);
      if (i == 0) {
        assert_true(tls_pair_handshake(&p));
        assert_true(tmesh_tls_peer_has_san(p.server.tls, "node-a"));
      } else {
        assert_false(tls_pair_handshake(&p));
        assert_int_equal(p.server.st.code, TMESH_E_TLS_VERIFY);
        assert_int_equal(tmesh_tls_verify_result(p.server.tls),
                         i == 1 ? TMESH_TLS_VERIFY_MISSING : TMESH_TLS_VERIFY_EXPIRED);
        assert_false(tmesh_tls_peer_has_san(p.server.tls, "node-a"));
      }
      tls_pair_close(&p);
      tmesh_tls_config_unref(client);
      tmesh_tls_config_unref(server);
    }
  }
}

static void test_peer_has_san_is_exact(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  (void)state;
  tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
  assert_false(tmesh_tls_peer_has_san(p.client.tls, TLS_NAME));
  assert_true(tls_pair_handshake(&p));
  assert_true(tmesh_tls_peer_has_san(p.client.tls, TLS_NAME));
  assert_true(tmesh_tls_peer_has_san(p.client.tls, "HUB.Example"));
  assert_true(tmesh_tls_peer_has_san(p.client.tls, "127.0.0.1"));
  assert_true(tmesh_tls_peer_has_san(p.client.tls, "::1"));
  assert_true(tmesh_tls_peer_has_san(p.client.tls, "urn:node:7"));
  assert_false(tmesh_tls_peer_has_san(p.client.tls, "URN:node:7"));
  assert_false(tmesh_tls_peer_has_san(p.client.tls, "x.wild.example"));
  assert_true(tmesh_tls_peer_has_san(p.client.tls, "*.wild.example"));
  assert_false(tmesh_tls_peer_has_san(p.client.tls, "anything"));
  assert_false(tmesh_tls_peer_has_san(p.client.tls, "hub.exampl"));
  assert_false(tmesh_tls_peer_has_san(p.client.tls, ""));
  assert_false(tmesh_tls_peer_has_san(p.server.tls, TLS_NAME)); /* no client certificate */
  tls_pair_close(&p);
  tls_fixture_free(&c);
}

/* --- resumption -------------------------------------------------------------------------- */

/* One connection, a byte back from the server so that its ticket is read. */
static void connect_once(struct tmesh_tls_config* client, struct tmesh_tls_config* server, const char* name,
                         bool is_resumed) {
  struct tls_pair p;
  uint8_t byte;
  size_t n;
  tls_pair_open(&p, client, server, name, TLS_ALL);
  assert_true(tls_pair_handshake(&p));
  assert_int_equal(tmesh_tls_resumed(p.client.tls), is_resumed);
  assert_int_equal(tmesh_tls_resumed(p.server.tls), is_resumed);
  assert_true(tmesh_is_ok(tmesh_tls_write(p.server.tls, (const uint8_t*)"!", 1)));
  while (tls_pair_carry(&p, &p.server, &p.client) > 0) continue;
  assert_true(tmesh_is_ok(tls_end_read(&p.client, &byte, 1, &n)));
  assert_int_equal(byte, '!');
  tls_pair_close(&p);
}

static void test_second_handshake_resumes(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    connect_once(c.client, c.server, TLS_NAME, false);
    connect_once(c.client, c.server, TLS_NAME, true);
    connect_once(c.client, c.server, TLS_NAME, true);
    tls_fixture_free(&c);
  }
}

static void test_a_ticket_without_data_is_kept_too(void** state) {
  struct tls_configs c = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  struct tls_pair p;
  uint8_t byte;
  size_t n;
  (void)state;
  tls_pair_open(&p, c.client, c.server, TLS_NAME, TLS_ALL);
  assert_true(tls_pair_handshake(&p));
  assert_true(p.client.inbox_len > 0); /* the ticket, behind the handshake */
  assert_int_equal(tls_end_read(&p.client, &byte, 1, &n).code, TMESH_E_AGAIN);
  assert_int_equal(p.client.inbox_len, 0);
  tls_pair_close(&p);
  connect_once(c.client, c.server, TLS_NAME, true);
  tls_fixture_free(&c);
}

static void test_a_session_is_offered_to_its_own_name_only(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    connect_once(c.client, c.server, TLS_NAME, false);
    connect_once(c.client, c.server, "127.0.0.1", false);
    connect_once(c.client, c.server, "127.0.0.1", true);
    connect_once(c.client, c.server, TLS_NAME, false);
    tls_fixture_free(&c);
  }
}

static void test_a_new_server_configuration_falls_back_to_a_full_handshake(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tls_configs c = tls_fixture_configs(tls_versions[v]);
    connect_once(c.client, c.server, TLS_NAME, false);
    tmesh_tls_config_unref(c.server);
    c.server = tls_fixture_server(&tls_certs.server, NULL, TMESH_TLS_VERSION_NONE);
    connect_once(c.client, c.server, TLS_NAME, false);
    connect_once(c.client, c.server, TLS_NAME, true);
    tls_fixture_free(&c);
  }
}

static void test_nothing_is_resumed_with_client_certificates(void** state) {
  (void)state;
  for (size_t v = 0; v < 2; v++) {
    struct tmesh_tls_config* client = tls_fixture_client(&tls_certs.ca, &tls_certs.node, tls_versions[v]);
    struct tmesh_tls_config* server =
        tls_fixture_server(&tls_certs.server, &tls_certs.ca, TMESH_TLS_VERSION_NONE);
    connect_once(client, server, TLS_NAME, false);
    connect_once(client, server, TLS_NAME, false);
    tmesh_tls_config_unref(client);
    tmesh_tls_config_unref(server);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_config_names_what_is_wrong),
      cmocka_unit_test(test_config_takes_pem_with_and_without_a_nul),
      cmocka_unit_test(test_config_lives_as_long_as_its_connections),
      cmocka_unit_test(test_new_refuses_names_that_cannot_be_checked),
      cmocka_unit_test(test_handshake_in_both_versions_and_any_pieces),
      cmocka_unit_test(test_handshake_proceeds_in_several_steps),
      cmocka_unit_test(test_min_version_1_3_refuses_1_2),
      cmocka_unit_test(test_untrusted_wrong_name_and_wrong_dates_are_refused),
      cmocka_unit_test(test_ip_literals_are_checked_against_ip_sans),
      cmocka_unit_test(test_ip_literals_are_not_sent_as_sni),
      cmocka_unit_test(test_rsa_pss_is_offered_last),
      cmocka_unit_test(test_garbage_is_a_tls_error),
      cmocka_unit_test(test_client_certificate_is_required_and_verified),
      cmocka_unit_test(test_peer_has_san_is_exact),
      cmocka_unit_test(test_second_handshake_resumes),
      cmocka_unit_test(test_a_ticket_without_data_is_kept_too),
      cmocka_unit_test(test_a_session_is_offered_to_its_own_name_only),
      cmocka_unit_test(test_a_new_server_configuration_falls_back_to_a_full_handshake),
      cmocka_unit_test(test_nothing_is_resumed_with_client_certificates),
  };
  return cmocka_run_group_tests_name("tls", tests, tls_fixture_make, NULL);
}
