#include "sim_end.h"

static size_t room(void* impl) {
  struct sim_end* e = impl;
  if (e->is_aborted || e->is_finish_asked || e->out.len_bytes >= e->out_max_bytes) return 0;
  return e->out_max_bytes - e->out.len_bytes;
}
static void added(void* impl) {
  struct sim_end* e = impl;
  SIM_CHECK(!e->is_finish_asked && e->out.len_bytes <= e->out_max_bytes);
}
static void finish(void* impl) {
  struct sim_end* e = impl;
  SIM_CHECK(!e->is_finish_asked);
  e->is_finish_asked = true;
}
static void consumed(void* impl, size_t n) {
  struct sim_end* e = impl;
  e->consumed_bytes += n;
  SIM_CHECK(e->consumed_bytes <= e->produced_bytes);
  if (e->in.len_bytes < e->in_max_bytes) e->is_paused = false;
}
static void abort_end(void* impl) {
  sim_end_abort(impl);
}
static const struct tmesh_end_ops ops = {room, added, finish, consumed, abort_end};

void sim_end_init(struct sim_end* e, struct tmesh_pool* pool, unsigned stream, unsigned direction) {
  *e = (struct sim_end){.stream = stream,
                        .direction = direction,
                        .in_max_bytes = 65536,
                        .read_max_bytes = 32768,
                        .out_max_bytes = 262144,
                        .write_max_bytes = 65536,
                        .sends_eof = true};
  tmesh_chunkq_init(&e->in, pool);
  tmesh_chunkq_init(&e->out, pool);
}

struct tmesh_end sim_end_of(struct sim_end* e) {
  return (struct tmesh_end){.ops = &ops, .impl = e, .in = &e->in, .out = &e->out, .in_eof = e->is_eof_sent};
}

bool sim_end_wants_read(const struct sim_end* e) {
  if (!e->is_started || e->is_aborted || e->is_paused) return false;
  return e->produced_bytes < e->total_bytes || (e->sends_eof && !e->is_eof_sent);
}

bool sim_end_wants_write(const struct sim_end* e) {
  if (e->is_aborted || e->is_stalled || e->splice == NULL) return false;
  return e->out.len_bytes > 0 || (e->is_finish_asked && !e->is_finish_done);
}

void sim_end_read(struct sim_end* e, struct sim_rng* rng, uint64_t now_us) {
  e->next_read_us = now_us + sim_below(rng, e->read_gap_us + 1);
  uint64_t left = e->total_bytes - e->produced_bytes;
  if (left == 0) {
    e->is_eof_sent = true;
    if (e->splice != NULL) tmesh_splice_eof(e->splice, e->index);
    return;
  }
  uint64_t want = sim_range(rng, 1, e->read_max_bytes);
  if (want > left) want = left;
  size_t have;
  uint8_t* to = tmesh_chunkq_reserve(&e->in, &have);
  if (to == NULL) { /* as a socket out of memory: it goes on when something was consumed */
    e->is_paused = e->produced_bytes > e->consumed_bytes;
    e->next_read_us = now_us + 1000; /* or after a rest */
    return;
  }
  if (want > have) want = have;
  for (uint64_t i = 0; i < want; i++) to[i] = sim_byte(e->stream, e->direction, e->produced_bytes + i);
  tmesh_chunkq_commit(&e->in, (size_t)want);
  e->produced_bytes += want;
  if (e->in.len_bytes >= e->in_max_bytes) e->is_paused = true;
  if (e->splice != NULL) tmesh_splice_readable(e->splice, e->index);
}

void sim_end_write(struct sim_end* e, struct sim_rng* rng, uint64_t now_us) {
  e->next_write_us = now_us + sim_below(rng, e->write_gap_us + 1);
  size_t n = (size_t)sim_range(rng, 1, e->write_max_bytes);
  if (n > e->out.len_bytes) n = e->out.len_bytes;
  size_t left = n;
  while (left > 0) {
    struct tmesh_span span;
    SIM_CHECK(tmesh_chunkq_peek(&e->out, &span, 1) == 1);
    size_t part = span.len_bytes < left ? span.len_bytes : left;
    for (size_t i = 0; i < part; i++) {
      SIM_CHECK(span.data[i] == sim_byte(e->stream, !e->direction, e->received_bytes + i));
    }
    e->received_bytes += part;
    tmesh_chunkq_consume(&e->out, part);
    left -= part;
  }
  if (e->is_finish_asked && e->out.len_bytes == 0) e->is_finish_done = true;
  tmesh_splice_written(e->splice, e->index, n,
                       e->out.len_bytes == 0 && (!e->is_finish_asked || e->is_finish_done));
}

void sim_end_abort(struct sim_end* e) {
  e->is_aborted = true;
  tmesh_chunkq_clear(&e->in);
  tmesh_chunkq_clear(&e->out);
}

void sim_end_check(const struct sim_end* e) {
  tmesh_chunkq_check(&e->in);
  tmesh_chunkq_check(&e->out);
  SIM_CHECK(e->out.len_bytes <= e->out_max_bytes);
  SIM_CHECK(e->in.len_bytes <= e->in_max_bytes + TMESH_BLOCK_BYTES);
  SIM_CHECK(e->consumed_bytes <= e->produced_bytes);
}
