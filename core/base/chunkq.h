/* Byte queue over pool blocks.
 *
 * Owns its blocks exclusively; allocates only from the pool. Not bounded by
 * itself: the caller knows its bound in bytes and asks `len_bytes` first. Memory
 * held stays near what is queued: a piece under half a block is copied into the
 * tail block, so held bytes <= 2 x queued bytes + 2 blocks (a reserved tail and a
 * partly read head), unless the pool refused a block for such a copy.
 */
#ifndef TMESH_BASE_CHUNKQ_H
#define TMESH_BASE_CHUNKQ_H

#include <stdbool.h>

#include "core/base/pool.h"
#include "core/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct tmesh_span {
  uint8_t* data;
  size_t len_bytes;
};

struct tmesh_chunkq {
  struct tmesh_pool* pool;
  struct tmesh_block* head;
  struct tmesh_block* tail;
  size_t len_bytes;
  size_t block_count;
};

void tmesh_chunkq_init(struct tmesh_chunkq* q, struct tmesh_pool* pool);
/* Drops all bytes and returns every block; the queue stays usable. */
void tmesh_chunkq_clear(struct tmesh_chunkq* q);

/* Copies n bytes to the end. All or nothing: NO_MEMORY (stream scope) leaves the queue unchanged. */
TMESH_MUST_CHECK struct tmesh_status tmesh_chunkq_append(struct tmesh_chunkq* q, const void* data, size_t n);
/* The same for two pieces, one behind the other: both or none. */
TMESH_MUST_CHECK struct tmesh_status tmesh_chunkq_append_two(struct tmesh_chunkq* q, const void* first,
                                                             size_t first_n, const void* data, size_t n);
/* Room at the tail to write into directly: at least one byte, at most one block.
 * NULL when the pool refuses. Nothing is queued until commit, and no other operation
 * on this queue may come between the two. */
uint8_t* tmesh_chunkq_reserve(struct tmesh_chunkq* q, size_t* room_bytes);
/* Queues the first n bytes of what the last reserve returned; n = 0 gives an empty reserved block back. */
void tmesh_chunkq_commit(struct tmesh_chunkq* q, size_t n);

/* Fills up to max spans from the front without consuming; returns how many. */
size_t tmesh_chunkq_peek(const struct tmesh_chunkq* q, struct tmesh_span* spans, size_t max);
/* Copies up to n bytes from the front out without consuming them; returns how many. */
size_t tmesh_chunkq_copy(const struct tmesh_chunkq* q, void* out, size_t n);
/* Drops n bytes from the front; n <= len_bytes. */
void tmesh_chunkq_consume(struct tmesh_chunkq* q, size_t n);
/* Copies up to n bytes out and consumes them; returns how many. */
size_t tmesh_chunkq_read(struct tmesh_chunkq* q, void* out, size_t n);
/* Moves up to max bytes from the front of src to the end of dst, whole blocks by
 * pointer and small pieces by copy (also by pointer when the pool refuses a block for the
 * copy); returns how many bytes moved: fewer than asked only if src is shorter or the pool
 * refuses a block for a part of one. Both use the same pool. */
size_t tmesh_chunkq_move(struct tmesh_chunkq* dst, struct tmesh_chunkq* src, size_t max);
static inline size_t tmesh_chunkq_held_bytes(const struct tmesh_chunkq* q) {
  return q->block_count * TMESH_BLOCK_BYTES;
}
/* Asserts every invariant; for tests, simulation and fuzzers. */
void tmesh_chunkq_check(const struct tmesh_chunkq* q);

#ifdef __cplusplus
}
#endif

#endif
