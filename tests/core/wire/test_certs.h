/* Certificates made while a test runs: a CA and leaves signed by it, all P-256, in PEM.
 * Nothing is read from or written to a disk, and nothing can expire in a repository. */
#ifndef TMESH_TESTS_TEST_CERTS_H
#define TMESH_TESTS_TEST_CERTS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TEST_PEM_MAX_BYTES 2048

struct test_cert {
  char cert_pem[TEST_PEM_MAX_BYTES]; /* terminated text */
  char key_pem[TEST_PEM_MAX_BYTES];
};

enum test_cert_dates { TEST_CERT_VALID, TEST_CERT_EXPIRED, TEST_CERT_FUTURE };

/* A self-signed CA. */
void test_cert_make_ca(struct test_cert* out, const char* common_name);

/* A leaf signed by ca. sans: "DNS:name", "IP:literal", "URI:text" entries, comma
 * separated, at most 8; NULL for none. Aborts on failure: a test cannot go on. */
void test_cert_make_leaf(struct test_cert* out, const struct test_cert* ca, const char* common_name,
                         const char* sans, enum test_cert_dates dates);

#ifdef __cplusplus
}
#endif

#endif
