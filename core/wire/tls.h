/* TLS 1.2 and 1.3 for one connection, over memory.
 *
 * Sans-I/O: ciphertext comes in as spans, ciphertext to send waits in a bounded buffer
 * of the connection. The library behind it (mbedTLS 3.6) shows in no type here, so a
 * second one can be added.
 *
 * Configurations are made once per role and shared by reference; the certificates of
 * a running server are exchanged by making a new configuration, old connections keep
 * theirs. Making one parses PEM and may read the system's CA bundle (blocking, some
 * milliseconds); making a connection allocates about 70 KiB; reading and writing
 * records allocates nothing after the handshake. The loop thread owns every object.
 * Certificate dates are judged by the system's clock; nothing else here reads time.
 *
 * Peers are always authenticated by clients: chain, dates, and the name or address.
 * Both roles prefer ChaCha20-Poly1305, then AES-GCM; there is no other cipher. The
 * last session of a client configuration is kept and offered by its next connection
 * to the same name, so that a reconnect storm costs no certificate checks. With a
 * client certificate in play (see below) nothing is resumed: the peer's certificate
 * must be there to look at after each handshake.
 *
 * Known limit: a server that speaks TLS 1.2 only, has an RSA key and insists on its own
 * order of signature algorithms may sign with RSA-PSS, which the library verifies in
 * TLS 1.3 only. A client with max_version 1.2 does not offer it and connects.
 */
#ifndef TMESH_WIRE_TLS_H
#define TMESH_WIRE_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Plaintext of one record; TLS 1.3 spends one of the 16,384 on the content type. */
#define TMESH_TLS_PLAIN_MAX_BYTES 16383u
/* What one write adds to the output at most. A record is 5 bytes of header and up to
 * 25 of cipher overhead longer than its text; a peer that negotiated the smallest
 * max_fragment_length of RFC 6066, 512, makes 32 records of one write. */
#define TMESH_TLS_WRITE_MAX_BYTES (16384u + 32u * 32u)
/* Two writes of output: one being sent, one being filled; and room for alerts, so that
 * close_notify always fits. */
#define TMESH_TLS_PENDING_MAX_BYTES (2u * TMESH_TLS_WRITE_MAX_BYTES + 256u)
/* Keys are not updated within a connection, so a link is replaced after this many
 * records in one direction: a third of what AES-GCM allows (RFC 8446 section 5.5). */
#define TMESH_TLS_RECORDS_MAX (UINT64_C(1) << 23)
/* Names longer than a DNS name cannot be checked. */
#define TMESH_TLS_NAME_MAX_BYTES 255u
/* A generous bundle: the system's is about 220 KiB. */
#define TMESH_TLS_PEM_MAX_BYTES (4u << 20)

enum tmesh_tls_version {
  TMESH_TLS_VERSION_NONE = 0,
  TMESH_TLS_VERSION_1_2 = 0x0303,
  TMESH_TLS_VERSION_1_3 = 0x0304,
};

/* --- configuration ------------------------------------------------------------ */

struct tmesh_tls_config; /* reference counted */

/* PEM text, with or without a terminating NUL; data NULL: not given. */
struct tmesh_tls_pem {
  const void* data;
  size_t len_bytes;
};

struct tmesh_tls_options {
  enum tmesh_tls_version min_version; /* NONE means 1.2 */
  enum tmesh_tls_version max_version; /* NONE means 1.3 */
  /* The own certificate, intermediates after it, and its unencrypted key. A server
   * needs them; a client that has them presents them when asked. */
  struct tmesh_tls_pem cert;
  struct tmesh_tls_pem key;
  /* Whom to trust. Client: without it the system's bundle. Server: with it client
   * certificates are required and verified against it, without it none are asked for. */
  struct tmesh_tls_pem ca;
};

/* What a configuration failed on, so that a message can name the option. */
enum tmesh_tls_config_error {
  TMESH_TLS_CONFIG_OK = 0,
  TMESH_TLS_CONFIG_CERT,      /* missing or not a certificate */
  TMESH_TLS_CONFIG_KEY,       /* missing, not a key, or encrypted */
  TMESH_TLS_CONFIG_KEY_PAIR,  /* the key is not the certificate's */
  TMESH_TLS_CONFIG_CA,        /* holds no certificate */
  TMESH_TLS_CONFIG_SYSTEM_CA, /* no system bundle in any of the usual places */
  TMESH_TLS_CONFIG_LIBRARY,   /* memory or random numbers */
};

/* Makes a configuration with one reference, the caller's. The options are copied.
 * OK; TMESH_E_INVALID, TMESH_E_NO_MEMORY or TMESH_E_IO (session), then *error says on
 * what and *out is NULL. */
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_config_new_server(const struct tmesh_tls_options* options,
                                                                 struct tmesh_tls_config** out,
                                                                 enum tmesh_tls_config_error* error);
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_config_new_client(const struct tmesh_tls_options* options,
                                                                 struct tmesh_tls_config** out,
                                                                 enum tmesh_tls_config_error* error);
struct tmesh_tls_config* tmesh_tls_config_ref(struct tmesh_tls_config* config); /* returns config */
void tmesh_tls_config_unref(struct tmesh_tls_config* config);                   /* NULL is fine */

/* --- connection ---------------------------------------------------------------- */

struct tmesh_tls;

/* A connection that holds a reference to its configuration. A client names its peer: a
 * DNS name (sent as SNI and checked against the certificate) or an IP literal without
 * brackets (not sent, as RFC 6066 section 3 wants; it must be among the certificate's
 * IP addresses). A server passes NULL.
 * OK; TMESH_E_INVALID (session) for a name that is empty or too long;
 * TMESH_E_NO_MEMORY (session). */
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_new(struct tmesh_tls_config* config, const char* server_name,
                                                   struct tmesh_tls** out);
void tmesh_tls_free(struct tmesh_tls* t); /* NULL is fine; sends nothing */

/* Does one step of the handshake, so that the caller can bound the time spent (the
 * costliest is a few milliseconds), with ciphertext from `in`; *used_bytes says how
 * much was taken.
 * OK    progress was made: if tmesh_tls_handshake_done, it is over, else call again.
 * AGAIN a client's or server's turn: send what is pending; when all of `in` was taken
 *       more is needed, else only room in the output.
 * TMESH_E_TLS, TMESH_E_TLS_VERIFY, TMESH_E_NO_MEMORY (session)
 *       it failed; an alert may be pending and should be sent before the close.
 * After success, start reading with what is left of `in`: it may hold application data. */
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_handshake_step(struct tmesh_tls* t, const uint8_t* in,
                                                              size_t in_bytes, size_t* used_bytes);
bool tmesh_tls_handshake_done(const struct tmesh_tls* t);

/* Decrypts into plain[0..cap_bytes), cap_bytes > 0, at most one record per call.
 * OK    *plain_bytes > 0; call again with the rest of `in`, also when that is empty:
 *       a record may hold more than cap_bytes.
 * AGAIN *plain_bytes is 0. All of `in` was taken and more is needed, or (rare, an
 *       answer of the TLS layer itself) the output must be sent first.
 * TMESH_E_CLOSED (session)  the peer said close_notify: the stream is complete.
 * TMESH_E_TLS, TMESH_E_NO_MEMORY (session)  a record is forged or malformed, or the
 *       peer sent a fatal alert or asked for a key update.
 * Must not be called before the handshake is done (asserted). */
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_read(struct tmesh_tls* t, const uint8_t* in, size_t in_bytes,
                                                    size_t* used_bytes, uint8_t* plain, size_t cap_bytes,
                                                    size_t* plain_bytes);

/* The socket reported end of file: TMESH_E_CLOSED (session) if close_notify came
 * before it, else TMESH_E_TRUNCATED (session): somebody may have cut the stream. */
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_eof(const struct tmesh_tls* t);

/* Encrypts 1 to TMESH_TLS_PLAIN_MAX_BYTES bytes into the output, one record as a rule, all
 * of them or nothing. The text is not referred to afterwards.
 * OK    all plain_bytes were taken.
 * AGAIN nothing was: send what is pending first.
 * TMESH_E_TLS, TMESH_E_NO_MEMORY (session)
 * TMESH_E_CLOSED (session)  after tmesh_tls_close.
 * Must not be called before the handshake is done (asserted). */
TMESH_MUST_CHECK struct tmesh_status tmesh_tls_write(struct tmesh_tls* t, const uint8_t* plain,
                                                     size_t plain_bytes);
/* Whether tmesh_tls_write would take a record now. */
bool tmesh_tls_writable(const struct tmesh_tls* t);

/* Queues close_notify once; before the handshake is done and after a failure it does
 * nothing. Reading stays possible. */
void tmesh_tls_close(struct tmesh_tls* t);

/* Ciphertext to send: *data stays valid until the next call that takes a non-const
 * connection. tmesh_tls_sent says that its first n bytes left (n <= pending, asserted). */
void tmesh_tls_pending(const struct tmesh_tls* t, const uint8_t** data, size_t* len_bytes);
void tmesh_tls_sent(struct tmesh_tls* t, size_t n);

/* Facts after the handshake. */
enum tmesh_tls_version tmesh_tls_negotiated(const struct tmesh_tls* t);
/* Client: no certificate was checked. Server: a good ticket came. */
bool tmesh_tls_resumed(const struct tmesh_tls* t);
/* Application records of the busier direction, to compare with TMESH_TLS_RECORDS_MAX. */
uint64_t tmesh_tls_records(const struct tmesh_tls* t);

/* Why a certificate was refused, after TMESH_E_TLS_VERIFY on our side. */
enum tmesh_tls_verify_error {
  TMESH_TLS_VERIFY_OK = 0,
  TMESH_TLS_VERIFY_MISSING,   /* the peer sent none */
  TMESH_TLS_VERIFY_UNTRUSTED, /* no chain to a trusted CA */
  TMESH_TLS_VERIFY_EXPIRED,   /* or not yet valid: check the clock too */
  TMESH_TLS_VERIFY_NAME,      /* not the name or address that was asked for */
  TMESH_TLS_VERIFY_OTHER,     /* weak key or hash, wrong usage, revoked */
};
enum tmesh_tls_verify_error tmesh_tls_verify_result(const struct tmesh_tls* t);

/* Whether the peer's certificate has a subject alternative name that is exactly `name`:
 * a DNS name (ASCII case ignored, no wildcard), an IP address or a URI. False without
 * a certificate, as after a resumed handshake. For servers that name each other. */
bool tmesh_tls_peer_has_san(const struct tmesh_tls* t, const char* name);

#ifdef __cplusplus
}
#endif

#endif
