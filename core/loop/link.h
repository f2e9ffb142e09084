/* A link: one WebSocket as a carrier of frames; transport + WebSocket codec + frame
 * decoder + mux.
 *
 * The link is the one place where a SESSION status becomes the end of a connection.
 * Output is pulled: once per flush a dirty link dispatches stream events and then
 * pulls one batch at a time from the mux as long as the kernel takes it. It answers
 * WebSocket pings, notes every byte as life, and knows nothing of hellos or roles
 * (cpp/session does). Two-phase close.
 *
 * Memory: batches are built in one buffer of the loop; a link owns only what of a
 * batch the kernel did not take (at most one batch), while that waits. One loop.
 */
#ifndef TMESH_LOOP_LINK_H
#define TMESH_LOOP_LINK_H

#include "core/loop/transport.h"
#include "core/mux/mux.h"
#include "core/proto/frame.h"
#include "core/wire/ws.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Soft size of one batch: what the path takes in 20 ms, as measured while the kernel is full, so
 * that control frames never wait behind much data (LESSONS P-C6). TCP_NOTSENT_LOWAT alone does not
 * do it: below the mark the kernel takes a whole write, of whatever size. */
#define TMESH_BATCH_MAX_BYTES 65536u
#define TMESH_BATCH_FIRST_BYTES 16384u
#define TMESH_BATCH_MIN_BYTES 4096u
#define TMESH_BATCH_US 20000u
/* Unsent bytes in the kernel behind which a link waits, for batches of at least
 * TMESH_BATCH_FIRST_BYTES and for smaller ones. */
#define TMESH_LINK_LOWAT_BYTES 32768u
#define TMESH_LINK_LOWAT_NARROW_BYTES 8192u
/* tmesh_link_close() waits this long for the kernel to take what was pulled. */
#define TMESH_LINK_CLOSE_US UINT64_C(1000000)

struct tmesh_link_events {
  /* The link is over: peer closed (CLOSED), protocol error, TLS or I/O error,
   * tmesh_link_fail() or tmesh_link_close() (CLOSED). Called once, from the loop;
   * streams got their OVER events before. The link closes itself: on_closed follows. */
  void (*on_down)(void* ctx, struct tmesh_status why);
  /* Last: the memory of the link AND of the transport may go. Comes when every stream
   * was released, at the earliest; release them in their OVER events or in on_down. */
  void (*on_closed)(void* ctx);
};

struct tmesh_link {
  struct tmesh_loop* loop;
  struct tmesh_transport* transport; /* closed by the link; its memory is the caller's, until on_closed */
  struct tmesh_mux mux;
  const struct tmesh_link_events* events;
  void* ctx;
  const struct tmesh_mux_events* mux_events; /* the user's */
  void* mux_events_ctx;
  struct tmesh_list in_due;     /* tmesh_loop.due_links */
  struct tmesh_list in_memory;  /* tmesh_loop.memory.links */
  struct tmesh_list in_resting; /* tmesh_loop.memory.resting */
  size_t noted_streams_count;   /* what memory.h was told of */
  struct tmesh_flush flush;
  struct tmesh_alarm alarm; /* end of a slow close; then: streams not released yet */
  struct tmesh_closing closing;

  /* inbound */
  struct tmesh_ws_decoder ws;
  struct tmesh_frame_decoder frame;
  bool is_frame_done; /* the frame of the present message is complete: the rest is ignored */
  uint8_t* early;     /* bytes that came behind the HTTP head; NULL = none or processed */
  size_t early_len_bytes;

  /* outbound; batch_* only while a batch is built */
  size_t batch_len_bytes;
  size_t message_begin_bytes; /* payload of the message being written */
  uint8_t mask[4];
  bool is_mask_missing; /* the system gave no random bytes */
  bool is_batch_open;   /* pulled, tmesh_mux_written() is owed */
  bool is_writing;      /* `rest` is on its way */
  uint32_t batch_bytes; /* target of the next batch */
  uint32_t lowat_bytes; /* as set */
  /* rate of a full kernel: bytes handed over since the last one that had to wait went */
  uint64_t measured_from_us; /* 0 = the link ran dry since then */
  uint64_t measured_bytes;
  uint8_t* rest;
  size_t rest_cap_bytes;
  bool owes_pong, owes_ping;
  uint8_t pong_len_bytes;
  uint8_t pong[TMESH_WS_CONTROL_MAX_BYTES];
  uint16_t close_code; /* to send at the end; 0 = none */
  uint8_t close_frame[TMESH_WS_CONTROL_FRAME_MAX_BYTES];

  bool is_client, is_started, is_close_wanted, is_last_pulled, is_down, is_down_delivered,
      is_transport_closed;
  struct tmesh_status down_status;
};

/* Takes over a ready transport, right after the 101 was given to it (server) or read
 * (client). A 101 the kernel did not take at once goes first; its buffer must then live
 * until on_closed. `early` are bytes that came behind the HTTP head; they are copied and
 * processed in the next flush, before anything read later. mux_config is copied; its
 * events->on_dirty is replaced by the link's, its pool may be NULL (the loop's).
 * NO_MEMORY (session); then the transport is still the caller's and unchanged. */
TMESH_MUST_CHECK struct tmesh_status tmesh_link_open(struct tmesh_link* l, struct tmesh_transport* transport,
                                                     bool is_client,
                                                     const struct tmesh_mux_config* mux_config,
                                                     const struct tmesh_link_events* events, void* ctx,
                                                     const uint8_t* early, size_t early_len_bytes);
static inline struct tmesh_mux* tmesh_link_mux(struct tmesh_link* l) {
  return &l->mux;
}
/* WebSocket-level ping (WIRE E: a silent link after 25 s). */
void tmesh_link_ws_ping(struct tmesh_link* l);
/* Microseconds (loop time) of the last byte read. */
uint64_t tmesh_link_last_read_us(const struct tmesh_link* l);
/* Ends the link with this SESSION status (liveness, hello errors, replaced sessions).
 * May be called from any callback; nothing is delivered from inside. The peer gets the
 * matching close code, if there is room. No effect on a link that is already ending. */
void tmesh_link_fail(struct tmesh_link* l, struct tmesh_status why);
/* Pulls once more (so a GOAWAY just queued goes), sends a WebSocket close (1000)
 * behind it and closes; on_down(CLOSED), then on_closed. Idempotent. */
void tmesh_link_close(struct tmesh_link* l);
/* Marks dirty: something for the mux to dispatch or send. */
void tmesh_link_kick(struct tmesh_link* l);

/* The close code that tells a peer of a status (RFC 6455 section 7.4.1). */
uint16_t tmesh_link_close_code(unsigned code);

#ifdef __cplusplus
}
#endif

#endif
