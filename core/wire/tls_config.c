#include <mbedtls/platform_util.h>
#include <mbedtls/psa_util.h>
#include <psa/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/wire/tls_internal.h"

/* Certificates are read again on a worker while the loop uses those it has. */
#if !defined(MBEDTLS_THREADING_C)
#error "mbedTLS is built without threads (MBEDTLS_THREADING_C)"
#endif

/* One day, as the library recommends: long enough for a night's outage. */
#define TICKET_LIFETIME_S 86400u

/* ChaCha20 first: measured at two thirds of the cost of AES-GCM in this library. */
static const int ciphersuites[] = {
    MBEDTLS_TLS1_3_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS1_3_AES_128_GCM_SHA256,
    MBEDTLS_TLS1_3_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    MBEDTLS_TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    MBEDTLS_TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    0,
};

/* RSA-PSS last, because the library offers it for TLS 1.3 but cannot verify it in TLS
 * 1.2: a server of that version takes the first that it has for its RSA key. In TLS 1.3
 * the PKCS#1 ones count for certificates only. */
static const uint16_t signature_algorithms[] = {
    MBEDTLS_TLS1_3_SIG_ECDSA_SECP256R1_SHA256, MBEDTLS_TLS1_3_SIG_ECDSA_SECP384R1_SHA384,
    MBEDTLS_TLS1_3_SIG_ECDSA_SECP521R1_SHA512, MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA256,
    MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA384,       MBEDTLS_TLS1_3_SIG_RSA_PKCS1_SHA512,
    MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA256,    MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA384,
    MBEDTLS_TLS1_3_SIG_RSA_PSS_RSAE_SHA512,    MBEDTLS_TLS1_3_SIG_NONE,
};

/* Debian and Alpine, Fedora and RHEL, openSUSE, OpenBSD and macOS, FreeBSD. */
static const char* const system_bundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
};

/* The parsers want a terminating NUL inside the length; the copy is wiped because one
 * of the callers holds a private key. */
struct text {
  unsigned char* bytes;
  size_t len_bytes; /* with the NUL */
};

static bool text_copy(struct text* t, const struct tmesh_tls_pem* pem) {
  if (pem->data == NULL || pem->len_bytes > TMESH_TLS_PEM_MAX_BYTES) return false;
  t->bytes = malloc(pem->len_bytes + 1);
  if (t->bytes == NULL) return false;
  if (pem->len_bytes > 0) memcpy(t->bytes, pem->data, pem->len_bytes);
  t->bytes[pem->len_bytes] = '\0';
  t->len_bytes = strlen((const char*)t->bytes) + 1;
  return true;
}

static void text_free(struct text* t, size_t pem_bytes) {
  mbedtls_platform_zeroize(t->bytes, pem_bytes + 1);
  free(t->bytes);
}

/* A bundle counts as read when at least one of its certificates was understood. */
static bool parse_certs(mbedtls_x509_crt* chain, const struct tmesh_tls_pem* pem) {
  struct text t;
  int rc;

  if (!text_copy(&t, pem)) return false;
  rc = mbedtls_x509_crt_parse(chain, t.bytes, t.len_bytes);
  text_free(&t, pem->len_bytes);
  return rc >= 0 && chain->version != 0;
}

static bool parse_key(mbedtls_pk_context* key, const struct tmesh_tls_pem* pem) {
  struct text t;
  int rc;

  if (!text_copy(&t, pem)) return false;
  rc = mbedtls_pk_parse_key(key, t.bytes, t.len_bytes, NULL, 0, mbedtls_psa_get_random,
                            MBEDTLS_PSA_RANDOM_STATE);
  text_free(&t, pem->len_bytes);
  return rc == 0;
}

static bool load_system_ca(mbedtls_x509_crt* chain) {
  for (size_t i = 0; i < sizeof system_bundles / sizeof *system_bundles; i++) {
    if (mbedtls_x509_crt_parse_file(chain, system_bundles[i]) >= 0 && chain->version != 0) return true;
  }
  return false;
}

static enum tmesh_tls_config_error load_identity(struct tmesh_tls_config* c,
                                                 const struct tmesh_tls_options* options) {
  if (!parse_certs(&c->cert, &options->cert)) return TMESH_TLS_CONFIG_CERT;
  if (!parse_key(&c->key, &options->key)) return TMESH_TLS_CONFIG_KEY;
  if (mbedtls_pk_check_pair(&c->cert.pk, &c->key, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE) != 0) {
    return TMESH_TLS_CONFIG_KEY_PAIR;
  }
  return mbedtls_ssl_conf_own_cert(&c->ssl, &c->cert, &c->key) == 0 ? TMESH_TLS_CONFIG_OK
                                                                    : TMESH_TLS_CONFIG_LIBRARY;
}

/* Remembers whether a ticket was good; the callbacks of the library do the work. */
static int parse_ticket(void* config, mbedtls_ssl_session* session, unsigned char* buf, size_t len) {
  struct tmesh_tls_config* c = config;
  int rc = mbedtls_ssl_ticket_parse(&c->ticket, session, buf, len);
  c->has_ticket_hit = rc == 0;
  return rc;
}

static int write_ticket(void* config, const mbedtls_ssl_session* session, unsigned char* start,
                        const unsigned char* end, size_t* len, uint32_t* lifetime) {
  struct tmesh_tls_config* c = config;
  return mbedtls_ssl_ticket_write(&c->ticket, session, start, end, len, lifetime);
}

static enum tmesh_tls_config_error enable_tickets(struct tmesh_tls_config* c) {
  if (c->is_server) {
    if (mbedtls_ssl_ticket_setup(&c->ticket, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE,
                                 MBEDTLS_CIPHER_AES_256_GCM, TICKET_LIFETIME_S) != 0) {
      return TMESH_TLS_CONFIG_LIBRARY;
    }
    mbedtls_ssl_conf_session_tickets_cb(&c->ssl, write_ticket, parse_ticket, c);
  } else {
    mbedtls_ssl_conf_session_tickets(&c->ssl, MBEDTLS_SSL_SESSION_TICKETS_ENABLED);
    mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
        &c->ssl, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
  }
  return TMESH_TLS_CONFIG_OK;
}

static mbedtls_ssl_protocol_version library_version(enum tmesh_tls_version version,
                                                    mbedtls_ssl_protocol_version otherwise) {
  switch (version) {
    case TMESH_TLS_VERSION_1_2:
      return MBEDTLS_SSL_VERSION_TLS1_2;
    case TMESH_TLS_VERSION_1_3:
      return MBEDTLS_SSL_VERSION_TLS1_3;
    default:
      return otherwise;
  }
}

static enum tmesh_tls_config_error configure(struct tmesh_tls_config* c,
                                             const struct tmesh_tls_options* options) {
  const bool has_own = options->cert.data != NULL || options->key.data != NULL;
  const bool has_ca = options->ca.data != NULL;
  enum tmesh_tls_config_error error = TMESH_TLS_CONFIG_OK;

  if (psa_crypto_init() != PSA_SUCCESS) return TMESH_TLS_CONFIG_LIBRARY;
  if (mbedtls_ssl_config_defaults(&c->ssl, c->is_server ? MBEDTLS_SSL_IS_SERVER : MBEDTLS_SSL_IS_CLIENT,
                                  MBEDTLS_SSL_TRANSPORT_STREAM, MBEDTLS_SSL_PRESET_DEFAULT) != 0) {
    return TMESH_TLS_CONFIG_LIBRARY;
  }
  mbedtls_ssl_conf_rng(&c->ssl, mbedtls_psa_get_random, MBEDTLS_PSA_RANDOM_STATE);
  mbedtls_ssl_conf_ciphersuites(&c->ssl, ciphersuites);
  mbedtls_ssl_conf_sig_algs(&c->ssl, signature_algorithms);
  mbedtls_ssl_conf_min_tls_version(&c->ssl,
                                   library_version(options->min_version, MBEDTLS_SSL_VERSION_TLS1_2));
  mbedtls_ssl_conf_max_tls_version(&c->ssl,
                                   library_version(options->max_version, MBEDTLS_SSL_VERSION_TLS1_3));
  if (c->is_server || has_own) error = load_identity(c, options);
  if (error != TMESH_TLS_CONFIG_OK) return error;
  if (has_ca && !parse_certs(&c->ca, &options->ca)) return TMESH_TLS_CONFIG_CA;
  if (!c->is_server && !has_ca && !load_system_ca(&c->ca)) return TMESH_TLS_CONFIG_SYSTEM_CA;
  mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, NULL);
  mbedtls_ssl_conf_authmode(&c->ssl,
                            c->is_server && !has_ca ? MBEDTLS_SSL_VERIFY_NONE : MBEDTLS_SSL_VERIFY_REQUIRED);
  c->is_resumable = c->is_server ? !has_ca : !has_own;
  if (c->is_resumable) return enable_tickets(c);
  if (!c->is_server) mbedtls_ssl_conf_session_tickets(&c->ssl, MBEDTLS_SSL_SESSION_TICKETS_DISABLED);
  return TMESH_TLS_CONFIG_OK;
}

static void destroy(struct tmesh_tls_config* c) {
  mbedtls_ssl_config_free(&c->ssl);
  mbedtls_x509_crt_free(&c->cert);
  mbedtls_pk_free(&c->key);
  mbedtls_x509_crt_free(&c->ca);
  mbedtls_ssl_ticket_free(&c->ticket);
  mbedtls_ssl_session_free(&c->session);
  free(c);
}

static struct tmesh_status error_to_status(enum tmesh_tls_config_error error) {
  switch (error) {
    case TMESH_TLS_CONFIG_OK:
      return tmesh_ok();
    case TMESH_TLS_CONFIG_LIBRARY:
      return tmesh_err_session(TMESH_E_NO_MEMORY);
    case TMESH_TLS_CONFIG_SYSTEM_CA:
      return tmesh_err_session(TMESH_E_IO);
    default:
      return tmesh_err_session(TMESH_E_INVALID);
  }
}

static struct tmesh_status config_new(bool is_server, const struct tmesh_tls_options* options,
                                      struct tmesh_tls_config** out, enum tmesh_tls_config_error* error) {
  struct tmesh_tls_config* c = calloc(1, sizeof *c);

  *out = NULL;
  *error = TMESH_TLS_CONFIG_LIBRARY;
  if (c == NULL) return error_to_status(*error);
  c->ref_count = 1;
  c->is_server = is_server;
  mbedtls_ssl_config_init(&c->ssl);
  mbedtls_x509_crt_init(&c->cert);
  mbedtls_pk_init(&c->key);
  mbedtls_x509_crt_init(&c->ca);
  mbedtls_ssl_ticket_init(&c->ticket);
  mbedtls_ssl_session_init(&c->session);
  *error = configure(c, options);
  if (*error == TMESH_TLS_CONFIG_OK) {
    *out = c;
  } else {
    destroy(c);
  }
  return error_to_status(*error);
}

struct tmesh_status tmesh_tls_config_new_server(const struct tmesh_tls_options* options,
                                                struct tmesh_tls_config** out,
                                                enum tmesh_tls_config_error* error) {
  return config_new(true, options, out, error);
}

struct tmesh_status tmesh_tls_config_new_client(const struct tmesh_tls_options* options,
                                                struct tmesh_tls_config** out,
                                                enum tmesh_tls_config_error* error) {
  return config_new(false, options, out, error);
}

struct tmesh_tls_config* tmesh_tls_config_ref(struct tmesh_tls_config* config) {
  config->ref_count++;
  return config;
}

void tmesh_tls_config_unref(struct tmesh_tls_config* config) {
  if (config == NULL) return;
  TMESH_ASSERT(config->ref_count > 0);
  if (--config->ref_count == 0) destroy(config);
}
