#include "tests/core/wire/test_certs.h"

#include <arpa/inet.h>
#include <mbedtls/ecp.h>
#include <mbedtls/pk.h>
#include <mbedtls/psa_util.h>
#include <mbedtls/x509_crt.h>
#include <psa/crypto.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "core/base/check.h"

#define RNG mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE
#define SANS_MAX 8

static void make_key(mbedtls_pk_context* key) {
  TMESH_ASSERT(psa_crypto_init() == PSA_SUCCESS);
  mbedtls_pk_init(key);
  TMESH_ASSERT(mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY)) == 0);
  TMESH_ASSERT(mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), RNG) == 0);
}

struct sans {
  mbedtls_x509_san_list nodes[SANS_MAX];
  char text[SANS_MAX][128];
  size_t count;
};

static void add_san(struct sans* s, const char* entry, size_t n) {
  mbedtls_x509_san_list* node = &s->nodes[s->count];
  char* text = s->text[s->count];
  uint8_t ip[16];
  size_t ip_bytes = 0;
  const char* value = text;

  TMESH_ASSERT(s->count < SANS_MAX && n < sizeof s->text[0]);
  memcpy(text, entry, n);
  text[n] = '\0';
  if (strncmp(text, "DNS:", 4) == 0) {
    node->node.type = MBEDTLS_X509_SAN_DNS_NAME;
    value = text + 4;
  } else if (strncmp(text, "URI:", 4) == 0) {
    node->node.type = MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER;
    value = text + 4;
  } else {
    TMESH_ASSERT(strncmp(text, "IP:", 3) == 0);
    ip_bytes = inet_pton(AF_INET, text + 3, ip) == 1 ? 4 : 16;
    TMESH_ASSERT(ip_bytes == 4 || inet_pton(AF_INET6, text + 3, ip) == 1);
    node->node.type = MBEDTLS_X509_SAN_IP_ADDRESS;
    memcpy(text, ip, ip_bytes);
  }
  node->node.san.unstructured_name.p = (unsigned char*)(uintptr_t)value;
  node->node.san.unstructured_name.len = ip_bytes > 0 ? ip_bytes : strlen(value);
  if (s->count > 0) s->nodes[s->count - 1].next = node;
  s->count++;
}

static void parse_sans(struct sans* s, const char* text) {
  memset(s, 0, sizeof *s);
  while (text != NULL && *text != '\0') {
    const char* comma = strchr(text, ',');
    add_san(s, text, comma == NULL ? strlen(text) : (size_t)(comma - text));
    text = comma == NULL ? NULL : comma + 1;
  }
}

static void set_dates(mbedtls_x509write_cert* w, enum test_cert_dates dates) {
  static const char* const from[] = {"20200101000000", "20200101000000", "20900101000000"};
  static const char* const to[] = {"20900101000000", "20210101000000", "20910101000000"};
  TMESH_ASSERT(mbedtls_x509write_crt_set_validity(w, from[dates], to[dates]) == 0);
}

static void write_cert(struct test_cert* out, mbedtls_pk_context* key, mbedtls_pk_context* issuer_key,
                       const char* name, const char* issuer, const char* sans, int is_ca,
                       enum test_cert_dates dates) {
  static uint32_t serial = 1;
  uint8_t serial_bytes[4] = {1, (uint8_t)(serial >> 16), (uint8_t)(serial >> 8), (uint8_t)serial};
  mbedtls_x509write_cert w;
  struct sans list;
  char subject[160], issuer_name[160];

  serial++;
  snprintf(subject, sizeof subject, "CN=%s", name);
  snprintf(issuer_name, sizeof issuer_name, "CN=%s", issuer);
  mbedtls_x509write_crt_init(&w);
  mbedtls_x509write_crt_set_version(&w, MBEDTLS_X509_CRT_VERSION_3);
  mbedtls_x509write_crt_set_md_alg(&w, MBEDTLS_MD_SHA256);
  mbedtls_x509write_crt_set_subject_key(&w, key);
  mbedtls_x509write_crt_set_issuer_key(&w, issuer_key);
  TMESH_ASSERT(mbedtls_x509write_crt_set_subject_name(&w, subject) == 0);
  TMESH_ASSERT(mbedtls_x509write_crt_set_issuer_name(&w, issuer_name) == 0);
  TMESH_ASSERT(mbedtls_x509write_crt_set_serial_raw(&w, serial_bytes, sizeof serial_bytes) == 0);
  TMESH_ASSERT(mbedtls_x509write_crt_set_basic_constraints(&w, is_ca, -1) == 0);
  set_dates(&w, dates);
  parse_sans(&list, sans);
  if (list.count > 0) {
    TMESH_ASSERT(mbedtls_x509write_crt_set_subject_alternative_name(&w, list.nodes) == 0);
  }
  TMESH_ASSERT(mbedtls_x509write_crt_pem(&w, (unsigned char*)out->cert_pem, sizeof out->cert_pem, RNG) == 0);
  TMESH_ASSERT(mbedtls_pk_write_key_pem(key, (unsigned char*)out->key_pem, sizeof out->key_pem) == 0);
  mbedtls_x509write_crt_free(&w);
}

void test_cert_make_ca(struct test_cert* out, const char* common_name) {
  mbedtls_pk_context key;
  make_key(&key);
  write_cert(out, &key, &key, common_name, common_name, NULL, 1, TEST_CERT_VALID);
  mbedtls_pk_free(&key);
}

void test_cert_make_leaf(struct test_cert* out, const struct test_cert* ca, const char* common_name,
                         const char* sans, enum test_cert_dates dates) {
  mbedtls_pk_context key, ca_key;
  mbedtls_x509_crt ca_cert;
  const mbedtls_asn1_named_data* cn;
  char issuer[128] = "";

  make_key(&key);
  mbedtls_pk_init(&ca_key);
  mbedtls_x509_crt_init(&ca_cert);
  TMESH_ASSERT(mbedtls_pk_parse_key(&ca_key, (const unsigned char*)ca->key_pem, strlen(ca->key_pem) + 1, NULL,
                                    0, RNG) == 0);
  TMESH_ASSERT(
      mbedtls_x509_crt_parse(&ca_cert, (const unsigned char*)ca->cert_pem, strlen(ca->cert_pem) + 1) == 0);
  cn = &ca_cert.subject; /* its only part is the common name */
  TMESH_ASSERT(cn->val.len < sizeof issuer);
  memcpy(issuer, cn->val.p, cn->val.len);
  write_cert(out, &key, &ca_key, common_name, issuer, sans, 0, dates);
  mbedtls_x509_crt_free(&ca_cert);
  mbedtls_pk_free(&ca_key);
  mbedtls_pk_free(&key);
}
