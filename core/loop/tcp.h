/* A plain TCP socket as one end of a splice: a client's entry or an agent's target.
 *
 * Reads straight into pool blocks (`in`), writes from `out`, knows half-close.
 * Reading pauses while `in` holds bytes the splice could not move (TCP then pushes
 * back) and resumes when they moved; when the pool has no block for it (memory.h) it rests
 * until there is one. A paused socket is deaf, and so is one whose peer half-closed: both are looked at
 * with TCP_INFO every 5 s. When a write fails because the peer reset the connection,
 * what the peer sent before is still read and only then the socket is broken: an early
 * answer survives (LESSONS P-B8). An idle socket holds no block. Two-phase close.
 */
#ifndef TMESH_LOOP_TCP_H
#define TMESH_LOOP_TCP_H

#include "core/loop/alarm.h"
#include "core/loop/closing.h"
#include "core/loop/loop.h"
#include "core/mux/splice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a splice may queue in `out` beyond what the kernel took: half a default window,
 * so that the next bytes are there when the socket becomes writable and the credit for
 * the rest stays with the sender. */
#define TMESH_TCP_OUT_MAX_BYTES 131072u
/* Given to the kernel as one waiting write. It stays at the head of `out` until it is
 * written, so a smaller piece returns credit sooner. */
#define TMESH_TCP_WRITE_MAX_BYTES 65536u
/* A graceful close waits this long for the peer to take the rest and to end its side. */
#define TMESH_TCP_GRACE_US UINT64_C(5000000)
/* A peer that vanished without a word while nothing is sent is found by the kernel. */
#define TMESH_TCP_KEEPALIVE_S 60

struct tmesh_tcp_events {
  /* Bytes arrived in tcp->in / the peer finished / n bytes of out were written (with
   * all_written: `out` is empty and, if finish was called, so is the FIN) / it broke
   * (IO, RESET, TIMEOUT ...; once; nothing more is read or written, but what waits in
   * `in` may still be taken). All from the loop, none from inside a call, none after
   * close. */
  void (*on_readable)(void* ctx);
  void (*on_eof)(void* ctx);
  void (*on_written)(void* ctx, size_t n, bool all_written);
  void (*on_broken)(void* ctx, struct tmesh_status why);
  void (*on_closed)(void* ctx); /* last: the memory may go */
};

struct tmesh_tcp {
  struct tmesh_loop* loop;
  const struct tmesh_tcp_events* events;
  void* ctx;
  uv_tcp_t tcp;
  uv_write_t write_req;
  struct tmesh_flush flush;
  struct tmesh_alarm alarm;     /* graceful close, pool refusal or pause, in this order */
  struct tmesh_list in_starved; /* tmesh_loop.memory.starved */
  struct tmesh_list in_writers; /* tmesh_loop.memory.writers: while is_writing */
  struct tmesh_closing closing;
  struct tmesh_burst burst;

  /* inbound */
  struct tmesh_chunkq in;
  size_t in_max_bytes;      /* `in` never holds more */
  uint64_t paused_since_us; /* 0 = not paused */
  uint64_t half_closed_us;  /* when a paused socket's peer was first seen to have ended; 0 = not */
  bool wants_reading, is_reading, is_starved, is_eof;

  /* outbound */
  struct tmesh_chunkq out;
  size_t writing_bytes;      /* at the head of `out`, given to uv_write */
  uint64_t waiting_since_us; /* when that began */
  bool is_writing, is_finishing, is_shutting_down, is_finished;
  int write_error; /* libuv's; not 0: nothing can be written, what the peer had sent is still read */

  struct tmesh_status broken;
  bool owes_broken, is_handle_closed;
};

/* Sets TCP_NODELAY and keep-alive. False when fd is no open descriptor. */
bool tmesh_tcp_prepare(int fd);
/* Takes fd over (closes it even on failure) and prepares it. Reading starts with
 * tmesh_tcp_read(). IO (stream scope) when fd is no open descriptor, and then the struct
 * needs no close; other failures arrive as on_broken. */
TMESH_MUST_CHECK struct tmesh_status tmesh_tcp_open(struct tmesh_tcp* t, struct tmesh_loop* loop, int fd,
                                                    const struct tmesh_tcp_events* events, void* ctx);
/* The same for one that is prepared, as what a prepared listening socket accepts is: the
 * kernel hands the options down, which saves five system calls per connection. */
void tmesh_tcp_open_prepared(struct tmesh_tcp* t, struct tmesh_loop* loop, int fd,
                             const struct tmesh_tcp_events* events, void* ctx);
/* Hands the socket to another owner: bytes that wait in `in`, and t->is_eof, are the
 * new owner's to look at; what happens later is reported to it. */
void tmesh_tcp_rebind(struct tmesh_tcp* t, const struct tmesh_tcp_events* events, void* ctx);
/* Reads until in_max_bytes (> 0) wait in `in`; one block is a good value for bulk, a
 * handshake may ask for less. Call again after taking bytes out of `in` (a splice
 * does so by itself). */
void tmesh_tcp_read(struct tmesh_tcp* t, size_t in_max_bytes);
/* Queues a small reply in `out` (SOCKS5, HTTP). Stream scope: NO_MEMORY, STATE after
 * finish, close or a failure. */
TMESH_MUST_CHECK struct tmesh_status tmesh_tcp_send(struct tmesh_tcp* t, const void* data, size_t n);
/* FIN after what is queued. Idempotent. */
void tmesh_tcp_finish(struct tmesh_tcp* t);
/* is_graceful: after `out` was written, with FIN, and then until the peer ended too, so
 * that bytes of it that nobody reads do not destroy the answer (bounded by
 * TMESH_TCP_GRACE_US, then RST if `out` did not go); otherwise RST at once, queues
 * dropped. No callback but on_closed afterwards. Idempotent; an abrupt close overtakes
 * a graceful one. */
void tmesh_tcp_close(struct tmesh_tcp* t, bool is_graceful);
/* The splice end; route the events to tmesh_splice_*. Its abort is tmesh_tcp_close(t, false). */
struct tmesh_end tmesh_tcp_end(struct tmesh_tcp* t);
/* Asserts the invariants. */
void tmesh_tcp_check(const struct tmesh_tcp* t);

#ifdef __cplusplus
}
#endif

#endif
