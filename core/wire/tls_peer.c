/* Looking at subject alternative names (RFC 5280 section 4.2.1.6). */
#include <arpa/inet.h>
#include <string.h>

#include "core/wire/tls_internal.h"

static unsigned san_type(const mbedtls_asn1_buf* san) {
  return (unsigned)san->tag & MBEDTLS_ASN1_TAG_VALUE_MASK;
}

static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool equal_ignoring_case(const char* a, const unsigned char* b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (lower(a[i]) != lower((char)b[i])) return false;
  }
  return true;
}

size_t tmesh_tls_parse_ip(const char* text, uint8_t out[16]) {
  if (inet_pton(AF_INET, text, out) == 1) return 4;
  return inet_pton(AF_INET6, text, out) == 1 ? 16 : 0;
}

/* The library keeps the parsed names as a list whose first node is part of the
 * certificate; a node without data is an empty list. */
static const mbedtls_x509_sequence* first_san(const mbedtls_x509_crt* cert) {
  const mbedtls_x509_sequence* first = &cert->subject_alt_names;
  return first->buf.p == NULL ? NULL : first;
}

bool tmesh_tls_cert_has_ip(const mbedtls_x509_crt* cert, const uint8_t* ip, size_t ip_bytes) {
  for (const mbedtls_x509_sequence* s = first_san(cert); s != NULL; s = s->next) {
    if (san_type(&s->buf) == MBEDTLS_X509_SAN_IP_ADDRESS && s->buf.len == ip_bytes &&
        memcmp(s->buf.p, ip, ip_bytes) == 0) {
      return true;
    }
  }
  return false;
}

bool tmesh_tls_cert_has_san(const mbedtls_x509_crt* cert, const char* name) {
  const size_t n = strlen(name);
  uint8_t ip[16];
  const size_t ip_bytes = tmesh_tls_parse_ip(name, ip);

  if (ip_bytes > 0) return tmesh_tls_cert_has_ip(cert, ip, ip_bytes);
  for (const mbedtls_x509_sequence* s = first_san(cert); s != NULL; s = s->next) {
    const unsigned type = san_type(&s->buf);
    if (n == 0 || s->buf.len != n) continue;
    if (type == MBEDTLS_X509_SAN_DNS_NAME && equal_ignoring_case(name, s->buf.p, n)) return true;
    if (type == MBEDTLS_X509_SAN_UNIFORM_RESOURCE_IDENTIFIER && memcmp(name, s->buf.p, n) == 0) return true;
  }
  return false;
}
