#include "core/base/chunkq.h"

#include <string.h>

#include "core/base/check.h"

static size_t block_len(const struct tmesh_block* b) {
  return b->end_bytes - b->begin_bytes;
}
static size_t block_room(const struct tmesh_block* b) {
  return TMESH_BLOCK_BYTES - b->end_bytes;
}

static void push_block(struct tmesh_chunkq* q, struct tmesh_block* b) {
  b->next = NULL;
  if (q->tail == NULL) {
    q->head = b;
  } else {
    q->tail->next = b;
  }
  q->tail = b;
  q->block_count++;
}

static struct tmesh_block* pop_head(struct tmesh_chunkq* q) {
  struct tmesh_block* b = q->head;
  q->head = b->next;
  if (q->head == NULL) q->tail = NULL;
  q->block_count--;
  return b;
}

/* Removes the tail block, which must be empty (a reservation nobody filled). */
static void drop_empty_tail(struct tmesh_chunkq* q) {
  struct tmesh_block* last = q->tail;
  if (last == NULL || block_len(last) > 0) return;
  if (q->head == last) {
    q->head = NULL;
    q->tail = NULL;
  } else {
    struct tmesh_block* b = q->head;
    while (b->next != last) b = b->next;
    b->next = NULL;
    q->tail = b;
  }
  q->block_count--;
  tmesh_pool_put(q->pool, last);
}

void tmesh_chunkq_init(struct tmesh_chunkq* q, struct tmesh_pool* pool) {
  *q = (struct tmesh_chunkq){0};
  q->pool = pool;
}

void tmesh_chunkq_clear(struct tmesh_chunkq* q) {
  while (q->head != NULL) tmesh_pool_put(q->pool, pop_head(q));
  q->len_bytes = 0;
}

/* Copies n bytes to the end; `fresh` are blocks for what does not fit the tail. */
static void fill(struct tmesh_chunkq* q, struct tmesh_block** fresh, const uint8_t* from, size_t n) {
  q->len_bytes += n;
  while (n > 0) {
    if (q->tail == NULL || block_room(q->tail) == 0) {
      struct tmesh_block* b = *fresh;
      *fresh = b->next;
      push_block(q, b);
    }
    size_t part = block_room(q->tail) < n ? block_room(q->tail) : n;
    memcpy(q->tail->data + q->tail->end_bytes, from, part);
    q->tail->end_bytes += (uint32_t)part;
    from += part;
    n -= part;
  }
}

struct tmesh_status tmesh_chunkq_append_two(struct tmesh_chunkq* q, const void* first, size_t first_n,
                                            const void* data, size_t n) {
  size_t room = q->tail == NULL ? 0 : block_room(q->tail);
  /* Blocks first, so that a refusal leaves the queue as it was. */
  struct tmesh_block* fresh = NULL;
  struct tmesh_block** link = &fresh;
  for (size_t have = room; have < first_n + n; have += TMESH_BLOCK_BYTES) {
    struct tmesh_block* b = tmesh_pool_get(q->pool);
    if (b == NULL) {
      while (fresh != NULL) {
        struct tmesh_block* next = fresh->next;
        tmesh_pool_put(q->pool, fresh);
        fresh = next;
      }
      return tmesh_err_stream(TMESH_E_NO_MEMORY);
    }
    *link = b;
    link = &b->next;
  }
  fill(q, &fresh, first, first_n);
  fill(q, &fresh, data, n);
  return tmesh_ok();
}

struct tmesh_status tmesh_chunkq_append(struct tmesh_chunkq* q, const void* data, size_t n) {
  return tmesh_chunkq_append_two(q, NULL, 0, data, n);
}

uint8_t* tmesh_chunkq_reserve(struct tmesh_chunkq* q, size_t* room_bytes) {
  if (q->tail == NULL || block_room(q->tail) == 0) {
    struct tmesh_block* b = tmesh_pool_get(q->pool);
    if (b == NULL) {
      *room_bytes = 0;
      return NULL;
    }
    push_block(q, b);
  }
  *room_bytes = block_room(q->tail);
  return q->tail->data + q->tail->end_bytes;
}

void tmesh_chunkq_commit(struct tmesh_chunkq* q, size_t n) {
  TMESH_ASSERT(q->tail != NULL && n <= block_room(q->tail));
  q->tail->end_bytes += (uint32_t)n;
  q->len_bytes += n;
  if (n == 0) drop_empty_tail(q);
}

size_t tmesh_chunkq_peek(const struct tmesh_chunkq* q, struct tmesh_span* spans, size_t max) {
  size_t count = 0;
  for (struct tmesh_block* b = q->head; b != NULL && count < max; b = b->next) {
    if (block_len(b) == 0) continue;
    spans[count].data = b->data + b->begin_bytes;
    spans[count].len_bytes = block_len(b);
    count++;
  }
  return count;
}

size_t tmesh_chunkq_copy(const struct tmesh_chunkq* q, void* out, size_t n) {
  uint8_t* to = out;
  size_t done = 0;
  for (const struct tmesh_block* b = q->head; b != NULL && done < n; b = b->next) {
    size_t part = block_len(b) < n - done ? block_len(b) : n - done;
    if (part == 0) continue;
    memcpy(to + done, b->data + b->begin_bytes, part);
    done += part;
  }
  return done;
}

void tmesh_chunkq_consume(struct tmesh_chunkq* q, size_t n) {
  TMESH_ASSERT(n <= q->len_bytes);
  q->len_bytes -= n;
  while (n > 0) {
    struct tmesh_block* b = q->head;
    size_t part = block_len(b) < n ? block_len(b) : n;
    b->begin_bytes += (uint32_t)part;
    n -= part;
    if (block_len(b) == 0) tmesh_pool_put(q->pool, pop_head(q));
  }
}

size_t tmesh_chunkq_read(struct tmesh_chunkq* q, void* out, size_t n) {
  uint8_t* to = out;
  size_t done = 0;
  while (done < n && q->len_bytes > 0) {
    struct tmesh_block* b = q->head;
    size_t part = block_len(b) < n - done ? block_len(b) : n - done;
    memcpy(to + done, b->data + b->begin_bytes, part);
    done += part;
    tmesh_chunkq_consume(q, part);
  }
  return done;
}

static void move_head(struct tmesh_chunkq* dst, struct tmesh_chunkq* src) {
  const size_t len = block_len(src->head);
  drop_empty_tail(dst);
  src->len_bytes -= len;
  push_block(dst, pop_head(src));
  dst->len_bytes += len;
}

size_t tmesh_chunkq_move(struct tmesh_chunkq* dst, struct tmesh_chunkq* src, size_t max) {
  TMESH_ASSERT(dst->pool == src->pool && dst != src);
  size_t moved = 0;
  while (moved < max && src->len_bytes > 0) {
    const struct tmesh_block* b = src->head;
    const size_t len = block_len(b);
    const size_t part = len < max - moved ? len : max - moved;
    const bool is_whole = part == len;
    if (is_whole && len >= TMESH_BLOCK_BYTES / 2) {
      move_head(dst, src);
    } else if (tmesh_is_ok(tmesh_chunkq_append(dst, b->data + b->begin_bytes, part))) {
      tmesh_chunkq_consume(src, part);
    } else if (is_whole) {
      move_head(dst, src); /* it is there already: a full pool must not stop what needs nothing of it */
    } else {
      break;
    }
    moved += part;
  }
  return moved;
}

void tmesh_chunkq_check(const struct tmesh_chunkq* q) {
  size_t len = 0;
  size_t count = 0;
  const struct tmesh_block* last = NULL;
  for (const struct tmesh_block* b = q->head; b != NULL; b = b->next) {
    TMESH_ASSERT(b->begin_bytes <= b->end_bytes && b->end_bytes <= TMESH_BLOCK_BYTES);
    len += block_len(b);
    count++;
    last = b;
  }
  TMESH_ASSERT(len == q->len_bytes);
  TMESH_ASSERT(count == q->block_count);
  TMESH_ASSERT(last == q->tail);
}
