/* Which stream sends next: deficit round-robin over active streams, the first bytes of a
 * stream ahead of it.
 *
 * A stream is active when it has something it may send now: bytes and credit, or a
 * HALF_CLOSE with no byte before it. Streams in the ring: every visit adds one quantum
 * (32 KiB) to the deficit; a visit sends while the head item fits the deficit; an idle
 * stream leaves the ring and loses its deficit. Items of length zero cost nothing.
 *
 * A stream that has sent less than 16 KiB since its open is fresh and waits in a queue of
 * its own, which goes first: a small request does not wait for a round of bulk. All fresh
 * streams together get at most one quantum per round of the ring, so that many opens cannot
 * starve it.
 *
 * A datagram is one item, never cut or joined with another. It is charged with its frame
 * header, so that empty ones cost something; one beyond what is left of a stream's 16 KiB ends
 * its being fresh, one beyond the quantum is sent after enough rounds.
 *
 * Where it is asked for, small items of a stream keep a distance in time: bytes that would
 * make one too soon are held (not active) until more of them came, the stream ends or they
 * are due. Datagrams cannot be joined: so many of a stream leave per turn of that length, the others
 * are held for the next unless the stream ends. Owns nothing, allocates nothing: streams carry their
 * node, deficit and counts.
 */
#ifndef TMESH_MUX_FAIR_WRITER_H
#define TMESH_MUX_FAIR_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/proto/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TMESH_QUANTUM_BYTES TMESH_DATA_MAX_BYTES
/* A request and most answers; at most half a quantum, so that an item of a fresh stream always fits. */
#define TMESH_FRESH_MAX_BYTES 16384u

/* What is held when small items keep a distance. 16 frames of this size are a whole window: deployed
 * servers keep so many of a stream, and reset it for one more (LESSONS Z3). */
#define TMESH_COALESCE_BELOW_BYTES (TMESH_WINDOW_INITIAL_BYTES / 16)
/* Datagrams of a stream per turn of that distance. Two turns may come together on their way: 16 again. */
#define TMESH_DATAGRAM_TURN_COUNT 8u

struct tmesh_stream;

/* Where tmesh_stream.in_active is linked. */
enum tmesh_writer_place { TMESH_PLACE_NONE = 0, TMESH_PLACE_FRESH, TMESH_PLACE_RING, TMESH_PLACE_HELD };

struct tmesh_fair_writer {
  struct tmesh_list fresh;   /* tmesh_stream.in_active of fresh streams; front = next */
  struct tmesh_list ring;    /* of the others, and `round`; front = next */
  struct tmesh_list round;   /* always in the ring: a round is over when it is at the front */
  uint32_t fresh_left_bytes; /* what fresh streams may still send in this round */
  uint32_t coalesce_us;      /* distance of small items of one stream; 0 = none */
  uint32_t item_max_bytes;   /* of a DATA item; not heeded while small items keep a distance */
  uint64_t now_us;
  struct tmesh_list held; /* streams whose bytes wait for held_due_us */
  uint64_t held_due_us;   /* when the first of them may go; all go with it, so that this costs O(1) each,
                             but datagrams, which have the beginning of the next turn */
};

void tmesh_fair_writer_init(struct tmesh_fair_writer* w);
/* Re-evaluates membership after bytes, credit, HALF_CLOSE or the state changed: every
 * wake-up edge goes through here. Returns whether the stream is active or held now: the link
 * has to look what it can send, or when. */
bool tmesh_fair_writer_update(struct tmesh_fair_writer* w, struct tmesh_stream* s);
void tmesh_fair_writer_remove(struct tmesh_fair_writer* w, struct tmesh_stream* s);
/* Time has come to now_us. Returns whether the link has to look, as above. */
bool tmesh_fair_writer_tick(struct tmesh_fair_writer* w, uint64_t now_us);
/* Another distance from now on. The same. */
bool tmesh_fair_writer_coalesce(struct tmesh_fair_writer* w, uint32_t coalesce_us);
/* Whether no stream is active. */
static inline bool tmesh_fair_writer_is_idle(const struct tmesh_fair_writer* w) {
  return tmesh_list_empty(&w->fresh) && w->ring.next == &w->round && w->round.next == &w->ring;
}

struct tmesh_send_item {
  struct tmesh_stream* stream;
  uint32_t len_bytes;    /* DATA payload; 0 with is_half_close, or of an empty datagram */
  uint32_t queued_bytes; /* what goes out of `out`: the payload, with the prefix of a datagram */
  bool is_half_close;
};
/* The next item, already charged; false when nothing is active. The caller takes it and
 * calls update for its stream. */
bool tmesh_fair_writer_next(struct tmesh_fair_writer* w, struct tmesh_send_item* item);

#ifdef __cplusplus
}
#endif

#endif
