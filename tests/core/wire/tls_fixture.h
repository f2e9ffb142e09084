/* Certificates and configurations that the TLS tests share. */
#ifndef TMESH_TESTS_TLS_FIXTURE_H
#define TMESH_TESTS_TLS_FIXTURE_H

#include "tests/core/wire/test_certs.h"
#include "tests/core/wire/tls_pair.h"

#define TLS_NAME "hub.example"
#define TLS_ALL 1048576 /* a piece size beyond every flight */

/* server: DNS TLS_NAME and *.wild.example, IP 127.0.0.1 and ::1, URI urn:node:7, and a
 * common name that is none of them. node: DNS node-a. All signed by ca. */
struct tls_certs {
  struct test_cert ca, other_ca, server, expired, future, node;
};
extern struct tls_certs tls_certs;

/* A CMocka group setup: makes the certificates. */
int tls_fixture_make(void** state);

struct tmesh_tls_pem tls_fixture_pem(const char* text);

/* client_ca NULL: no client certificates. */
struct tmesh_tls_config* tls_fixture_server(const struct test_cert* cert, const struct test_cert* client_ca,
                                            enum tmesh_tls_version min);
/* own NULL: none. */
struct tmesh_tls_config* tls_fixture_client(const struct test_cert* ca, const struct test_cert* own,
                                            enum tmesh_tls_version max);

/* Both ends, for connections of exactly this version. */
struct tls_configs {
  struct tmesh_tls_config* client;
  struct tmesh_tls_config* server;
};
struct tls_configs tls_fixture_configs(enum tmesh_tls_version version);
void tls_fixture_free(struct tls_configs* c);

static const enum tmesh_tls_version tls_versions[] = {TMESH_TLS_VERSION_1_2, TMESH_TLS_VERSION_1_3};

#endif
