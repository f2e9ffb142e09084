/* One stream of a mux: state, two byte queues, two windows, pending marks.
 *
 * A stream of protocol udp carries datagrams (core/mux/datagram.h says how its queues look). It
 * has no windows whatever the peer says: deployed clients announce one and never return credit
 * (LESSONS Z1). What does not fit into a queue is dropped whole, the newest datagram first,
 * and counted; the stream goes on (requirement E2). Nothing slows a sender of datagrams down, so from
 * TMESH_PRESSURE_GROWTH on each queue takes one, or what fits in a block, and nobody is asked to give
 * way for them: memory is for those who wait for it.
 *
 * Memory: allocated by the mux (slab), freed by the mux when BOTH the protocol is
 * done with it (over, nothing pending to send, nothing in the batch) and its user
 * called tmesh_stream_release(). Until release the user's pointer stays valid,
 * whatever the peer does. An idle stream holds no blocks.
 *
 * Events are never delivered from inside a call made by the user: they are flags
 * on the stream, handed out by tmesh_mux_dispatch(). One thread; time is an
 * argument where it matters.
 */
#ifndef TMESH_MUX_STREAM_H
#define TMESH_MUX_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/chunkq.h"
#include "core/base/list.h"
#include "core/base/status.h"
#include "core/mux/fair_writer.h"
#include "core/mux/growth.h"
#include "core/proto/open_result.h"
#include "core/proto/open_stream.h"
#include "core/proto/stream_state.h"
#include "core/proto/window.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_mux;
struct tmesh_stream;

/* What happened since the last dispatch of this stream; several bits may be set. */
#define TMESH_STREAM_EV_RESULT 0x01u   /* opener: stream->result is valid (accepted or refused) */
#define TMESH_STREAM_EV_READABLE 0x02u /* `in` grew, or in_eof became true */
#define TMESH_STREAM_EV_WRITTEN 0x04u  /* stream->written_bytes left for the socket; room appeared */
#define TMESH_STREAM_EV_OVER                                               \
  0x08u /* reset by the peer, by an error or by the end of the link:       \
           stream->over says why; only release() is useful now, and before \
           it, for an opener's stream that the peer RESET, what came into  \
           `in` before (an early answer).                                  \
           Comes alone: earlier flags of that stream are dropped, but for  \
           an accepting RESULT with such an early answer behind it, which  \
           is delivered in the dispatch before. A stream                   \
           whose two directions both ended regularly gets none */

/* Called by tmesh_mux_dispatch() only. The callee may use every stream function,
 * including release of this or any other stream. */
typedef void (*tmesh_stream_event_fn)(void* user, struct tmesh_stream* stream, unsigned events);

/* Pending control frames of a stream: at most one of each kind, in one FIFO of streams. */
#define TMESH_MARK_OPEN 0x01u
#define TMESH_MARK_OPEN_RESULT 0x02u
#define TMESH_MARK_WINDOW_UPDATE 0x04u
#define TMESH_MARK_RESET 0x08u

/* Members stand so that nearly nothing is padding: there may be many thousands of these. */
struct tmesh_stream {
  /* identity */
  struct tmesh_mux* mux;
  uint32_t id;
  uint8_t state; /* enum tmesh_stream_state */
  bool is_opener;
  bool is_strict;
  bool is_datagram;      /* protocol udp: the queues hold datagrams, there are no windows */
  bool is_released;      /* the user let go; only ever true of a stream that is over */
  bool has_early_data;   /* negotiated when it began: DATA may come before the answer */
  bool waits_for_answer; /* a splice found no room because it is opening */

  /* pending marks, but for the size of a WINDOW_UPDATE */
  uint8_t marks;
  uint32_t open_window_bytes;
  char* open_payload; /* encoded OPEN_STREAM until pulled; owned */
  uint32_t open_payload_len_bytes;

  /* user */
  struct tmesh_open_result result; /* received (opener) or to be sent (acceptor) */
  struct tmesh_status over;
  uint8_t events; /* TMESH_STREAM_EV_* not yet dispatched */
  void* user;
  tmesh_stream_event_fn on_event;

  /* inbound: read from the link, waiting for the user */
  struct tmesh_chunkq in;
  struct tmesh_recv_window recv;
  uint32_t update_bytes; /* increment of the pending WINDOW_UPDATE; increments add up; part of recv's
                            credit that the peer does not know of, so at most that */
  struct tmesh_growth growth;
  uint16_t early_in_bytes; /* acceptor: received while opening */
  bool in_eof;             /* HALF_CLOSE arrived (after every byte in `in`) */

  /* outbound: from the user, waiting for the link */
  uint32_t out_max_bytes;
  struct tmesh_send_window send;
  uint32_t batched_bytes; /* pulled, not yet reported written */
  uint32_t small_us;      /* when its last small item was taken, or the turn of its last datagram began;
                             low 32 bits */
  uint32_t deficit_bytes; /* deficit round-robin, RFC-less but standard: bytes this round may still send */
  uint16_t first_bytes;   /* sent since the open, up to TMESH_FRESH_MAX_BYTES */
  uint8_t place;          /* enum tmesh_writer_place: where in_active is linked */
  bool is_due;            /* its bytes were held long enough */
  uint8_t turn_count;     /* datagrams taken in the turn of small_us */
  bool out_eof;           /* HALF_CLOSE queued behind every byte in `out` */
  bool out_eof_pulled;
  bool out_eof_written; /* HALF_CLOSE and every byte before it were reported written */
  struct tmesh_chunkq out;
  uint64_t moved_us;         /* when bytes last came into an empty queue, were added to `out` or left */
  uint64_t stalled_since_us; /* when tmesh_mux_reset_stalled first saw it stalled; 0 = is not */
  size_t written_bytes;      /* reported written, not yet dispatched; valid inside the event callback */

  /* membership */
  struct tmesh_list in_all;    /* every stream of the mux */
  struct tmesh_list in_events; /* waiting for dispatch */
  struct tmesh_list in_marks;  /* FIFO of streams with marks */
  struct tmesh_list in_active; /* of the fair writer: streams with data they may send */
};

/* Takes over the stream: events go to fn(user, ...) from the next dispatch on.
 * Events that came before are kept and delivered then. May be called again to hand
 * the stream to another owner. */
void tmesh_stream_attach(struct tmesh_stream* s, void* user, tmesh_stream_event_fn fn);
/* Nobody listens until the next attach; events wait for it. */
void tmesh_stream_detach(struct tmesh_stream* s);

/* Whether bytes in `out` may leave although the open is not answered. */
static inline bool tmesh_stream_may_send_early(const struct tmesh_stream* s) {
  return s->state == TMESH_STREAM_OPENING && s->is_opener && s->has_early_data &&
         s->first_bytes < TMESH_EARLY_DATA_MAX_BYTES;
}

/* Acceptor: answers the open. accepted: state becomes open (strict: OPEN_RESULT(ok)
 * is queued ahead of any data; install the target first, requirement C5); a splice that
 * was installed before and waits for room gets an EV_WRITTEN. Early bytes of the peer are in
 * `in` by then. Refused: they are dropped;
 * strict sends OPEN_RESULT, legacy sends RESET; the stream is over without an OVER
 * event. Harmless if the stream is already over. */
void tmesh_stream_answer(struct tmesh_stream* s, const struct tmesh_open_result* result);

/* Room for outbound bytes, 0 when not open for writing. A strict opener that began with early
 * data has room for what is left of TMESH_EARLY_DATA_MAX_BYTES while it is opening; those bytes
 * leave before the answer, behind the OPEN_STREAM and inside the window (WIRE E). */
size_t tmesh_stream_out_room(const struct tmesh_stream* s);
/* Bytes were put at the end of s->out by chunkq calls: schedules them. */
void tmesh_stream_out_added(struct tmesh_stream* s);
/* Copies at most tmesh_stream_out_room() bytes; returns how many were taken. Not for datagrams. */
size_t tmesh_stream_write(struct tmesh_stream* s, const void* data, size_t n);
/* HALF_CLOSE in data order. Idempotent. While opening it waits for the answer, also behind early data. */
void tmesh_stream_finish(struct tmesh_stream* s);

/* n bytes taken from s->in have really left for the next link or socket: returns
 * credit to the peer when due (requirement E3). The only callers are splice, for
 * datagrams tmesh_stream_take_datagram(), and for HTTP messages the client's HttpLocal. */
void tmesh_stream_consumed(struct tmesh_stream* s, size_t n);

/* Ends the stream with RESET (or silently if OPEN was not pulled yet, or the peer
 * knows already). Queues are dropped. No OVER event for the caller. */
void tmesh_stream_reset(struct tmesh_stream* s);
/* The user lets go; resets first unless both directions are done. The pointer is dead afterwards. */
void tmesh_stream_release(struct tmesh_stream* s);

/* Whether both directions ended regularly (HALF_CLOSE pulled and received). */
bool tmesh_stream_is_done(const struct tmesh_stream* s);
/* Whether everything handed to the stream, the HALF_CLOSE included if finish was
 * called, has been reported written. */
bool tmesh_stream_all_written(const struct tmesh_stream* s);
void tmesh_stream_check(const struct tmesh_stream* s);

#ifdef __cplusplus
}
#endif

#endif
