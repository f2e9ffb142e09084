/* A byte stream over TCP, optionally inside TLS: what an HTTP exchange and then a
 * link run on.
 *
 * Made from a connected socket (dial.h, listener.h). Reading delivers plaintext in
 * the loop's shared buffer; the callee takes all of it before it returns. Writing is
 * one buffer at a time: the caller keeps the buffer until on_written (or on_closed).
 * All callbacks come from the loop, none from inside a call. Two-phase close: after
 * tmesh_transport_close() nothing is called but on_closed, and then the memory may go.
 *
 * The owner bounds the time of the handshake (its deadline covers the HTTP exchange
 * too); handshakes are done one step per connection and iteration, and 5 ms per
 * iteration together. Memory: a plain connection allocates nothing, TLS about 70 KiB.
 */
#ifndef TMESH_LOOP_TRANSPORT_H
#define TMESH_LOOP_TRANSPORT_H

#include "core/loop/alarm.h"
#include "core/loop/closing.h"
#include "core/loop/loop.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A graceful close waits this long for the peer to take the rest and to end its side. */
#define TMESH_TRANSPORT_GRACE_US UINT64_C(1000000)

struct tmesh_tls_config;
struct tmesh_tls;

struct tmesh_transport_events {
  /* Once: TLS handshake finished (plain: next flush after open). Not OK: TLS,
   * TLS_VERIFY, CLOSED, IO, NO_MEMORY; then nothing but close is useful. */
  void (*on_ready)(void* ctx, struct tmesh_status st);
  /* data is mutable (the WebSocket codec unmasks in place). */
  void (*on_data)(void* ctx, uint8_t* data, size_t len_bytes);
  /* The peer ended regularly (FIN; close_notify under TLS); writing goes on. A FIN
   * without close_notify is on_error(CLOSED). */
  void (*on_eof)(void* ctx);
  void (*on_written)(void* ctx);
  /* CLOSED, IO, TLS, TIMEOUT ... (session scope), once, after on_ready(OK). Reading and
   * writing are over; a write that was pending gets no on_written. */
  void (*on_error)(void* ctx, struct tmesh_status st);
  void (*on_closed)(void* ctx);
};

struct tmesh_transport_stats {
  uint64_t bytes_in, bytes_out; /* on the wire */
  uint64_t last_read_us;        /* any byte counts as life; loop time; that of open before the first */
};

struct tmesh_transport {
  struct tmesh_loop* loop;
  const struct tmesh_transport_events* events;
  void* ctx;
  struct tmesh_transport_stats stats;
  struct tmesh_tls* tls; /* owned; NULL = plain. Facts of it may be asked for (tls.h) */
  uv_tcp_t tcp;
  uv_write_t write_req;
  uv_shutdown_t shutdown_req;
  struct tmesh_flush flush;
  struct tmesh_flush step; /* TLS handshake, after each poll */
  struct tmesh_alarm grace;
  struct tmesh_closing closing;
  struct tmesh_burst burst;
  struct tmesh_status failed; /* sticky; OK while usable */

  /* inbound */
  uint8_t* stash; /* TLS: ciphertext that cannot be decrypted yet; NULL = none */
  size_t stash_begin_bytes, stash_end_bytes;
  bool is_reading, wants_reading, is_eof /* FIN arrived */, is_end_delivered;
  bool is_resting; /* tmesh_transport_rest */

  /* outbound */
  const uint8_t* out;                   /* caller's buffer being written */
  size_t out_len_bytes, out_done_bytes; /* under TLS done means encrypted */
  size_t writing_bytes;                 /* given to uv_write */
  bool is_write_pending, is_writing, is_kernel_full, is_notify_queued, is_shutting_down, is_finished;
  bool is_finishing; /* tmesh_transport_finish */

  bool is_ready, is_ready_delivered, owes_written, owes_error, is_handle_closed;
};

/* Takes fd over (closes it even on failure). tls_config NULL = plain (referenced
 * otherwise); is_server chooses the TLS side; server_name (client) = SNI and verified
 * name. Starts the handshake at once; reading starts with tmesh_transport_read(true).
 * Sets TCP_NODELAY. Session scope: IO when fd is no open descriptor, NO_MEMORY,
 * INVALID (server_name), and then the struct needs no close; other failures arrive
 * through on_ready. */
TMESH_MUST_CHECK struct tmesh_status tmesh_transport_open(struct tmesh_transport* t, struct tmesh_loop* loop,
                                                          int fd, struct tmesh_tls_config* tls_config,
                                                          bool is_server, const char* server_name,
                                                          const struct tmesh_transport_events* events,
                                                          void* ctx);
/* Hands the transport to another owner (HTTP exchange -> link): what happens later is
 * reported to it. Inside on_data, stop reading first if bytes of this call are passed on
 * by another way, so that no later ones overtake them. */
void tmesh_transport_rebind(struct tmesh_transport* t, const struct tmesh_transport_events* events,
                            void* ctx);
void tmesh_transport_read(struct tmesh_transport* t, bool on);
/* Takes nothing more from the socket until tmesh_transport_read(true). Unlike read(false),
 * what was taken already is still delivered, so that nothing has to be put aside. */
void tmesh_transport_rest(struct tmesh_transport* t);
/* Starts writing; OK = took it and on_written will come, in a later flush, when the
 * kernel has all of it. len 0 is allowed: on_written when what was pushed went. Session
 * scope: STATE if a write is pending, the handshake is not done or close was called;
 * the status of the failure after one (on_error follows or came). */
TMESH_MUST_CHECK struct tmesh_status tmesh_transport_write(struct tmesh_transport* t, const void* data,
                                                           size_t len_bytes);
/* Tries to hand len bytes to the kernel now. *done = true: everything went, the
 * buffer is free, no on_written follows. Otherwise as tmesh_transport_write. */
TMESH_MUST_CHECK struct tmesh_status tmesh_transport_try_write(struct tmesh_transport* t, const void* data,
                                                               size_t len_bytes, bool* done);
/* Hands over what goes now and keeps no pointer: *taken_bytes of the buffer are done with,
 * *is_flushed = the kernel has all of those. Unless everything was taken and flushed, go
 * on with tmesh_transport_write() of the rest, if only of 0 bytes. */
TMESH_MUST_CHECK struct tmesh_status tmesh_transport_push(struct tmesh_transport* t, const void* data,
                                                          size_t len_bytes, size_t* taken_bytes,
                                                          bool* is_flushed);
/* Half-close: close_notify (TLS) and FIN; reading goes on. on_written comes when they went,
 * and nothing may be written afterwards. A peer that speaks TLS 1.2 takes close_notify for
 * the end of both directions (RFC 5246 section 7.2.1); since TLS 1.3 it ends one (RFC 8446
 * section 6.1). The statuses of tmesh_transport_write(). */
TMESH_MUST_CHECK struct tmesh_status tmesh_transport_finish(struct tmesh_transport* t);
/* Small unsent backlog in the kernel (TCP_NOTSENT_LOWAT), for links. */
void tmesh_transport_set_lowat(struct tmesh_transport* t, unsigned bytes);
/* Until the next write, what comes is acknowledged at once and not after the kernel's 40 ms: a
 * peer that writes its answer in two pieces and leaves Nagle's algorithm on sends the second
 * one only then. Nothing where the system has no such option. */
void tmesh_transport_ack_at_once(struct tmesh_transport* t);
/* Closes; is_graceful ends with close_notify and FIN after the pending write and then
 * waits for the peer's end, all bounded by TMESH_TRANSPORT_GRACE_US; otherwise at once.
 * Idempotent; an abrupt close overtakes a graceful one. */
void tmesh_transport_close(struct tmesh_transport* t, bool is_graceful);
/* Peer address as text without port ("192.0.2.1"), for limits per address. */
bool tmesh_transport_peer(const struct tmesh_transport* t, char* out, size_t cap_bytes);

#ifdef __cplusplus
}
#endif

#endif
