#include "tests/core/wire/tls_fixture.h"

#include <string.h>

#include "core/base/check.h"

struct tls_certs tls_certs;

int tls_fixture_make(void** state) {
  struct tls_certs* c = &tls_certs;
  (void)state;
  test_cert_make_ca(&c->ca, "test ca");
  test_cert_make_ca(&c->other_ca, "other ca");
  test_cert_make_leaf(&c->server, &c->ca, "anything",
                      "DNS:" TLS_NAME ",DNS:*.wild.example,IP:127.0.0.1,IP:::1,URI:urn:node:7",
                      TEST_CERT_VALID);
  test_cert_make_leaf(&c->expired, &c->ca, TLS_NAME, "DNS:" TLS_NAME, TEST_CERT_EXPIRED);
  test_cert_make_leaf(&c->future, &c->ca, TLS_NAME, "DNS:" TLS_NAME, TEST_CERT_FUTURE);
  test_cert_make_leaf(&c->node, &c->ca, "node-a", "DNS:node-a,DNS:relay.internal", TEST_CERT_VALID);
  return 0;
}

struct tmesh_tls_pem tls_fixture_pem(const char* text) {
  struct tmesh_tls_pem p = {text, strlen(text)};
  return p;
}

struct tmesh_tls_config* tls_fixture_server(const struct test_cert* cert, const struct test_cert* client_ca,
                                            enum tmesh_tls_version min) {
  struct tmesh_tls_options o = {
      .min_version = min, .cert = tls_fixture_pem(cert->cert_pem), .key = tls_fixture_pem(cert->key_pem)};
  struct tmesh_tls_config* c;
  enum tmesh_tls_config_error error;
  if (client_ca != NULL) o.ca = tls_fixture_pem(client_ca->cert_pem);
  TMESH_ASSERT(tmesh_is_ok(tmesh_tls_config_new_server(&o, &c, &error)));
  return c;
}

struct tmesh_tls_config* tls_fixture_client(const struct test_cert* ca, const struct test_cert* own,
                                            enum tmesh_tls_version max) {
  struct tmesh_tls_options o = {.max_version = max, .ca = tls_fixture_pem(ca->cert_pem)};
  struct tmesh_tls_config* c;
  enum tmesh_tls_config_error error;
  if (own != NULL) {
    o.cert = tls_fixture_pem(own->cert_pem);
    o.key = tls_fixture_pem(own->key_pem);
  }
  TMESH_ASSERT(tmesh_is_ok(tmesh_tls_config_new_client(&o, &c, &error)));
  return c;
}

struct tls_configs tls_fixture_configs(enum tmesh_tls_version version) {
  struct tls_configs c = {tls_fixture_client(&tls_certs.ca, NULL, version),
                          tls_fixture_server(&tls_certs.server, NULL, TMESH_TLS_VERSION_NONE)};
  return c;
}

void tls_fixture_free(struct tls_configs* c) {
  tmesh_tls_config_unref(c->client);
  tmesh_tls_config_unref(c->server);
}
