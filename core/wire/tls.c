#include "core/wire/tls.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/wire/tls_internal.h"

/* Two for each ticket of a record; servers send one or two, as a rule in one record each. */
#define READ_IDLE_TURNS_MAX 64u
/* Kept free of data records, for alerts. */
#define ALERT_ROOM_BYTES (TMESH_TLS_PENDING_MAX_BYTES - 2u * TMESH_TLS_WRITE_MAX_BYTES)

struct tmesh_tls {
  struct tmesh_tls_config* config;
  mbedtls_ssl_context ssl;
  struct tmesh_status failed; /* sticky; OK while usable */
  bool is_done;
  bool is_closed;      /* close_notify is queued or was sent */
  bool is_peer_closed; /* close_notify came */
  bool is_resumed;
  bool is_verified; /* the certificate check ran: a full handshake */

  /* client */
  char name[TMESH_TLS_NAME_MAX_BYTES + 1];
  uint8_t ip[16];
  size_t ip_bytes; /* 0: name is a DNS name */

  uint64_t in_records;
  uint64_t out_records;
  enum tmesh_tls_verify_error verify_error;

  /* inbound: the caller's span during one call, else NULL and 0 */
  const uint8_t* in;
  size_t in_left_bytes;

  /* outbound: pending[out_begin .. out_end) */
  size_t out_begin;
  size_t out_end;
  uint8_t pending[TMESH_TLS_PENDING_MAX_BYTES];
};

/* --- callbacks of the library --------------------------------------------------- */

static int bio_recv(void* ctx, unsigned char* buf, size_t len) {
  struct tmesh_tls* t = ctx;

  if (t->in_left_bytes == 0) return MBEDTLS_ERR_SSL_WANT_READ;
  if (len > t->in_left_bytes) len = t->in_left_bytes;
  memcpy(buf, t->in, len);
  t->in += len;
  t->in_left_bytes -= len;
  return (int)len;
}

static void compact(struct tmesh_tls* t) {
  if (t->out_begin == 0) return;
  memmove(t->pending, t->pending + t->out_begin, t->out_end - t->out_begin);
  t->out_end -= t->out_begin;
  t->out_begin = 0;
}

static int bio_send(void* ctx, const unsigned char* buf, size_t len) {
  struct tmesh_tls* t = ctx;

  if (len > sizeof t->pending - t->out_end) compact(t);
  if (len > sizeof t->pending - t->out_end) len = sizeof t->pending - t->out_end;
  if (len == 0) return MBEDTLS_ERR_SSL_WANT_WRITE;
  memcpy(t->pending + t->out_end, buf, len);
  t->out_end += len;
  return (int)len;
}

static enum tmesh_tls_verify_error flags_to_error(uint32_t flags) {
  if (flags == 0) return TMESH_TLS_VERIFY_OK;
  if (flags & MBEDTLS_X509_BADCERT_MISSING) return TMESH_TLS_VERIFY_MISSING;
  if (flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED) return TMESH_TLS_VERIFY_UNTRUSTED;
  if (flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) return TMESH_TLS_VERIFY_EXPIRED;
  if (flags & MBEDTLS_X509_BADCERT_CN_MISMATCH) return TMESH_TLS_VERIFY_NAME;
  return TMESH_TLS_VERIFY_OTHER;
}

/* Runs for each certificate of a chain, the peer's own (depth 0) last. */
static int on_verify(void* ctx, mbedtls_x509_crt* cert, int depth, uint32_t* flags) {
  struct tmesh_tls* t = ctx;

  t->is_verified = true;
  if (depth == 0 && t->ip_bytes > 0 && !tmesh_tls_cert_has_ip(cert, t->ip, t->ip_bytes)) {
    *flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
  }
  return 0;
}

/* --- life ------------------------------------------------------------------------ */

static bool set_name(struct tmesh_tls* t, const char* name) {
  memcpy(t->name, name, strlen(name) + 1);
  t->ip_bytes = tmesh_tls_parse_ip(name, t->ip);
  /* NULL: no SNI and no check of the name; on_verify checks the address. */
  return mbedtls_ssl_set_hostname(&t->ssl, t->ip_bytes > 0 ? NULL : name) == 0;
}

/* A session that the library does not take only costs a full handshake. */
static void offer_session(struct tmesh_tls* t) {
  const struct tmesh_tls_config* c = t->config;
  if (c->has_session && strcmp(c->session_name, t->name) == 0) {
    (void)mbedtls_ssl_set_session(&t->ssl, &c->session);
  }
}

struct tmesh_status tmesh_tls_new(struct tmesh_tls_config* config, const char* server_name,
                                  struct tmesh_tls** out) {
  struct tmesh_tls* t;

  *out = NULL;
  TMESH_ASSERT(config->is_server == (server_name == NULL));
  if (server_name != NULL && (server_name[0] == '\0' || strlen(server_name) > TMESH_TLS_NAME_MAX_BYTES)) {
    return tmesh_err_session(TMESH_E_INVALID);
  }
  t = calloc(1, sizeof *t);
  if (t == NULL) return tmesh_err_session(TMESH_E_NO_MEMORY);
  t->config = tmesh_tls_config_ref(config);
  mbedtls_ssl_init(&t->ssl);
  if (mbedtls_ssl_setup(&t->ssl, &config->ssl) != 0 || (server_name != NULL && !set_name(t, server_name))) {
    tmesh_tls_free(t);
    return tmesh_err_session(TMESH_E_NO_MEMORY);
  }
  mbedtls_ssl_set_bio(&t->ssl, t, bio_send, bio_recv, NULL);
  mbedtls_ssl_set_verify(&t->ssl, on_verify, t);
  if (!config->is_server) offer_session(t);
  *out = t;
  return tmesh_ok();
}

void tmesh_tls_free(struct tmesh_tls* t) {
  if (t == NULL) return;
  mbedtls_ssl_free(&t->ssl);
  tmesh_tls_config_unref(t->config);
  free(t);
}

/* --- errors ----------------------------------------------------------------------- */

static enum tmesh_code error_to_code(int rc) {
  switch (rc) {
    case MBEDTLS_ERR_X509_CERT_VERIFY_FAILED:
    case MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE:
      return TMESH_E_TLS_VERIFY;
    case MBEDTLS_ERR_SSL_ALLOC_FAILED:
    case MBEDTLS_ERR_X509_ALLOC_FAILED:
    case MBEDTLS_ERR_PK_ALLOC_FAILED:
      return TMESH_E_NO_MEMORY;
    default:
      return TMESH_E_TLS;
  }
}

static struct tmesh_status fail(struct tmesh_tls* t, int rc) {
  t->failed = tmesh_err_session(error_to_code(rc));
  if (rc == MBEDTLS_ERR_SSL_NO_CLIENT_CERTIFICATE) {
    t->verify_error = TMESH_TLS_VERIFY_MISSING;
  } else if (rc == MBEDTLS_ERR_X509_CERT_VERIFY_FAILED) {
    t->verify_error = flags_to_error(mbedtls_ssl_get_verify_result(&t->ssl));
  }
  return t->failed;
}

static void begin_input(struct tmesh_tls* t, const uint8_t* in, size_t in_bytes) {
  t->in = in;
  t->in_left_bytes = in_bytes;
}

static size_t end_input(struct tmesh_tls* t, size_t in_bytes) {
  const size_t used = in_bytes - t->in_left_bytes;
  t->in = NULL;
  t->in_left_bytes = 0;
  return used;
}

/* --- handshake --------------------------------------------------------------------- */

static void save_session(struct tmesh_tls* t) {
  struct tmesh_tls_config* c = t->config;

  if (c->is_server || !c->is_resumable) return;
  mbedtls_ssl_session_free(&c->session);
  mbedtls_ssl_session_init(&c->session);
  c->has_session = mbedtls_ssl_get_session(&t->ssl, &c->session) == 0;
  memcpy(c->session_name, t->name, sizeof c->session_name);
}

static void forget_session(struct tmesh_tls* t) {
  if (!t->config->is_server && strcmp(t->config->session_name, t->name) == 0) t->config->has_session = false;
}

static void finish_handshake(struct tmesh_tls* t) {
  t->is_done = true;
  if (!t->config->is_server) t->is_resumed = !t->is_verified;
  /* A TLS 1.3 session is of use only with a ticket, which comes later. */
  if (tmesh_tls_negotiated(t) == TMESH_TLS_VERSION_1_2) save_session(t);
}

/* A server sends its TLS 1.3 tickets after the handshake proper; the library would do
 * so in the next write, where an output that is full would be in the way. */
static int step(struct tmesh_tls* t) {
  if (!mbedtls_ssl_is_handshake_over(&t->ssl)) return mbedtls_ssl_handshake_step(&t->ssl);
  return mbedtls_ssl_handshake(&t->ssl);
}

struct tmesh_status tmesh_tls_handshake_step(struct tmesh_tls* t, const uint8_t* in, size_t in_bytes,
                                             size_t* used_bytes) {
  bool was_over;
  int rc;

  *used_bytes = 0;
  if (!tmesh_is_ok(t->failed)) return t->failed;
  if (t->is_done) return tmesh_ok();
  begin_input(t, in, in_bytes);
  t->config->has_ticket_hit = false;
  was_over = mbedtls_ssl_is_handshake_over(&t->ssl);
  rc = step(t);
  *used_bytes = end_input(t, in_bytes);
  if (t->config->has_ticket_hit) t->is_resumed = true;
  switch (rc) {
    case 0:
      if (was_over || (!t->config->is_server && mbedtls_ssl_is_handshake_over(&t->ssl))) finish_handshake(t);
      return tmesh_ok();
    case MBEDTLS_ERR_SSL_WANT_READ:
    case MBEDTLS_ERR_SSL_WANT_WRITE:
      return tmesh_again();
    default:
      forget_session(t);
      return fail(t, rc);
  }
}

bool tmesh_tls_handshake_done(const struct tmesh_tls* t) {
  return t->is_done;
}

/* --- data ---------------------------------------------------------------------------- */

/* Session tickets arrive among the data. The library first only notices one (and asks
 * to be called again as if bytes were missing), then reports it, then goes on; several
 * may share a record. So "want read" is final only when nothing is left to look at, and
 * turns that take no input are counted, in case that never comes true. */
static int read_some(struct tmesh_tls* t, uint8_t* plain, size_t cap_bytes) {
  int rc = MBEDTLS_ERR_SSL_WANT_READ;

  for (unsigned idle_turns = 0; idle_turns < READ_IDLE_TURNS_MAX;) {
    const size_t left_bytes = t->in_left_bytes;
    rc = mbedtls_ssl_read(&t->ssl, plain, cap_bytes);
    if (rc == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
      save_session(t);
    } else if (rc != MBEDTLS_ERR_SSL_WANT_READ) {
      return rc;
    } else if (t->in_left_bytes == 0 && !mbedtls_ssl_check_pending(&t->ssl)) {
      return rc;
    }
    idle_turns = t->in_left_bytes == left_bytes ? idle_turns + 1 : 0;
  }
  return MBEDTLS_ERR_SSL_WANT_READ;
}

struct tmesh_status tmesh_tls_read(struct tmesh_tls* t, const uint8_t* in, size_t in_bytes,
                                   size_t* used_bytes, uint8_t* plain, size_t cap_bytes,
                                   size_t* plain_bytes) {
  bool is_new_record;
  int rc;

  *used_bytes = 0;
  *plain_bytes = 0;
  if (!tmesh_is_ok(t->failed)) return t->failed;
  TMESH_ASSERT(t->is_done && cap_bytes > 0);
  if (t->is_peer_closed) return tmesh_err_session(TMESH_E_CLOSED);
  is_new_record = mbedtls_ssl_get_bytes_avail(&t->ssl) == 0;
  begin_input(t, in, in_bytes);
  rc = read_some(t, plain, cap_bytes);
  *used_bytes = end_input(t, in_bytes);
  if (rc > 0) {
    if (is_new_record) t->in_records++;
    *plain_bytes = (size_t)rc;
    return tmesh_ok();
  }
  switch (rc) {
    case MBEDTLS_ERR_SSL_WANT_READ:
    case MBEDTLS_ERR_SSL_WANT_WRITE:
      return tmesh_again();
    case MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY:
      t->is_peer_closed = true;
      return tmesh_err_session(TMESH_E_CLOSED);
    default:
      return fail(t, rc);
  }
}

struct tmesh_status tmesh_tls_eof(const struct tmesh_tls* t) {
  return tmesh_err_session(t->is_peer_closed ? TMESH_E_CLOSED : TMESH_E_TRUNCATED);
}

bool tmesh_tls_writable(const struct tmesh_tls* t) {
  const size_t pending = t->out_end - t->out_begin;
  return t->is_done && !t->is_closed && tmesh_is_ok(t->failed) &&
         sizeof t->pending - pending >= TMESH_TLS_WRITE_MAX_BYTES + ALERT_ROOM_BYTES;
}

struct tmesh_status tmesh_tls_write(struct tmesh_tls* t, const uint8_t* plain, size_t plain_bytes) {
  int rc;

  if (!tmesh_is_ok(t->failed)) return t->failed;
  TMESH_ASSERT(t->is_done && plain_bytes > 0 && plain_bytes <= TMESH_TLS_PLAIN_MAX_BYTES);
  if (t->is_closed) return tmesh_err_session(TMESH_E_CLOSED);
  if (!tmesh_tls_writable(t)) return tmesh_again();
  while (plain_bytes > 0) {
    rc = mbedtls_ssl_write(&t->ssl, plain, plain_bytes);
    /* There is room for all records of a write, so the library never waits for some. */
    if (rc <= 0) return fail(t, rc);
    t->out_records++;
    plain += rc;
    plain_bytes -= (size_t)rc;
  }
  return tmesh_ok();
}

void tmesh_tls_close(struct tmesh_tls* t) {
  if (!t->is_done || t->is_closed || !tmesh_is_ok(t->failed)) return;
  t->is_closed = true;
  (void)mbedtls_ssl_close_notify(&t->ssl); /* ALERT_ROOM_BYTES is kept for it */
}

void tmesh_tls_pending(const struct tmesh_tls* t, const uint8_t** data, size_t* len_bytes) {
  *data = t->pending + t->out_begin;
  *len_bytes = t->out_end - t->out_begin;
}

void tmesh_tls_sent(struct tmesh_tls* t, size_t n) {
  TMESH_ASSERT(n <= t->out_end - t->out_begin);
  t->out_begin += n;
  if (t->out_begin == t->out_end) {
    t->out_begin = 0;
    t->out_end = 0;
  }
}

/* --- facts ---------------------------------------------------------------------------- */

enum tmesh_tls_version tmesh_tls_negotiated(const struct tmesh_tls* t) {
  switch (mbedtls_ssl_get_version_number(&t->ssl)) {
    case MBEDTLS_SSL_VERSION_TLS1_2:
      return TMESH_TLS_VERSION_1_2;
    case MBEDTLS_SSL_VERSION_TLS1_3:
      return TMESH_TLS_VERSION_1_3;
    default:
      return TMESH_TLS_VERSION_NONE;
  }
}

bool tmesh_tls_resumed(const struct tmesh_tls* t) {
  return t->is_resumed;
}

uint64_t tmesh_tls_records(const struct tmesh_tls* t) {
  return t->in_records > t->out_records ? t->in_records : t->out_records;
}

enum tmesh_tls_verify_error tmesh_tls_verify_result(const struct tmesh_tls* t) {
  return t->verify_error;
}

bool tmesh_tls_peer_has_san(const struct tmesh_tls* t, const char* name) {
  const mbedtls_x509_crt* cert = t->is_done ? mbedtls_ssl_get_peer_cert(&t->ssl) : NULL;
  return cert != NULL && tmesh_tls_cert_has_san(cert, name);
}
