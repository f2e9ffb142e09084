/* Two ends of a splice that only keep notes, and a splice between them. */
#ifndef TMESH_TESTS_MUX_NOTE_END_H
#define TMESH_TESTS_MUX_NOTE_END_H

/* cmocka.h needs these four first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "core/mux/splice.h"

struct note_end {
  struct tmesh_chunkq in, out;
  size_t room_max;
  bool is_closed_for_writing;
  unsigned added_count, finish_count, abort_count;
  size_t consumed_bytes;
  /* raised from inside an op, to test re-entrancy */
  struct tmesh_splice* nested;
  int nested_end;
  bool breaks_in_added, writes_in_added, cancels_in_added;
};

static inline size_t note_room(void* impl) {
  struct note_end* e = impl;
  return e->is_closed_for_writing || e->out.len_bytes >= e->room_max ? 0 : e->room_max - e->out.len_bytes;
}
static inline void note_added(void* impl) {
  struct note_end* e = impl;
  e->added_count++;
  if (e->breaks_in_added) tmesh_splice_broken(e->nested, e->nested_end, tmesh_err_stream(TMESH_E_IO));
  if (e->cancels_in_added) tmesh_splice_cancel(e->nested);
  if (e->writes_in_added) {
    size_t n = e->out.len_bytes;
    tmesh_chunkq_clear(&e->out);
    tmesh_splice_written(e->nested, e->nested_end, n, true);
  }
}
static inline void note_finish(void* impl) {
  ((struct note_end*)impl)->finish_count++;
}
static inline void note_consumed(void* impl, size_t n) {
  ((struct note_end*)impl)->consumed_bytes += n;
}
static inline void note_abort_end(void* impl) {
  ((struct note_end*)impl)->abort_count++;
}
static const struct tmesh_end_ops note_ops = {note_room, note_added, note_finish, note_consumed,
                                              note_abort_end};

struct fixture {
  struct tmesh_pool pool;
  struct note_end e[2];
  struct tmesh_splice sp;
  unsigned done_count;
  struct tmesh_status why;
  int broken;
};

static inline void on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
  struct fixture* f = ctx;
  assert_ptr_equal(sp, &f->sp);
  f->done_count++;
  f->why = why;
  f->broken = broken;
  memset(sp, 0xa5, sizeof *sp); /* the owner may free it here: nobody may look at it again */
  sp->is_done = true;
}

static inline struct tmesh_end end_of(struct note_end* e) {
  return (struct tmesh_end){.ops = &note_ops, .impl = e, .in = &e->in, .out = &e->out};
}

static inline void start(struct fixture* f) {
  memset(f, 0, sizeof *f);
  tmesh_pool_init(&f->pool, 8u << 20, 0);
  for (int i = 0; i < 2; i++) {
    tmesh_chunkq_init(&f->e[i].in, &f->pool);
    tmesh_chunkq_init(&f->e[i].out, &f->pool);
    f->e[i].room_max = 100000;
    f->e[i].nested = &f->sp;
    f->e[i].nested_end = i;
  }
  tmesh_splice_init(&f->sp, end_of(&f->e[0]), end_of(&f->e[1]), f, on_done);
}

static inline void stop(struct fixture* f) {
  for (int i = 0; i < 2; i++) {
    tmesh_chunkq_clear(&f->e[i].in);
    tmesh_chunkq_clear(&f->e[i].out);
  }
  assert_int_equal(f->pool.live_count, 0);
  tmesh_pool_close(&f->pool);
}

static inline void feed(struct fixture* f, int i, size_t n) {
  static const uint8_t zeros[65536];
  while (n > 0) {
    size_t part = n < sizeof zeros ? n : sizeof zeros;
    assert_true(tmesh_is_ok(tmesh_chunkq_append(&f->e[i].in, zeros, part)));
    n -= part;
  }
  tmesh_splice_readable(&f->sp, i);
}

static inline void write_out(struct fixture* f, int i, size_t n) {
  tmesh_chunkq_consume(&f->e[i].out, n);
  tmesh_splice_written(&f->sp, i, n, f->e[i].out.len_bytes == 0);
}

#endif
