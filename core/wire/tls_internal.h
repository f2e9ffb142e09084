/* What the files of core/wire/tls share. Not for other folders: mbedTLS types. */
#ifndef TMESH_WIRE_TLS_INTERNAL_H
#define TMESH_WIRE_TLS_INTERNAL_H

#include <mbedtls/ssl.h>
#include <mbedtls/ssl_ticket.h>
#include <mbedtls/x509_crt.h>

#include "core/wire/tls.h"

struct tmesh_tls_config {
  unsigned ref_count;
  bool is_server;
  bool is_resumable;
  mbedtls_ssl_config ssl;
  mbedtls_x509_crt cert;
  mbedtls_pk_context key;
  mbedtls_x509_crt ca;
  mbedtls_ssl_ticket_context ticket; /* server */
  /* Server: whether the last ticket parsed was good. Read by the connection whose
   * step ran, at once: the callback is per configuration, not per connection. */
  bool has_ticket_hit;
  /* Client: the last session, valid for saved_name only. */
  bool has_session;
  mbedtls_ssl_session session;
  char session_name[TMESH_TLS_NAME_MAX_BYTES + 1];
};

/* Whether the certificate carries `ip_bytes` (4 or 16) of address as a SAN. */
bool tmesh_tls_cert_has_ip(const mbedtls_x509_crt* cert, const uint8_t* ip, size_t ip_bytes);
/* As tmesh_tls_peer_has_san. */
bool tmesh_tls_cert_has_san(const mbedtls_x509_crt* cert, const char* name);
/* Parses an IP literal; its size, or 0 if it is none. */
size_t tmesh_tls_parse_ip(const char* text, uint8_t out[16]);

#endif
