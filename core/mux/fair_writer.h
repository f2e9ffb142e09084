/* Which stream sends next: deficit round-robin over active streams.
 *
 * A stream is active when it has something it may send now: bytes and credit, or a
 * HALF_CLOSE with no byte before it. Every visit adds one quantum (32 KiB) to its
 * deficit; a visit sends while the head item fits the deficit; an idle stream
 * leaves the ring and loses its deficit. Items of length zero cost nothing. Owns
 * nothing, allocates nothing: streams carry their ring node and deficit.
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

struct tmesh_stream;

struct tmesh_fair_writer {
  struct tmesh_list active; /* tmesh_stream.in_active; front = next */
};

void tmesh_fair_writer_init(struct tmesh_fair_writer* w);
/* Re-evaluates membership after bytes, credit or HALF_CLOSE changed: every wake-up
 * edge goes through here. Returns whether the stream is active now. */
bool tmesh_fair_writer_update(struct tmesh_fair_writer* w, struct tmesh_stream* s);
void tmesh_fair_writer_remove(struct tmesh_fair_writer* w, struct tmesh_stream* s);

struct tmesh_send_item {
  struct tmesh_stream* stream;
  uint32_t len_bytes; /* DATA payload; 0 with is_half_close */
  bool is_half_close;
};
/* The next item, deficit already charged; false when nothing is active. */
bool tmesh_fair_writer_next(struct tmesh_fair_writer* w, struct tmesh_send_item* item);

#ifdef __cplusplus
}
#endif

#endif
