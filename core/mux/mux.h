/* Many streams on one link, sans-I/O.
 *
 * Frames come in through tmesh_mux_frame_*() (header, payload pieces, end) and go
 * out when the socket can take more: tmesh_mux_pull() writes whole messages into a
 * tmesh_sink, control before data, data by deficit round-robin (requirement E4).
 * There is no queue behind the scheduler: what was pulled is reported written as
 * one batch, then the next pull may follow.
 *
 * The mux knows no network, no clock of its own, no log and no role beyond "do we open streams here".
 * It is the one place where a STREAM status becomes a reset of that stream; only a
 * SESSION status leaves it (requirement C6). Memory: streams from a slab, bytes
 * from the pool, nothing per frame. One thread.
 */
#ifndef TMESH_MUX_MUX_H
#define TMESH_MUX_MUX_H

#include "core/base/idmap.h"
#include "core/mux/datagram.h"
#include "core/mux/fair_writer.h"
#include "core/mux/growth.h"
#include "core/mux/stream.h"
#include "core/proto/frame.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most DATA and HALF_CLOSE items of one batch. 512 x 8 bytes per link; a pull that
 * would need more ends early and the next one goes on, so no pull can fail. */
#define TMESH_BATCH_MAX_ITEMS 512u
/* Freed streams kept for reuse per mux: a page load's worth and some (256 x 0.4 KiB). */
#define TMESH_RETIRED_MAX_STREAMS 256u
/* Streams that are over and only wait for their OPEN_RESULT or RESET to be pulled,
 * beyond the live ones: a peer that keeps opening and never reads its answers
 * exhausts a resource no stream owns, which ends the link (requirement C6). */
#define TMESH_UNPULLED_MAX_STREAMS 4096u
/* Window violations within the period after which the link ends (requirement E5). One
 * broken stream is one violation, so this is a broken peer, not an unlucky stream. The
 * link ends with WINDOW_EXCEEDED in session scope, which nothing else causes: that is how
 * an owner knows what to audit. */
#define TMESH_WINDOW_VIOLATIONS_MAX 256u
#define TMESH_WINDOW_VIOLATIONS_PERIOD_US UINT64_C(10000000)
/* Nothing waits longer for the rest of a frame (WIRE D). */
#define TMESH_COALESCE_US 5000u
/* Ids of unknown streams remembered as answered with RESET. */
#define TMESH_UNKNOWN_RESETS_MAX 16u

/* Where pulled messages go. begin returns room for exactly len bytes of one message
 * (never NULL: the caller of pull guarantees room for target + one largest
 * message, and for its own prefix of every message, each of which has at least
 * TMESH_FRAME_HEADER_BYTES); end finishes it. The link puts the WebSocket header in front and masks. */
struct tmesh_sink {
  void* ctx;
  uint8_t* (*begin)(void* ctx, size_t len_bytes);
  void (*end)(void* ctx);
};
/* The largest message a pull can write after its target was nearly reached. */
#define TMESH_PULL_MESSAGE_MAX_BYTES (TMESH_FRAME_HEADER_BYTES + TMESH_DATAGRAM_MAX_BYTES)

/* Called from inside tmesh_mux_frame_*(); none may destroy the mux. */
struct tmesh_mux_events {
  /* Acceptor: a valid OPEN_STREAM. The stream is opening; `open` lives until return.
   * The callee attaches before it returns, and answers now or later (requirement C2:
   * no I/O here); it may also reset or release. A stream nobody attached is refused
   * and released by the mux. */
  void (*on_open)(void* ctx, struct tmesh_stream* stream, const struct tmesh_open_stream* open);
  /* HELLO, METADATA_UPDATE, ACK and TRACE frames, payload complete. OK, or a SESSION
   * status, which ends the link. Required; the others may be NULL (on_open: only if opener). */
  struct tmesh_status (*on_control)(void* ctx, const struct tmesh_frame_header* header,
                                    const uint8_t* payload, size_t len_bytes);
  void (*on_pong)(void* ctx, const uint8_t* payload, size_t len_bytes);
  void (*on_goaway)(void* ctx);
  /* Something can be pulled or dispatched: the link is dirty. May be called at any
   * time, also from user calls; only marks. */
  void (*on_dirty)(void* ctx);
  /* The pool has no block for bytes that just arrived for `keep`. The callee may free some
   * with tmesh_mux_evict(), of any mux but never of `keep`; the mux then tries once more.
   * May be NULL: `keep` is reset. Never called while a splice or a pull runs, nor for datagrams. */
  void (*on_memory_full)(void* ctx, const struct tmesh_stream* keep);
  /* Monotonic time, for noting when bytes of a stream last moved: its other end moves them
   * without a frame and without tmesh_mux_set_time(). May be NULL: the time set last is used. */
  uint64_t (*now_us)(void* ctx);
};

struct tmesh_mux_config {
  struct tmesh_pool* pool;               /* borrowed */
  const struct tmesh_mux_events* events; /* borrowed, outlives the mux */
  void* events_ctx;
  bool is_opener; /* we send OPEN_STREAM here; otherwise the peer does */
  /* The flags up to peer_is_ours may be set once more after the peer's hello was read;
   * streams that exist by then keep what they began with, unless it says otherwise. */
  bool has_open_result;     /* negotiated: strict opens are allowed */
  bool has_flow_control;    /* negotiated: windows are allowed (agent link: window > 0 decides per stream) */
  bool resets_unknown_data; /* DATA for a stream we never had is answered with RESET (server, agent) */
  bool has_early_data;      /* negotiated: up to TMESH_EARLY_DATA_MAX_BYTES before the answer (WIRE E) */
  bool has_window_growth;   /* negotiated: windows may grow to window_max_bytes, on either side (WIRE E) */
  bool peer_is_ours;        /* ids must strictly increase; credit is not capped */
  uint32_t initial_window_bytes; /* default of an opener; an acceptor's is always 262144 (E3) */
  uint32_t window_threshold_bytes;
  uint32_t window_max_bytes;     /* where our receive windows stop growing; 0 = they do not grow */
  uint32_t violations_max;       /* window violations within violations_period_us that end the link (E5);
                                    0 = TMESH_WINDOW_VIOLATIONS_MAX */
  uint64_t violations_period_us; /* 0 = TMESH_WINDOW_VIOLATIONS_PERIOD_US */
  uint32_t inbound_max_bytes;    /* of a stream without windows: beyond it that stream is reset (E2);
                                    of a udp stream: what does not fit is dropped. A datagram counts
                                    with its prefix (core/mux/datagram.h) */
  uint32_t outbound_max_bytes;   /* >= the window the peer grants (W1) */
  uint32_t streams_max;          /* live streams on this link; beyond it opens get queue_full */
  uint32_t coalesce_us;          /* small DATA frames of a stream keep this distance, datagrams leave a few
                                    at a time; 0 = none. An agent's link to a server that is not ours:
                                    TMESH_COALESCE_US (LESSONS Z3) */
};

struct tmesh_mux_stats {
  uint64_t frames_in_count, frames_out_count;
  uint64_t data_bytes_in, data_bytes_out;
  uint64_t opens_count, resets_in_count, resets_out_count;
  uint64_t legacy_backpressure_count, window_violations_count, protocol_resets_count;
  uint64_t unknown_frames_count, late_frames_count, queue_full_count, stalled_resets_count;
  uint64_t windows_grown_count;  /* steps: a window became twice as large */
  uint64_t windows_shrunk_count; /* a grown window is back at 262144 */
  uint64_t memory_resets_count;
  uint64_t datagrams_dropped_count; /* no room, no memory or too large; in either direction (E2) */
  uint64_t stream_errors_count[TMESH_CODE_COUNT];
};

struct tmesh_control_item {
  uint8_t type;
  uint16_t len_bytes;
  uint8_t small[8]; /* payloads up to 8 bytes (PING) need no allocation */
  uint8_t* payload; /* owned; NULL when len is at most 8 */
};

/* Streams are found again by id, which is never reused on a link. */
struct tmesh_batch_record {
  uint32_t id;
  uint32_t bytes; /* 0 = the HALF_CLOSE */
};

struct tmesh_mux {
  struct tmesh_mux_config config;
  struct tmesh_mux_stats stats;
  uint64_t now_us; /* tmesh_mux_set_time */
  struct tmesh_growth_clock rounds;
  uint32_t violations_count;    /* in the period that began with the first of them */
  uint64_t violations_since_us; /* when that was */

  struct tmesh_idmap streams; /* by id */
  struct tmesh_list all;      /* tmesh_stream.in_all */
  struct tmesh_list events;   /* tmesh_stream.in_events */
  struct tmesh_list marks;    /* tmesh_stream.in_marks */
  size_t marks_count;         /* streams in it */
  struct tmesh_fair_writer writer;
  size_t live_count;         /* streams that are not over */
  struct tmesh_list retired; /* slab: freed streams for reuse */
  size_t retired_count;

  uint32_t next_id;    /* opener */
  uint32_t highest_id; /* acceptor: of the sliding bitmap */
  uint64_t seen[TMESH_SEEN_WINDOW_IDS / 64];

  /* small control queue: GOAWAY, hello, metadata, ack, PING */
  struct tmesh_control_item control[TMESH_CONTROL_QUEUE_MAX_FRAMES];
  uint32_t control_head, control_count;
  bool pong_pending;
  uint8_t pong[TMESH_ADVISORY_MAX_BYTES]; /* newest wins */
  uint16_t pong_len_bytes;
  /* ids of unknown streams whose DATA is answered with RESET once; newest win */
  uint32_t unknown_resets[TMESH_UNKNOWN_RESETS_MAX];
  uint8_t unknown_resets_next;     /* slot the next id takes */
  uint16_t unknown_resets_pending; /* bit per slot: RESET not pulled yet */

  /* frame being received */
  bool is_in_frame;
  struct tmesh_frame_header frame;
  struct tmesh_stream* frame_stream; /* DATA target, NULL = skip the payload */
  uint8_t* frame_payload; /* assembly of non-DATA payloads; TMESH_METADATA_MAX_BYTES, allocated at init */
  size_t frame_payload_len_bytes;
  struct tmesh_chunkq datagram; /* of frame_stream, while its frame comes in several pieces */

  /* batch in flight: what the last pull took; TMESH_BATCH_MAX_ITEMS, allocated at init */
  struct tmesh_batch_record* batch;
  size_t batch_count;
  bool is_batch_open;

  bool is_draining;           /* GOAWAY sent or received: tmesh_mux_open refuses. OPEN_STREAMs that cross
                                 our GOAWAY are still delivered; their fate is the session's choice */
  struct tmesh_status failed; /* first SESSION status; every later frame call returns it */
};

/* NO_MEMORY (session) if its fixed buffers cannot be allocated; INVALID (session) if the
 * configuration breaks W1 (outbound_max_bytes below the window an acceptor grants) or W2
 * (less than one DATA frame between the threshold and the initial window): a stream
 * could then wait for ever (LESSONS ADR). */
TMESH_MUST_CHECK struct tmesh_status tmesh_mux_init(struct tmesh_mux* m,
                                                    const struct tmesh_mux_config* config);
/* Ends every stream with `why` (OVER events are still dispatched by the next
 * dispatch call) and refuses further work. Idempotent. */
void tmesh_mux_fail(struct tmesh_mux* m, struct tmesh_status why);
/* Every stream must have been released. Frees all memory. */
void tmesh_mux_close(struct tmesh_mux* m);

/* --- opening (opener) ------------------------------------------------------------- */
struct tmesh_open_params {
  const struct tmesh_open_stream* open;
  bool is_strict;        /* needs has_open_result */
  uint32_t window_bytes; /* our receive window for this stream; 0 = no windows */
};
/* A new stream in state opening (strict) or open (legacy), OPEN_STREAM queued.
 * NULL with *why (stream scope) = LIMIT (streams_max, ids used up or
 * 90 % of the pool in use), STATE (draining,
 * failed), UNSUPPORTED (strict without has_open_result), INVALID or TOO_LARGE
 * (open does not encode) or NO_MEMORY. The caller attaches it. Windows asked for on a
 * link without them, or for udp, are left out. */
struct tmesh_stream* tmesh_mux_open(struct tmesh_mux* m, const struct tmesh_open_params* params,
                                    struct tmesh_status* why);

/* --- receiving -------------------------------------------------------------------- */
/* A header as the frame decoder delivered it, then payload pieces, then the end.
 * Only SESSION statuses are returned; they have been recorded with tmesh_mux_fail's
 * meaning for the caller to close the link. */
TMESH_MUST_CHECK struct tmesh_status tmesh_mux_frame_header(struct tmesh_mux* m,
                                                            const struct tmesh_frame_header* h);
TMESH_MUST_CHECK struct tmesh_status tmesh_mux_frame_payload(struct tmesh_mux* m, const uint8_t* data,
                                                             size_t n);
TMESH_MUST_CHECK struct tmesh_status tmesh_mux_frame_end(struct tmesh_mux* m);

/* --- sending ---------------------------------------------------------------------- */
/* Queues a session-level frame (PING, GOAWAY, hello, metadata, ack, trace); the
 * payload is copied. CONTROL_EXHAUSTED (session) when the queue is full. */
TMESH_MUST_CHECK struct tmesh_status tmesh_mux_control(struct tmesh_mux* m, uint8_t type, const void* payload,
                                                       size_t len_bytes);
/* DATA frames of the next pulls carry at most so many bytes (1 to TMESH_DATA_MAX_BYTES): on a narrow
 * path the one before a control frame should be short. */
static inline void tmesh_mux_set_item_max(struct tmesh_mux* m, uint32_t bytes) {
  m->writer.item_max_bytes = bytes;
}
bool tmesh_mux_has_output(const struct tmesh_mux* m);
/* Writes messages into the sink until about target_bytes (a started message is
 * always complete) or nothing is left. Returns the bytes of messages written; 0 =
 * nothing to send. Must not be called again before tmesh_mux_written(). */
size_t tmesh_mux_pull(struct tmesh_mux* m, struct tmesh_sink* sink, size_t target_bytes);
/* The whole batch of the last pull was handed to the socket: WRITTEN events follow. */
void tmesh_mux_written(struct tmesh_mux* m);

/* Delivers events of streams until none is left (bounded: each stream that was
 * waiting at the start, once). Returns whether events remain. */
bool tmesh_mux_dispatch(struct tmesh_mux* m);

/* The one credit wait with a limit: resets (TIMEOUT, EV_OVER) every stream whose peer
 * half-closed and that has had bytes to send, no credit and no WINDOW_UPDATE for
 * limit_us. Deployed clients forget aborted downloads that way (WIRE D). Call it now
 * and then, O(streams); returns how many were reset. */
size_t tmesh_mux_reset_stalled(struct tmesh_mux* m, uint64_t now_us, uint64_t limit_us);
#define TMESH_STALLED_LIMIT_US (300u * UINT64_C(1000000))

/* --- time, path, memory ------------------------------------------------------------- */
/* Monotonic time for what this link measures (rates, violations per period). The link calls
 * it before it hands in bytes and before it dispatches; never goes back. */
void tmesh_mux_set_time(struct tmesh_mux* m, uint64_t now_us);
/* The round-trip time of the path, for window growth; 0 = not known, windows stay. The smallest
 * of the last measurements is the right one: queues on the path must not feed growth. */
void tmesh_mux_set_rtt(struct tmesh_mux* m, uint64_t rtt_us);
/* Changes config.coalesce_us after the peer's ack was read; 0 lets go what is held. */
void tmesh_mux_set_coalesce(struct tmesh_mux* m, uint32_t coalesce_us);
/* When tmesh_mux_set_time() has to be called at the latest, although nothing else happens: bytes
 * held back (coalesce_us) go out then. UINT64_MAX = no need. */
uint64_t tmesh_mux_due_us(const struct tmesh_mux* m);
/* Resets a stream to get its memory back (counted, EV_OVER with NO_MEMORY). */
void tmesh_mux_evict(struct tmesh_stream* s);

void tmesh_mux_check(const struct tmesh_mux* m);

#ifdef __cplusplus
}
#endif

#endif
