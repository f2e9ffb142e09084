#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/chunkq.h"
#include "tests/core/base/prng.h"

#define BLOCK ((size_t)TMESH_BLOCK_BYTES)

/* A byte queue as an array: what the real one must equal. */
struct model {
  uint8_t* bytes;
  size_t len;
};

enum { MODEL_MAX = 8 * 32768 };

static struct model model_new(void) {
  struct model m = {malloc(MODEL_MAX), 0};
  assert_non_null(m.bytes);
  return m;
}

static void model_append(struct model* m, const uint8_t* data, size_t n) {
  memcpy(m->bytes + m->len, data, n);
  m->len += n;
}

static void model_consume(struct model* m, size_t n) {
  memmove(m->bytes, m->bytes + n, m->len - n);
  m->len -= n;
}

static int equals(const struct tmesh_chunkq* q, const struct model* m) {
  struct tmesh_span spans[64];
  size_t count = tmesh_chunkq_peek(q, spans, 64);
  size_t at = 0;
  if (q->len_bytes != m->len) return 0;
  for (size_t i = 0; i < count; i++) {
    if (spans[i].len_bytes == 0 || at + spans[i].len_bytes > m->len) return 0;
    if (memcmp(spans[i].data, m->bytes + at, spans[i].len_bytes) != 0) return 0;
    at += spans[i].len_bytes;
  }
  return at == m->len;
}

static uint8_t pattern[4 * 32768];

static void fill_pattern(void) {
  struct prng p = prng_init(7);
  for (size_t i = 0; i < sizeof pattern; i++) pattern[i] = (uint8_t)prng_next(&p);
}

static void append(struct tmesh_chunkq* q, size_t n) {
  assert_int_equal(tmesh_chunkq_append(q, pattern, n).code, TMESH_OK);
}

static void a_new_queue_is_empty_and_holds_nothing(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  struct tmesh_span span;
  uint8_t out[1];
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  tmesh_chunkq_check(&q);
  assert_int_equal(tmesh_chunkq_held_bytes(&q), 0);
  assert_int_equal(tmesh_chunkq_peek(&q, &span, 1), 0);
  assert_int_equal(tmesh_chunkq_read(&q, out, 1), 0);
  tmesh_chunkq_consume(&q, 0);
  append(&q, 0);
  assert_int_equal(pool.live_count, 0);
  tmesh_pool_close(&pool);
}

static void clear_returns_every_block_and_the_queue_stays_usable(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  append(&q, 3 * BLOCK + 1);
  assert_int_equal(pool.live_count, 4);
  tmesh_chunkq_clear(&q);
  assert_int_equal(pool.live_count, 0);
  assert_int_equal(q.len_bytes, 0);
  tmesh_chunkq_check(&q);
  append(&q, 10);
  assert_int_equal(q.len_bytes, 10);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

static void append_fills_the_tail_before_it_takes_a_block(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  append(&q, BLOCK - 1);
  append(&q, 1);
  assert_int_equal(q.block_count, 1);
  append(&q, 1);
  assert_int_equal(q.block_count, 2);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

/* A pool of n blocks refuses the (n+1)-th get inside one append: for every n the
 * queue must be what it was, and the blocks taken on the way must be back. */
static void append_is_all_or_nothing_at_every_refused_block(void** state) {
  (void)state;
  for (size_t have = 1; have <= 3; have++) {
    struct tmesh_pool pool;
    struct tmesh_chunkq q;
    struct model m = model_new();
    tmesh_pool_init(&pool, have * BLOCK, 0);
    tmesh_chunkq_init(&q, &pool);
    append(&q, 100);
    model_append(&m, pattern, 100);
    struct tmesh_status st = tmesh_chunkq_append(&q, pattern, have * BLOCK);
    assert_int_equal(st.code, TMESH_E_NO_MEMORY);
    assert_int_equal(st.scope, TMESH_SCOPE_STREAM);
    assert_true(equals(&q, &m));
    tmesh_chunkq_check(&q);
    assert_int_equal(pool.live_count, 1);
    append(&q, have * BLOCK - 100);
    assert_int_equal(pool.live_count, have);
    tmesh_chunkq_clear(&q);
    tmesh_pool_close(&pool);
    free(m.bytes);
  }
}

static void append_two_takes_both_pieces_or_none(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  uint8_t out[64];
  tmesh_pool_init(&pool, 2 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  assert_int_equal(tmesh_chunkq_append_two(&q, "abcd", 4, "efg", 3).code, TMESH_OK);
  assert_int_equal(tmesh_chunkq_append_two(&q, "hi", 2, NULL, 0).code, TMESH_OK);
  /* The first piece would find room, the second not. */
  assert_int_equal(tmesh_chunkq_append_two(&q, "xyz", 3, pattern, 2 * BLOCK).code, TMESH_E_NO_MEMORY);
  tmesh_chunkq_check(&q);
  assert_int_equal(q.len_bytes, 9);
  assert_int_equal(tmesh_chunkq_append_two(&q, pattern, 4, pattern + 4, 2 * BLOCK - 13).code, TMESH_OK);
  assert_int_equal(q.block_count, 2);
  assert_int_equal(tmesh_chunkq_read(&q, out, 9), 9);
  assert_memory_equal(out, "abcdefghi", 9);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

static void copy_crosses_blocks_and_consumes_nothing(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  uint8_t out[64];
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  append(&q, BLOCK + 10);
  tmesh_chunkq_consume(&q, BLOCK - 20);
  assert_int_equal(tmesh_chunkq_copy(&q, out, 25), 25);
  assert_memory_equal(out, pattern + BLOCK - 20, 25);
  assert_int_equal(tmesh_chunkq_copy(&q, out, sizeof out), 30);
  assert_memory_equal(out, pattern + BLOCK - 20, 30);
  assert_int_equal(q.len_bytes, 30);
  tmesh_chunkq_clear(&q);
  assert_int_equal(tmesh_chunkq_copy(&q, out, 1), 0);
  tmesh_pool_close(&pool);
}

static void reserve_gives_room_and_queues_nothing_until_commit(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  struct tmesh_span span;
  size_t room = 0;
  tmesh_pool_init(&pool, 1 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  uint8_t* at = tmesh_chunkq_reserve(&q, &room);
  assert_non_null(at);
  assert_int_equal(room, BLOCK);
  assert_int_equal(q.len_bytes, 0);
  assert_int_equal(tmesh_chunkq_peek(&q, &span, 1), 0);
  memcpy(at, "abc", 3);
  tmesh_chunkq_commit(&q, 3);
  assert_int_equal(q.len_bytes, 3);
  at = tmesh_chunkq_reserve(&q, &room);
  assert_int_equal(room, BLOCK - 3);
  memset(at, 'x', room);
  tmesh_chunkq_commit(&q, room);
  assert_null(tmesh_chunkq_reserve(&q, &room)); /* the pool refuses a second block */
  assert_int_equal(room, 0);
  tmesh_chunkq_check(&q);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

static void commit_of_zero_gives_an_empty_reserved_block_back(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  size_t room = 0;
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  assert_non_null(tmesh_chunkq_reserve(&q, &room));
  tmesh_chunkq_commit(&q, 0);
  assert_int_equal(pool.live_count, 0);
  append(&q, 2 * BLOCK);
  assert_non_null(tmesh_chunkq_reserve(&q, &room));
  assert_int_equal(pool.live_count, 3);
  tmesh_chunkq_commit(&q, 0);
  assert_int_equal(pool.live_count, 2);
  tmesh_chunkq_check(&q);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

static void peek_stops_at_max_spans_and_consumes_nothing(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq q;
  struct tmesh_span spans[2];
  tmesh_pool_init(&pool, 4 * BLOCK, 0);
  tmesh_chunkq_init(&q, &pool);
  append(&q, 3 * BLOCK);
  assert_int_equal(tmesh_chunkq_peek(&q, spans, 2), 2);
  assert_int_equal(spans[0].len_bytes + spans[1].len_bytes, 2 * BLOCK);
  assert_int_equal(q.len_bytes, 3 * BLOCK);
  tmesh_chunkq_clear(&q);
  tmesh_pool_close(&pool);
}

static void move_takes_whole_blocks_by_pointer(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq a;
  struct tmesh_chunkq b;
  struct tmesh_span before;
  struct tmesh_span after;
  tmesh_pool_init(&pool, 2 * BLOCK, 0);
  tmesh_chunkq_init(&a, &pool);
  tmesh_chunkq_init(&b, &pool);
  append(&a, BLOCK);
  assert_int_equal(tmesh_chunkq_peek(&a, &before, 1), 1);
  assert_int_equal(tmesh_chunkq_move(&b, &a, BLOCK), BLOCK);
  assert_int_equal(tmesh_chunkq_peek(&b, &after, 1), 1);
  assert_ptr_equal(before.data, after.data);
  assert_int_equal(a.len_bytes, 0);
  assert_int_equal(pool.live_count, 1);
  tmesh_chunkq_check(&a);
  tmesh_chunkq_check(&b);
  tmesh_chunkq_clear(&b);
  tmesh_pool_close(&pool);
}

static void small_pieces_are_copied_so_that_they_pin_no_block(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq a;
  struct tmesh_chunkq b;
  tmesh_pool_init(&pool, 8 * BLOCK, 0);
  tmesh_chunkq_init(&a, &pool);
  tmesh_chunkq_init(&b, &pool);
  for (int i = 0; i < 1000; i++) {
    append(&a, 1);
    assert_int_equal(tmesh_chunkq_move(&b, &a, 1), 1);
  }
  assert_int_equal(b.len_bytes, 1000);
  assert_int_equal(b.block_count, 1);
  assert_int_equal(pool.live_count, 1);
  tmesh_chunkq_clear(&b);
  tmesh_pool_close(&pool);
}

static void move_takes_no_more_than_max_and_stops_when_the_pool_refuses(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq a;
  struct tmesh_chunkq b;
  tmesh_pool_init(&pool, 1 * BLOCK, 0);
  tmesh_chunkq_init(&a, &pool);
  tmesh_chunkq_init(&b, &pool);
  append(&a, 1000);
  assert_int_equal(tmesh_chunkq_move(&b, &a, 10), 0); /* a copy would need a second block */
  assert_int_equal(a.len_bytes, 1000);
  tmesh_chunkq_check(&a);
  tmesh_chunkq_check(&b);
  tmesh_chunkq_clear(&a);
  tmesh_pool_close(&pool);
  tmesh_pool_init(&pool, 2 * BLOCK, 0);
  append(&a, 1000);
  assert_int_equal(tmesh_chunkq_move(&b, &a, 10), 10);
  assert_int_equal(a.len_bytes, 990);
  assert_int_equal(b.len_bytes, 10);
  tmesh_chunkq_clear(&a);
  tmesh_chunkq_clear(&b);
  tmesh_pool_close(&pool);
}

static void a_small_block_moves_by_pointer_when_the_pool_refuses_a_copy(void** state) {
  (void)state;
  struct tmesh_pool pool;
  struct tmesh_chunkq a;
  struct tmesh_chunkq b;
  tmesh_pool_init(&pool, 2 * BLOCK, 0);
  tmesh_chunkq_init(&a, &pool);
  tmesh_chunkq_init(&b, &pool);
  append(&b, BLOCK); /* no room in its tail */
  append(&a, 10);
  assert_int_equal(tmesh_chunkq_move(&b, &a, 100), 10);
  assert_int_equal(a.len_bytes, 0);
  assert_int_equal(b.len_bytes, BLOCK + 10);
  assert_int_equal(pool.live_count, 2);
  tmesh_chunkq_check(&a);
  tmesh_chunkq_check(&b);
  tmesh_chunkq_clear(&b);
  tmesh_pool_close(&pool);
}

static size_t random_size(struct prng* p) {
  switch (prng_below(p, 4)) {
    case 0:
      return prng_below(p, 16);
    case 1:
      return prng_below(p, 3000);
    case 2:
      return BLOCK / 2 - 2 + prng_below(p, 5);
    default:
      return prng_below(p, 2 * TMESH_BLOCK_BYTES + 3);
  }
}

/* held <= 2 x queued + 2 blocks, as the header promises while the pool refuses nothing. */
static int is_within_held_bound(const struct tmesh_chunkq* q) {
  return tmesh_chunkq_held_bytes(q) <= 2 * q->len_bytes + 2 * BLOCK;
}

static void step(struct prng* p, struct tmesh_chunkq* q, struct model* m, struct tmesh_chunkq* other,
                 struct model* other_model) {
  static uint8_t out[4 * 32768];
  size_t n = random_size(p);
  const uint8_t* from = pattern + prng_below(p, 1000);
  size_t room = 0;
  switch (prng_below(p, 6)) {
    case 0:
    case 1:
      if (m->len + n > MODEL_MAX) return;
      if (tmesh_is_ok(tmesh_chunkq_append(q, from, n))) model_append(m, from, n);
      return;
    case 2: {
      uint8_t* at = tmesh_chunkq_reserve(q, &room);
      if (at == NULL) return;
      if (n > room) n = room;
      if (m->len + n > MODEL_MAX) n = 0;
      memcpy(at, from, n);
      tmesh_chunkq_commit(q, n);
      model_append(m, from, n);
      return;
    }
    case 3:
      if (n > m->len) n = m->len;
      tmesh_chunkq_consume(q, n);
      model_consume(m, n);
      return;
    case 4: {
      size_t got = tmesh_chunkq_read(q, out, n);
      PROPERTY(p, got == (n < m->len ? n : m->len));
      PROPERTY(p, memcmp(out, m->bytes, got) == 0);
      model_consume(m, got);
      return;
    }
    default: {
      if (n > MODEL_MAX - other_model->len) n = MODEL_MAX - other_model->len;
      size_t refused = (size_t)q->pool->refused_count;
      size_t moved = tmesh_chunkq_move(other, q, n);
      PROPERTY(p, moved <= n && moved <= m->len);
      PROPERTY(p, moved == n || moved == m->len || q->pool->refused_count > refused);
      model_append(other_model, m->bytes, moved);
      model_consume(m, moved);
    }
  }
}

static void run_random(size_t budget_blocks) {
  for (uint64_t seed = 1; seed <= 30; seed++) {
    struct prng p = prng_init(seed);
    struct tmesh_pool pool;
    struct tmesh_chunkq q[2];
    struct model m[2] = {model_new(), model_new()};
    tmesh_pool_init(&pool, budget_blocks * BLOCK, 4 * BLOCK);
    tmesh_chunkq_init(&q[0], &pool);
    tmesh_chunkq_init(&q[1], &pool);
    for (p.step = 0; p.step < 400; p.step++) {
      unsigned i = prng_below(&p, 2);
      step(&p, &q[i], &m[i], &q[1 - i], &m[1 - i]);
      for (i = 0; i < 2; i++) {
        tmesh_chunkq_check(&q[i]);
        PROPERTY(&p, equals(&q[i], &m[i]));
        PROPERTY(&p, pool.refused_count > 0 || is_within_held_bound(&q[i]));
      }
      PROPERTY(&p, pool.live_count == q[0].block_count + q[1].block_count);
      PROPERTY(&p, pool.live_count <= pool.budget_count);
    }
    for (int i = 0; i < 2; i++) {
      tmesh_chunkq_clear(&q[i]);
      free(m[i].bytes);
    }
    PROPERTY(&p, pool.live_count == 0);
    tmesh_pool_close(&pool);
  }
}

static void random_operations_match_a_byte_array(void** state) {
  (void)state;
  run_random(64);
}

static void random_operations_match_a_byte_array_when_the_pool_refuses(void** state) {
  (void)state;
  for (size_t budget = 1; budget <= 4; budget++) run_random(budget);
}

int main(void) {
  fill_pattern();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_new_queue_is_empty_and_holds_nothing),
      cmocka_unit_test(clear_returns_every_block_and_the_queue_stays_usable),
      cmocka_unit_test(append_fills_the_tail_before_it_takes_a_block),
      cmocka_unit_test(append_is_all_or_nothing_at_every_refused_block),
      cmocka_unit_test(append_two_takes_both_pieces_or_none),
      cmocka_unit_test(copy_crosses_blocks_and_consumes_nothing),
      cmocka_unit_test(reserve_gives_room_and_queues_nothing_until_commit),
      cmocka_unit_test(commit_of_zero_gives_an_empty_reserved_block_back),
      cmocka_unit_test(peek_stops_at_max_spans_and_consumes_nothing),
      cmocka_unit_test(move_takes_whole_blocks_by_pointer),
      cmocka_unit_test(small_pieces_are_copied_so_that_they_pin_no_block),
      cmocka_unit_test(move_takes_no_more_than_max_and_stops_when_the_pool_refuses),
      cmocka_unit_test(a_small_block_moves_by_pointer_when_the_pool_refuses_a_copy),
      cmocka_unit_test(random_operations_match_a_byte_array),
      cmocka_unit_test(random_operations_match_a_byte_array_when_the_pool_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
