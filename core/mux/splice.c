#include "core/mux/splice.h"

#include "core/base/check.h"
#include "core/mux/stream.h"

void tmesh_splice_init(struct tmesh_splice* sp, struct tmesh_end a, struct tmesh_end b, void* ctx,
                       void (*on_done)(void* ctx, struct tmesh_splice* splice, struct tmesh_status why,
                                       int broken)) {
  *sp = (struct tmesh_splice){.ends = {a, b}, .ctx = ctx, .on_done = on_done};
  for (int i = 0; i < 2; i++) {
    struct tmesh_end* e = &sp->ends[i];
    if (e->foreign_bytes < e->out->len_bytes) e->foreign_bytes = e->out->len_bytes;
  }
}

static void end_broken(struct tmesh_splice* sp, int i, struct tmesh_status why) {
  sp->is_ending = true;
  sp->why = why;
  sp->broken = i;
  bool was_running = sp->is_running;
  sp->is_running = true;
  sp->ends[1 - i].ops->abort(sp->ends[1 - i].impl);
  sp->is_running = was_running;
}

/* Moves what arrived at end i on to the other end. */
static void pump(struct tmesh_splice* sp, int i) {
  struct tmesh_end* from = &sp->ends[i];
  struct tmesh_end* to = &sp->ends[1 - i];
  if (to->is_finished) return;
  if (from->in->len_bytes > 0) {
    size_t room = to->ops->room(to->impl);
    size_t n = room == 0 ? 0 : tmesh_chunkq_move(to->out, from->in, room);
    if (n > 0) {
      sp->moved_bytes[i] += n;
      to->ops->added(to->impl);
    } else if (room > 0 && sp->moved_bytes[i] == sp->consumed_bytes[i] && to->foreign_bytes == 0) {
      /* The pool refused a block for a part of one, and nothing is under way whose end would
       * call us again: better an error than a stall. Ends that take a whole block when
       * they are empty never come here: a block moves by pointer. */
      end_broken(sp, i, tmesh_err_stream(TMESH_E_NO_MEMORY));
      return;
    }
  }
  if (from->in->len_bytes == 0 && from->in_eof) {
    to->is_finished = true;
    to->ops->finish(to->impl);
  }
}

/* Whether end i answers and something of it is not written yet, its regular end included. */
static bool has_last_bytes(const struct tmesh_splice* sp, int i) {
  const struct tmesh_end* from = &sp->ends[i];
  const struct tmesh_end* to = &sp->ends[1 - i];
  if (from->side != TMESH_END_ANSWERS && to->side != TMESH_END_ASKS) return false;
  return from->in->len_bytes > 0 || sp->moved_bytes[i] > sp->consumed_bytes[i] ||
         (from->in_eof && !to->is_drained);
}

/* Every event ends here; on_done is the last thing that happens. */
static void run(struct tmesh_splice* sp) {
  if (sp->is_running) return;
  sp->is_running = true;
  uint64_t before;
  do {
    before = sp->moved_bytes[0] + sp->moved_bytes[1] + sp->consumed_bytes[0] + sp->consumed_bytes[1];
    for (int i = 0; i < 2 && !sp->is_ending; i++) {
      if (!sp->is_leaving || i == sp->broken) pump(sp, i);
    }
    /* A nested event (an end that is written synchronously) may have made room. */
  } while (!sp->is_ending &&
           before != sp->moved_bytes[0] + sp->moved_bytes[1] + sp->consumed_bytes[0] + sp->consumed_bytes[1]);
  if (!sp->is_ending && sp->is_leaving && !has_last_bytes(sp, sp->broken)) {
    end_broken(sp, sp->broken, sp->why);
  }
  sp->is_running = false;
  if (sp->is_done) return; /* cancelled from inside an end op */
  if (!sp->is_ending && sp->ends[0].is_drained && sp->ends[1].is_drained) {
    sp->is_ending = true;
    sp->why = tmesh_ok();
    sp->broken = -1;
  }
  if (!sp->is_ending) return;
  sp->is_done = true;
  sp->on_done(sp->ctx, sp, sp->why, sp->broken);
}

static void note_written(struct tmesh_splice* sp, int i, size_t n, bool all_written) {
  struct tmesh_end* to = &sp->ends[i];
  struct tmesh_end* from = &sp->ends[1 - i];
  size_t foreign = n < to->foreign_bytes ? n : to->foreign_bytes;
  to->foreign_bytes -= foreign;
  n -= foreign;
  uint64_t open_bytes = sp->moved_bytes[1 - i] - sp->consumed_bytes[1 - i];
  if (n > open_bytes) n = (size_t)open_bytes;
  if (all_written && to->is_finished) to->is_drained = true;
  if (n == 0) return;
  sp->consumed_bytes[1 - i] += n;
  from->ops->consumed(from->impl, n);
}

void tmesh_splice_start(struct tmesh_splice* sp) {
  if (!sp->is_done) run(sp);
}

void tmesh_splice_readable(struct tmesh_splice* sp, int i) {
  (void)i;
  if (!sp->is_done) run(sp);
}

void tmesh_splice_eof(struct tmesh_splice* sp, int i) {
  if (sp->is_done) return;
  sp->ends[i].in_eof = true;
  run(sp);
}

void tmesh_splice_written(struct tmesh_splice* sp, int i, size_t n, bool all_written) {
  if (sp->is_done || sp->is_ending) return;
  /* consumed() may come back with an event; it must find the splice running. */
  bool was_running = sp->is_running;
  sp->is_running = true;
  note_written(sp, i, n, all_written);
  sp->is_running = was_running;
  run(sp);
}

void tmesh_splice_broken(struct tmesh_splice* sp, int i, struct tmesh_status why) {
  if (sp->is_done || sp->is_ending) return;
  if (sp->ends[i].in_eof && sp->ends[i].is_drained) return;
  TMESH_ASSERT(!tmesh_is_ok(why));
  const bool is_reset = why.code == TMESH_E_RESET && why.scope == TMESH_SCOPE_STREAM;
  if (is_reset && sp->is_leaving && i == sp->broken) {
    /* Told twice: a stream shows its reset with the answer before it (EV_RESULT), then as its end. */
  } else if (is_reset && !sp->is_leaving && has_last_bytes(sp, i)) {
    sp->is_leaving = true;
    sp->why = why;
    sp->broken = i;
  } else {
    end_broken(sp, i, why);
  }
  run(sp);
}

void tmesh_splice_cancel(struct tmesh_splice* sp) {
  if (sp->is_done) return;
  sp->is_done = true;
  sp->is_ending = true;
  sp->ends[0].ops->abort(sp->ends[0].impl);
  sp->ends[1].ops->abort(sp->ends[1].impl);
}

/* --- a stream as an end -------------------------------------------------------------- */

static size_t stream_room(void* impl) {
  struct tmesh_stream* s = impl;
  size_t room_bytes = tmesh_stream_out_room(s);
  if (s->state != TMESH_STREAM_OPENING) return room_bytes;
  /* What has no room now is fetched when the answer comes; so is what a full pool has no block for. */
  if (tmesh_pool_pressure(s->out.pool) == TMESH_PRESSURE_FULL) room_bytes = 0;
  if (room_bytes == 0) s->waits_for_answer = true;
  return room_bytes;
}
static void stream_added(void* impl) {
  tmesh_stream_out_added(impl);
}
static void stream_finish(void* impl) {
  tmesh_stream_finish(impl);
}
static void stream_consumed(void* impl, size_t n) {
  tmesh_stream_consumed(impl, n);
}
static void stream_abort(void* impl) {
  tmesh_stream_reset(impl);
}

static const struct tmesh_end_ops stream_ops = {stream_room, stream_added, stream_finish, stream_consumed,
                                                stream_abort};

struct tmesh_end tmesh_stream_end(struct tmesh_stream* s) {
  return (struct tmesh_end){.ops = &stream_ops,
                            .impl = s,
                            .in = &s->in,
                            .out = &s->out,
                            .foreign_bytes = s->out.len_bytes + s->batched_bytes + s->written_bytes,
                            .side = s->is_opener ? TMESH_END_ANSWERS : TMESH_END_ASKS,
                            .in_eof = s->in_eof};
}

void tmesh_splice_stream_event(struct tmesh_splice* sp, int i, struct tmesh_stream* s, unsigned events) {
  if (sp->is_done) return;
  if (s->in_eof) sp->ends[i].in_eof = true;
  bool is_refused = (events & TMESH_STREAM_EV_RESULT) != 0 && s->state == TMESH_STREAM_RESET;
  if ((events & TMESH_STREAM_EV_OVER) != 0 || is_refused) {
    tmesh_splice_broken(sp, i, s->over);
    return;
  }
  /* One run for all flags: on_done may free the splice, so nothing may follow it. */
  if ((events & TMESH_STREAM_EV_WRITTEN) != 0) {
    tmesh_splice_written(sp, i, s->written_bytes, tmesh_stream_all_written(s));
  } else {
    run(sp);
  }
}

void tmesh_splice_check(const struct tmesh_splice* sp) {
  for (int i = 0; i < 2; i++) {
    const struct tmesh_end* e = &sp->ends[i];
    TMESH_ASSERT(sp->consumed_bytes[i] <= sp->moved_bytes[i]);
    TMESH_ASSERT(!e->is_drained || e->is_finished);
    /* A finished end got everything its partner had read. */
    if (!sp->is_ending && e->is_finished) {
      TMESH_ASSERT(sp->ends[1 - i].in_eof && sp->ends[1 - i].in->len_bytes == 0);
    }
    TMESH_ASSERT(!sp->is_running);
  }
  TMESH_ASSERT(!sp->is_done || sp->is_ending);
}
