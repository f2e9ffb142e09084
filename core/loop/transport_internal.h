/* What transport.c and transport_tls.c share. Internal to core/loop. */
#ifndef TMESH_LOOP_TRANSPORT_INTERNAL_H
#define TMESH_LOOP_TRANSPORT_INTERNAL_H

#include "core/loop/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

static inline bool tmesh_transport_is_usable(const struct tmesh_transport* t) {
  return tmesh_is_ok(t->failed) && !t->is_handle_closed;
}

/* Reading and writing are over: on_ready or on_error follows in the next flush, or the end of a close. */
void tmesh_transport_fail(struct tmesh_transport* t, enum tmesh_code code);
/* The peer ended regularly. */
void tmesh_transport_end(struct tmesh_transport* t);
/* Sends what waits as far as the kernel takes it. */
void tmesh_transport_pump(struct tmesh_transport* t);
/* Up to n bytes to the kernel now: how many went, or -1 after a failure. Without a
 * wait the rest is the caller's; with it, one uv_write waits and the bytes must stay. */
ptrdiff_t tmesh_transport_send(struct tmesh_transport* t, const uint8_t* data, size_t n, bool waits);
void tmesh_transport_update_reading(struct tmesh_transport* t);

/* transport_tls.c */
struct tmesh_status tmesh_transport_tls_open(struct tmesh_transport* t, struct tmesh_tls_config* config,
                                             const char* server_name);
void tmesh_transport_tls_close(struct tmesh_transport* t);
/* Room for ciphertext of a handshake. */
uv_buf_t tmesh_transport_tls_room(struct tmesh_transport* t);
/* n bytes came during the handshake, into that room / ciphertext of data came. */
void tmesh_transport_tls_handshake_data(struct tmesh_transport* t, size_t n);
void tmesh_transport_tls_data(struct tmesh_transport* t, const uint8_t* data, size_t n);
void tmesh_transport_tls_eof(struct tmesh_transport* t);
/* Whether more ciphertext can be taken from the socket. */
bool tmesh_transport_tls_wants_data(const struct tmesh_transport* t);
/* Decrypts what was put aside, and delivers the end that waited behind it. */
void tmesh_transport_tls_resume(struct tmesh_transport* t);
/* Encrypts and sends; returns whether everything given so far went. */
bool tmesh_transport_tls_pump(struct tmesh_transport* t);
void tmesh_transport_tls_sent(struct tmesh_transport* t, size_t n);
void tmesh_transport_tls_notify(struct tmesh_transport* t);

#ifdef __cplusplus
}
#endif

#endif
