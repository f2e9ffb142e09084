/* The fair writer against its promises, with streams that are nothing but numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mux/fair_writer.h"
#include "core/mux/stream.h"
#include "tests/core/base/prng.h"

#define QUANTUM TMESH_QUANTUM_BYTES
#define FRESH TMESH_FRESH_MAX_BYTES
#define STREAMS 24u

struct model {
  struct tmesh_fair_writer w;
  struct tmesh_stream s[STREAMS];
  uint64_t sent_bytes[STREAMS];  /* since `reset_model` */
  uint64_t added_bytes[STREAMS]; /* to `out` */
  bool is_ended[STREAMS];        /* its HALF_CLOSE was sent */
  uint64_t waits_since[STREAMS]; /* bytes of all streams when it became active, + 1; 0 = is not */
  uint64_t all_bytes, fresh_bytes;
};

static void init(struct model* m) {
  memset(m, 0, sizeof *m);
  tmesh_fair_writer_init(&m->w);
  for (unsigned i = 0; i < STREAMS; i++) {
    tmesh_list_init(&m->s[i].in_active);
    m->s[i].id = i + 1;
    m->s[i].state = TMESH_STREAM_OPEN;
    tmesh_send_window_init(&m->s[i].send, 0, UINT32_MAX);
  }
}

static void update(struct model* m, unsigned i) {
  bool is_active = tmesh_fair_writer_update(&m->w, &m->s[i]);
  assert_true(is_active == tmesh_list_linked(&m->s[i].in_active));
  if (!is_active) {
    m->waits_since[i] = 0;
  } else if (m->waits_since[i] == 0) {
    m->waits_since[i] = m->all_bytes + 1;
  }
}

static void add(struct model* m, unsigned i, size_t n) {
  m->s[i].out.len_bytes += n;
  m->added_bytes[i] += n;
  update(m, i);
}

static void make_bulk(struct model* m, unsigned i) {
  m->s[i].first_bytes = FRESH;
}

/* Sends the next item; its stream's number, or STREAMS if there is none. */
static unsigned send(struct model* m) {
  struct tmesh_send_item item;
  if (!tmesh_fair_writer_next(&m->w, &item)) return STREAMS;
  struct tmesh_stream* s = item.stream;
  unsigned i = s->id - 1;
  assert_true(item.is_half_close == (item.len_bytes == 0));
  assert_false(m->is_ended[i]);
  if (item.is_half_close) {
    assert_int_equal(s->out.len_bytes, 0); /* behind every byte */
    assert_true(s->out_eof);
    s->out_eof_pulled = true;
    m->is_ended[i] = true;
  }
  assert_true(item.len_bytes <= s->out.len_bytes && item.len_bytes <= QUANTUM);
  if (m->sent_bytes[i] < FRESH && s->first_bytes == m->sent_bytes[i] + item.len_bytes) {
    m->fresh_bytes += item.len_bytes;
  }
  s->out.len_bytes -= item.len_bytes;
  tmesh_send_window_take(&s->send, item.len_bytes);
  m->sent_bytes[i] += item.len_bytes;
  m->all_bytes += item.len_bytes;
  m->waits_since[i] = 0;
  update(m, i);
  return i;
}

static void nothing_to_send_is_idle(void** state) {
  (void)state;
  static struct model m;
  init(&m);
  assert_true(tmesh_fair_writer_is_idle(&m.w));
  assert_int_equal(send(&m), STREAMS);
  add(&m, 0, 1);
  make_bulk(&m, 1);
  add(&m, 1, 1);
  assert_false(tmesh_fair_writer_is_idle(&m.w));
  assert_int_equal(send(&m), 0);
  assert_int_equal(send(&m), 1);
  assert_int_equal(send(&m), STREAMS);
  assert_true(tmesh_fair_writer_is_idle(&m.w));
}

static void a_stream_that_was_removed_is_not_served(void** state) {
  (void)state;
  static struct model m;
  init(&m);
  make_bulk(&m, 1);
  for (unsigned i = 0; i < 3; i++) add(&m, i, 10);
  tmesh_fair_writer_remove(&m.w, &m.s[0]);
  tmesh_fair_writer_remove(&m.w, &m.s[1]);
  assert_int_equal(send(&m), 2);
  assert_int_equal(send(&m), STREAMS);
}

static void bulk_streams_share_within_5_percent(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 20; seed++) {
    static struct model m;
    struct prng p = prng_init(seed);
    const unsigned bulk = 2 + prng_below(&p, 15);
    init(&m);
    for (unsigned i = 0; i < bulk; i++) {
      make_bulk(&m, i);
      add(&m, i, 1 + prng_below(&p, 300000));
    }
    for (p.step = 0; p.step < 200 * bulk; p.step++) {
      unsigned i = send(&m);
      PROPERTY(&p, i < bulk);
      /* Refilled in pieces of any size, as a socket would, before it runs dry. */
      while (m.s[i].out.len_bytes < 2 * QUANTUM) add(&m, i, 1 + prng_below(&p, 70000));
    }
    uint64_t mean = m.all_bytes / bulk;
    for (unsigned i = 0; i < bulk; i++) {
      PROPERTY(&p, m.sent_bytes[i] * 100 >= mean * 95 && m.sent_bytes[i] * 100 <= mean * 105);
    }
  }
}

/* What opens without an end do to one bulk stream: half of the line is its own. */
static void fresh_bytes_are_at_most_one_quantum_per_round(void** state) {
  (void)state;
  for (unsigned bulk = 1; bulk <= 4; bulk++) {
    static struct model m;
    struct prng p = prng_init(bulk);
    uint64_t visits = 0;
    init(&m);
    for (unsigned i = 0; i < bulk; i++) {
      make_bulk(&m, i);
      add(&m, i, 1u << 30);
    }
    for (p.step = 0; p.step < 5000; p.step++) {
      for (unsigned i = bulk; i < STREAMS; i++) {
        /* As soon as one has sent something it is a new one. */
        if (m.sent_bytes[i] > 0) m.s[i].first_bytes = 0, m.sent_bytes[i] = 0;
        if (m.s[i].out.len_bytes == 0) add(&m, i, 1 + prng_below(&p, FRESH));
      }
      if (send(&m) == 0) visits++;
      PROPERTY(&p, m.fresh_bytes <= (visits + 2) * QUANTUM);
    }
    PROPERTY(&p, visits > 5000 / (8 * (bulk + 4)));
    PROPERTY(&p, m.fresh_bytes >= visits * QUANTUM / 2); /* and they do get it */
  }
}

/* Any mix: whoever is active is served after at most one quantum of each other stream of
 * the ring, and two of fresh ones (the rest of this round's and the next one's); a fresh one
 * after the fresh ones before it, each round of which takes one quantum of everybody. */
static void nobody_starves_and_order_holds(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 300; seed++) {
    static struct model m;
    struct prng p = prng_init(seed);
    const unsigned streams = 1 + prng_below(&p, STREAMS);
    init(&m);
    for (unsigned i = 0; i < streams; i++) {
      if (prng_below(&p, 2) == 0) make_bulk(&m, i);
      if (prng_below(&p, 3) == 0) {
        tmesh_send_window_init(&m.s[i].send, 1 + prng_below(&p, 100000), UINT32_MAX);
        m.s[i].send.cap_bytes = UINT32_MAX;
      }
    }
    for (p.step = 0; p.step < 2000; p.step++) {
      unsigned i = prng_below(&p, streams);
      switch (prng_below(&p, 6)) {
        case 0:
        case 1:
          if (!m.s[i].out_eof) add(&m, i, 1 + prng_below(&p, 90000));
          break;
        case 2:
          if (m.s[i].send.is_limited) {
            (void)!tmesh_is_ok(tmesh_send_window_grant(&m.s[i].send, 1 + prng_below(&p, 90000)));
          }
          update(&m, i);
          break;
        case 3:
          if (prng_below(&p, 20) == 0) m.s[i].out_eof = true;
          update(&m, i);
          break;
        default:
          (void)send(&m);
      }
      for (unsigned k = 0; k < streams; k++) {
        if (m.waits_since[k] == 0) continue;
        uint64_t waited = m.all_bytes - (m.waits_since[k] - 1);
        uint64_t ring = (uint64_t)(streams + 2) * QUANTUM;
        PROPERTY(&p, waited <= (m.s[k].place == TMESH_PLACE_FRESH ? (streams + 1) * ring : ring));
      }
    }
    while (send(&m) != STREAMS) p.step++;
    for (unsigned k = 0; k < streams; k++) {
      /* Everything left, but for what has no credit. */
      bool is_stuck = m.s[k].send.is_limited && m.s[k].send.credit_bytes == 0;
      PROPERTY(&p, m.s[k].out.len_bytes == 0 || is_stuck);
      PROPERTY(&p, m.sent_bytes[k] + m.s[k].out.len_bytes == m.added_bytes[k]);
      PROPERTY(&p, m.is_ended[k] == (m.s[k].out_eof && m.s[k].out.len_bytes == 0));
      PROPERTY(&p, m.s[k].first_bytes <= FRESH);
    }
  }
}

static void a_fresh_stream_is_next_while_the_round_has_room_for_it(void** state) {
  (void)state;
  static struct model m;
  init(&m);
  for (unsigned i = 4; i < 7; i++) {
    make_bulk(&m, i);
    add(&m, i, 1u << 20);
  }
  assert_int_equal(send(&m), 4);
  add(&m, 1, FRESH);
  add(&m, 2, FRESH);
  add(&m, 3, 1);
  assert_int_equal(send(&m), 1);
  assert_int_equal(send(&m), 2);
  assert_int_equal(send(&m), 5); /* the quantum is used up: the rest of bulk, then the next round */
  assert_int_equal(send(&m), 6);
  assert_int_equal(send(&m), 3);
  assert_int_equal(send(&m), 4);
}

static void early_data_ends_at_its_limit_until_the_answer(void** state) {
  (void)state;
  static struct model m;
  init(&m);
  m.s[0].state = TMESH_STREAM_OPENING;
  m.s[0].is_opener = m.s[0].has_early_data = true;
  m.s[0].out_eof = true;
  add(&m, 0, FRESH + 1); /* more than may ever come: the writer does not rely on it */
  assert_int_equal(send(&m), 0);
  assert_int_equal(m.sent_bytes[0], FRESH);
  assert_int_equal(send(&m), STREAMS);
  m.s[0].state = TMESH_STREAM_OPEN;
  update(&m, 0);
  assert_int_equal(send(&m), 0);
  assert_int_equal(send(&m), 0);
  assert_true(m.is_ended[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_send_is_idle),
      cmocka_unit_test(a_stream_that_was_removed_is_not_served),
      cmocka_unit_test(bulk_streams_share_within_5_percent),
      cmocka_unit_test(fresh_bytes_are_at_most_one_quantum_per_round),
      cmocka_unit_test(nobody_starves_and_order_holds),
      cmocka_unit_test(a_fresh_stream_is_next_while_the_round_has_room_for_it),
      cmocka_unit_test(early_data_ends_at_its_limit_until_the_answer),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
