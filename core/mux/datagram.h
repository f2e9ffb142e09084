/* Datagrams in a byte queue: four bytes of length, most significant first, then the datagram.
 *
 * The queues of a stream whose protocol is udp hold nothing else. So the splice moves them as
 * the bytes it knows, a part now and the rest later, while the mux and the ends see whole
 * datagrams only: it queues an arrived one when its frame is complete, and sends one
 * DATA frame for each that is complete in `out` (WIRE 1.14). Empty datagrams are datagrams.
 *
 * `in` ends with a whole datagram, and begins with one unless a splice has moved a part of it.
 * `out` begins with a whole one and may end with the beginning of one while a splice fills it,
 * but never before its end: nobody finishes a stream in the middle of a datagram. An `out` queue
 * takes at least the largest window, so what is missing of a datagram always finds room.
 */
#ifndef TMESH_MUX_DATAGRAM_H
#define TMESH_MUX_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/chunkq.h"
#include "core/base/status.h"
#include "core/proto/limits.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TMESH_DATAGRAM_PREFIX_BYTES 4u

struct tmesh_stream;

/* --- in a queue --------------------------------------------------------------------- */

void tmesh_datagram_prefix(uint8_t out[TMESH_DATAGRAM_PREFIX_BYTES], uint32_t len_bytes);
/* Whether a whole datagram is at the front, and its length. */
bool tmesh_datagram_is_ready(const struct tmesh_chunkq* q, uint32_t* len_bytes);
/* Asserts that the queue holds datagrams, the last one cut only if that may be. O(bytes). */
void tmesh_datagram_check(const struct tmesh_chunkq* q, bool may_be_cut);

/* --- at an end of a udp stream -------------------------------------------------------- */

/* Queues one datagram. TOO_LARGE (beyond TMESH_DATAGRAM_MAX_BYTES), LIMIT (no room), NO_MEMORY:
 * it is dropped whole and counted. STATE: not open for writing; not counted. Stream scope. */
TMESH_MUST_CHECK struct tmesh_status tmesh_stream_send_datagram(struct tmesh_stream* s, const void* data,
                                                                size_t n);
/* Copies the first datagram of `in` to `out`, cut to cap bytes, and leaves it there. False: there
 * is none. *len_bytes is its whole length. */
bool tmesh_stream_peek_datagram(const struct tmesh_stream* s, void* out, size_t cap, size_t* len_bytes);
/* Drops the first datagram of `in`; there is one. */
void tmesh_stream_take_datagram(struct tmesh_stream* s);

#ifdef __cplusplus
}
#endif

#endif
