/* The TLS side of a transport: handshake steps, records in and out. */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/loop/transport_internal.h"
#include "core/wire/tls.h"

/* A flight of a handshake with a usual chain; a longer one is taken in several reads. */
#define HANDSHAKE_STASH_BYTES 8192u
/* One record whole, so that nothing decrypted ever waits inside the TLS layer. */
#define PLAIN_BUFFER_BYTES 16384u

static void on_step(struct tmesh_flush* flush);

struct tmesh_status tmesh_transport_tls_open(struct tmesh_transport* t, struct tmesh_tls_config* config,
                                             const char* server_name) {
  tmesh_flush_init(&t->step, on_step);
  if (config == NULL) return tmesh_ok();
  if (t->loop->plain_buffer == NULL) t->loop->plain_buffer = malloc(PLAIN_BUFFER_BYTES);
  t->stash = malloc(HANDSHAKE_STASH_BYTES);
  if (t->loop->plain_buffer == NULL || t->stash == NULL) {
    free(t->stash);
    t->stash = NULL;
    return tmesh_err_session(TMESH_E_NO_MEMORY);
  }
  const struct tmesh_status st = tmesh_tls_new(config, server_name, &t->tls);
  if (!tmesh_is_ok(st)) {
    free(t->stash);
    t->stash = NULL;
  }
  return st;
}

void tmesh_transport_tls_close(struct tmesh_transport* t) {
  free(t->stash);
  t->stash = NULL;
  tmesh_tls_free(t->tls);
  t->tls = NULL;
}

static size_t stash_len(const struct tmesh_transport* t) {
  return t->stash_end_bytes - t->stash_begin_bytes;
}

static void stash_used(struct tmesh_transport* t, size_t n) {
  t->stash_begin_bytes += n;
  if (t->stash_begin_bytes == t->stash_end_bytes) t->stash_begin_bytes = t->stash_end_bytes = 0;
}

/* --- handshake ------------------------------------------------------------------- */

uv_buf_t tmesh_transport_tls_room(struct tmesh_transport* t) {
  return uv_buf_init((char*)t->stash + t->stash_end_bytes,
                     (unsigned)(HANDSHAKE_STASH_BYTES - t->stash_end_bytes));
}

bool tmesh_transport_tls_wants_data(const struct tmesh_transport* t) {
  return t->is_ready ? t->stash == NULL : t->stash_end_bytes < HANDSHAKE_STASH_BYTES;
}

void tmesh_transport_tls_handshake_data(struct tmesh_transport* t, size_t n) {
  t->stash_end_bytes += n;
  tmesh_loop_after_poll_request(t->loop, &t->step);
}

static void handshake_done(struct tmesh_transport* t) {
  t->is_ready = true;
  if (stash_len(t) == 0) {
    free(t->stash);
    t->stash = NULL;
  }
  tmesh_loop_flush_request(t->loop, &t->flush);
}

/* At most one step per iteration; a step waits until its output went. */
static void on_step(struct tmesh_flush* flush) {
  struct tmesh_transport* t = TMESH_CONTAINER(flush, struct tmesh_transport, step);
  size_t used;

  if (!tmesh_transport_is_usable(t) || t->is_ready || t->is_writing) return;
  if (t->loop->handshake_us_left == 0) {
    tmesh_loop_after_poll_request(t->loop, &t->step);
    return;
  }
  const uint64_t sent_before_bytes = t->stats.bytes_out;
  const uint64_t begin_us = uv_hrtime() / 1000;
  const struct tmesh_status st =
      tmesh_tls_handshake_step(t->tls, t->stash + t->stash_begin_bytes, stash_len(t), &used);
  const uint64_t spent_us = uv_hrtime() / 1000 - begin_us;
  t->loop->handshake_us_left -= spent_us < t->loop->handshake_us_left ? spent_us : t->loop->handshake_us_left;
  stash_used(t, used);
  tmesh_transport_pump(t); /* also the alert of a failure */
  if (!tmesh_transport_is_usable(t)) return;
  if (st.scope != TMESH_SCOPE_NONE) {
    tmesh_transport_fail(t, st.code);
  } else if (tmesh_tls_handshake_done(t->tls)) {
    handshake_done(t);
  } else if (!tmesh_is_ok(st) && stash_len(t) > 0 && used == 0 && !t->is_writing &&
             t->stats.bytes_out == sent_before_bytes) {
    tmesh_transport_fail(t, TMESH_E_TLS); /* it neither takes nor sends: it would never go on */
  } else if (tmesh_is_ok(st) || stash_len(t) > 0) {
    tmesh_loop_after_poll_request(t->loop, &t->step);
  } else if (t->is_eof) {
    tmesh_transport_fail(t, TMESH_E_CLOSED);
  }
  tmesh_transport_update_reading(t);
}

/* --- reading --------------------------------------------------------------------- */

static bool may_deliver(const struct tmesh_transport* t) {
  return t->wants_reading && !t->closing.is_begun && !t->is_end_delivered && tmesh_transport_is_usable(t);
}

/* Decrypts and delivers until the bytes are used up or the reader does not want more;
 * returns how many were used. */
static size_t decrypt(struct tmesh_transport* t, const uint8_t* data, size_t n) {
  uint8_t* plain = t->loop->plain_buffer;
  size_t used_bytes = 0;

  while (may_deliver(t)) {
    size_t used, len;
    const struct tmesh_status st =
        tmesh_tls_read(t->tls, data + used_bytes, n - used_bytes, &used, plain, PLAIN_BUFFER_BYTES, &len);
    used_bytes += used;
    if (tmesh_is_ok(st)) {
      t->events->on_data(t->ctx, plain, len);
    } else if (st.code == TMESH_E_AGAIN) {
      if (used_bytes == n) break;
      /* The TLS layer itself has to answer something first. */
      tmesh_transport_pump(t);
      if (t->is_writing) break;
      if (used == 0) tmesh_transport_fail(t, TMESH_E_TLS);
    } else if (st.code == TMESH_E_CLOSED) {
      tmesh_transport_end(t);
    } else {
      tmesh_transport_pump(t); /* the alert */
      tmesh_transport_fail(t, st.code);
    }
  }
  return used_bytes;
}

static void put_aside(struct tmesh_transport* t, const uint8_t* data, size_t n) {
  t->stash = malloc(n);
  if (t->stash == NULL) {
    tmesh_transport_fail(t, TMESH_E_NO_MEMORY);
    return;
  }
  memcpy(t->stash, data, n);
  t->stash_begin_bytes = 0;
  t->stash_end_bytes = n;
}

void tmesh_transport_tls_data(struct tmesh_transport* t, const uint8_t* data, size_t n) {
  TMESH_ASSERT(t->stash == NULL);
  const size_t used = decrypt(t, data, n);
  if (used < n && !t->closing.is_begun && !t->is_end_delivered && tmesh_transport_is_usable(t)) {
    put_aside(t, data + used, n - used);
  }
}

static void deliver_eof(struct tmesh_transport* t) {
  if (t->is_end_delivered) return;
  /* Without close_notify somebody may have cut the stream. */
  if (tmesh_tls_eof(t->tls).code == TMESH_E_CLOSED) {
    tmesh_transport_end(t);
  } else {
    tmesh_transport_fail(t, TMESH_E_CLOSED);
  }
}

void tmesh_transport_tls_eof(struct tmesh_transport* t) {
  if (stash_len(t) > 0) return; /* on_step or resume comes to it */
  if (t->is_ready) {
    deliver_eof(t);
  } else {
    tmesh_transport_fail(t, TMESH_E_CLOSED);
  }
}

void tmesh_transport_tls_resume(struct tmesh_transport* t) {
  if (t->stash == NULL) {
    if (t->is_eof) deliver_eof(t); /* it came behind the last bytes of the handshake */
    return;
  }
  if (!may_deliver(t)) return;
  stash_used(t, decrypt(t, t->stash + t->stash_begin_bytes, stash_len(t)));
  if (stash_len(t) > 0 && !t->is_end_delivered) return;
  free(t->stash);
  t->stash = NULL;
  t->stash_begin_bytes = t->stash_end_bytes = 0;
  if (t->is_eof && !t->closing.is_begun) deliver_eof(t);
}

/* --- writing --------------------------------------------------------------------- */

/* Encrypts up to two records at a time and sends them in one go. New records only
 * follow when the last ones went: the waiting write points into the TLS layer's
 * output, which moves only when that fills up. */
bool tmesh_transport_tls_pump(struct tmesh_transport* t) {
  while (!t->is_writing) {
    const uint8_t* cipher;
    size_t len;

    while (t->out_done_bytes < t->out_len_bytes && tmesh_tls_writable(t->tls)) {
      size_t piece = t->out_len_bytes - t->out_done_bytes;
      if (piece > TMESH_TLS_PLAIN_MAX_BYTES) piece = TMESH_TLS_PLAIN_MAX_BYTES;
      const struct tmesh_status st = tmesh_tls_write(t->tls, t->out + t->out_done_bytes, piece);
      if (!tmesh_is_ok(st)) {
        tmesh_transport_fail(t, st.code);
        return false;
      }
      t->out_done_bytes += piece;
    }
    tmesh_tls_pending(t->tls, &cipher, &len);
    if (len == 0) {
      if (t->out_done_bytes == t->out_len_bytes) return true;
      tmesh_transport_fail(t, TMESH_E_TLS); /* nothing to send, yet no record is taken */
      return false;
    }
    const ptrdiff_t n = tmesh_transport_send(t, cipher, len, true);
    if (n < 0) return false;
    tmesh_tls_sent(t->tls, (size_t)n);
  }
  return false;
}

void tmesh_transport_tls_sent(struct tmesh_transport* t, size_t n) {
  tmesh_tls_sent(t->tls, n);
  if (!t->is_ready) tmesh_loop_after_poll_request(t->loop, &t->step);
  if (t->stash != NULL) tmesh_loop_flush_request(t->loop, &t->flush);
}

void tmesh_transport_tls_notify(struct tmesh_transport* t) {
  tmesh_tls_close(t->tls);
}
