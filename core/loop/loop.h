/* The event loop of a process: one thread owns it and every object on it.
 *
 * Embeds a uv_loop_t with one prepare and one check handle. Both run the flush:
 * dispatch of stream events and writing of dirty links, so that whatever a timer or
 * an I/O callback produced leaves in the same iteration (libuv has no "writable"
 * event). A flush runs a bounded number of rounds; what remains keeps the next poll
 * from blocking but lets it happen, so that one busy object cannot stop the others.
 *
 * Also home of what all objects of a loop share: the block pool, the buffer that
 * every socket reads into (a read is consumed before its callback returns), the
 * coarse alarms, and a store of random bytes.
 *
 * Memory: about 64 KiB from init on; the other shared buffers come with their first
 * use and stay; of freed blocks a quarter of the budget at most is kept for some seconds
 * (memory.h). Process-wide effect of init: SIGPIPE is ignored, because a peer that
 * closed must show as an error of one write.
 */
#ifndef TMESH_LOOP_LOOP_H
#define TMESH_LOOP_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "core/base/list.h"
#include "core/base/pool.h"
#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Two DATA frames: large enough that bulk needs few system calls. */
#define TMESH_READ_BUFFER_BYTES 65536u
/* After this many bytes from one socket in one iteration the others get a turn. */
#define TMESH_READ_BURST_BYTES 262144u
/* The same for writing. */
#define TMESH_WRITE_BURST_BYTES 262144u
/* An event may travel stream -> splice -> other stream -> link within one flush; what
 * needs more hops than this waits for one non-blocking poll. */
#define TMESH_FLUSH_ROUNDS_MAX 4u
/* All TLS handshakes of one iteration together: a reconnect storm then delays
 * established links by this much at most. */
#define TMESH_HANDSHAKE_BUDGET_US 5000u
/* Random bytes fetched at once: a system call per 1,024 WebSocket masks. */
#define TMESH_RANDOM_STORE_BYTES 4096u
/* Defaults of the two times below. */
#define TMESH_PAUSED_PROBE_US UINT64_C(5000000)
#define TMESH_STALLED_CLOSE_US UINT64_C(60000000)

/* Something that wants to run in the next flush. Embedded; linked at most once. */
struct tmesh_flush {
  struct tmesh_list node;
  void (*run)(struct tmesh_flush* self);
};

/* What memory.h needs; nobody else touches it, but for the counters. */
#define TMESH_MEMORY_PEAKS 3u
struct tmesh_loop_memory {
  struct tmesh_list links;   /* tmesh_link.in_memory: all of them */
  struct tmesh_list writers; /* tmesh_tcp.in_writers: sockets whose write waits for the kernel */
  struct tmesh_list starved; /* tmesh_tcp.in_starved: sockets that rest, the longest first */
  struct tmesh_list resting; /* tmesh_link.in_resting: links that rest, the longest first */
  uv_timer_t rest_timer;     /* unreferenced; lets the longest resting link go on */
  uv_timer_t look_timer;     /* unreferenced; the next look, when nothing else wakes the loop */
  uint64_t stalled_us;       /* TMESH_MEMORY_STALLED_US; tests shorten it, and the next */
  uint64_t tick_ms;          /* TMESH_MEMORY_TICK_MS */
  uint64_t seen_us;          /* the last flush */
  uint64_t awake_from_us;    /* since then there was one at least every stalled_us */
  uint64_t next_look_us;
  uint64_t full_poll_count; /* the iteration full_looks is of */
  unsigned full_looks;
  unsigned untrimmed_ticks;
  uv_timer_t timer; /* unreferenced; runs only while something may go back to the system */
  uint64_t tick_count;
  size_t peaks[TMESH_MEMORY_PEAKS]; /* live blocks of the last seconds */
  size_t freed_bytes, freed_before_bytes;
  uint64_t evicted_count, looks_count, rests_count, trims_count;
};

struct tmesh_loop {
  uv_loop_t uv;
  uv_prepare_t prepare;
  uv_check_t check;
  uv_idle_t spin; /* active while a list below is not empty: keeps poll from blocking */
  struct tmesh_pool pool;
  struct tmesh_list flushes;     /* tmesh_flush.node, in order of request */
  struct tmesh_list after_polls; /* the same, for the check phase after the next poll */
  uint64_t poll_count;           /* polls that ended: the number of this iteration */
  uint64_t now_us;               /* time as of now_for_ms */
  uint64_t now_for_ms;           /* libuv's clock when now_us was taken */
  uint64_t handshake_us_left;    /* TLS handshake budget of this iteration */

  uint8_t* read_buffer;  /* TMESH_READ_BUFFER_BYTES */
  uint8_t* plain_buffer; /* for decrypted bytes; NULL until TLS is used (transport_tls.c) */
  uint8_t* batch_buffer; /* for outgoing messages; NULL until a link is used (link_output.c) */
  uint8_t* spare_rest;   /* one buffer for what a link could not write, between uses; or NULL */
  size_t spare_rest_cap_bytes;

  struct tmesh_list alarms; /* tmesh_alarm.node (alarm.h) */
  uv_timer_t alarm_timer;
  uint64_t alarm_at_us;          /* when the timer fires; UINT64_MAX = it is stopped */
  struct tmesh_flush alarms_due; /* it fired: what is due runs after the next poll */

  struct tmesh_list due_links; /* tmesh_link.in_due: whose mux holds bytes back for some milliseconds */
  uv_timer_t due_timer;
  uint64_t due_at_us; /* when it fires; UINT64_MAX = it is stopped */

  uint8_t* random_store;
  size_t random_left_bytes;

  uint64_t paused_probe_us;  /* tcp.h: how often a paused socket is looked at; tests shorten it */
  uint64_t stalled_close_us; /* `limits.stalled_close_timeout` */

  size_t closing_count; /* objects between their close call and on_closed */
  struct tmesh_loop_memory memory;
};

/* memory_budget_bytes bounds all queued stream bytes of the process. NO_MEMORY or IO
 * (session); then nothing needs to be closed. */
TMESH_MUST_CHECK struct tmesh_status tmesh_loop_init(struct tmesh_loop* loop, size_t memory_budget_bytes);
/* Runs until nothing is left to do or tmesh_loop_stop(). */
void tmesh_loop_run(struct tmesh_loop* loop);
void tmesh_loop_stop(struct tmesh_loop* loop);
/* Runs the loop until every object whose close was called is closed, then closes own
 * handles and the loop. Returns false if something was leaked (a handle nobody
 * closed, a block nobody returned): tests fail on that. */
bool tmesh_loop_close(struct tmesh_loop* loop);

/* Monotonic time in microseconds. Taken anew when libuv's own clock moved (once per
 * iteration and after each poll), so it costs no system call and stands still within a
 * callback. */
uint64_t tmesh_loop_now_us(struct tmesh_loop* loop);

/* Runs f->run in the next flush of this iteration; harmless if already requested. A
 * request made while f runs is for the next round. Also the deferral queue: a callback
 * that must not run inside a call goes here. */
void tmesh_loop_flush_request(struct tmesh_loop* loop, struct tmesh_flush* f);
/* Runs f->run in the check phase after one whole poll: for judging a peer's silence
 * (its bytes may wait in the kernel), and for work that must not fill an iteration. */
void tmesh_loop_after_poll_request(struct tmesh_loop* loop, struct tmesh_flush* f);
void tmesh_flush_init(struct tmesh_flush* f, void (*run)(struct tmesh_flush* self));
void tmesh_flush_cancel(struct tmesh_flush* f);

/* n <= TMESH_RANDOM_STORE_BYTES bytes that nobody can predict; false when the system gives none. */
bool tmesh_loop_random(struct tmesh_loop* loop, void* out, size_t n);

/* Bytes read by one socket in the present iteration. */
struct tmesh_burst {
  uint64_t poll_count;
  size_t bytes;
};
void tmesh_burst_add(struct tmesh_burst* burst, const struct tmesh_loop* loop, size_t n);
/* Whether the socket should wait for the next iteration. An on_alloc that offers no buffer then
 * is how: libuv leaves the descriptor as it is and asks again, where stopping to read and
 * starting again costs two system calls each time. */
bool tmesh_burst_is_over(const struct tmesh_burst* burst, const struct tmesh_loop* loop);

#ifdef __cplusplus
}
#endif

#endif
