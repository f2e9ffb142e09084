/* Operation sequences on two connected muxes, with frames of a hostile peer in between:
 * opens, early data, writes, datagrams, ends, time and round-trip times that make windows grow, and a
 * pool whose memory others take away.
 *
 * The first two bytes choose the configuration, then every operation takes one byte and its
 * arguments. All invariants of both muxes are checked after each operation. As long as
 * no hostile frame was injected, neither side may see the other break the protocol:
 * whatever users do through the API must be legal on the wire. At the end everything is
 * released, and every block must be back in the pool. */
#include <stdlib.h>

#include "fuzz/fuzz.h"
#include "fuzz/mux_world.h"
/* --- operations ------------------------------------------------------------------------ */

static void open_stream(struct side* s, struct input* in) {
  if (!s->mux.config.is_opener) return;
  uint8_t how = take(in);
  struct tmesh_open_stream open = {
      .protocol = how % 16 >= 14 ? TMESH_OPEN_UDP : TMESH_OPEN_TCP, .target_host = "h", .target_port = 80};
  struct tmesh_open_params params = {&open, (how & 1) != 0,
                                     (how & 2) != 0   ? 262144u
                                     : (how & 4) != 0 ? 1000u
                                                      : 0u};
  struct tmesh_status why;
  struct tmesh_stream* stream = tmesh_mux_open(&s->mux, &params, &why);
  TMESH_ASSERT((stream == NULL) == !tmesh_is_ok(why));
  if (stream != NULL) user_adopt(s, stream);
}

static void write_some(struct user* u, size_t n) {
  static const uint8_t bytes[65536];
  size_t room = tmesh_stream_out_room(u->stream);
  if (u->stream->is_datagram) {
    const size_t queued_bytes = u->stream->out.len_bytes;
    struct tmesh_status st = tmesh_stream_send_datagram(u->stream, bytes, n);
    const size_t added_bytes = tmesh_is_ok(st) ? n + TMESH_DATAGRAM_PREFIX_BYTES : 0;
    TMESH_ASSERT(u->stream->out.len_bytes == queued_bytes + added_bytes && added_bytes <= room);
    return;
  }
  size_t done = tmesh_stream_write(u->stream, bytes, n);
  TMESH_ASSERT(done <= n && done <= room);
}

static void consume(struct user* u, size_t n) {
  struct tmesh_stream* s = u->stream;
  if (s->is_datagram) {
    static uint8_t out[TMESH_DATAGRAM_MAX_BYTES];
    size_t len;
    while (tmesh_stream_peek_datagram(s, out, n, &len) && len <= n) {
      tmesh_stream_take_datagram(s);
      n -= len;
    }
    return;
  }
  if (n > s->in.len_bytes) n = s->in.len_bytes;
  tmesh_chunkq_consume(&s->in, n);
  tmesh_stream_consumed(s, n);
}

static void splice(struct side* s, unsigned a, unsigned b) {
  struct user* ends[2] = {&s->users[a % USERS_MAX], &s->users[b % USERS_MAX]};
  if (ends[0] == ends[1]) return;
  for (int i = 0; i < 2; i++) {
    if (ends[i]->stream == NULL || ends[i]->splice >= 0) return;
  }
  if (ends[0]->stream->is_datagram != ends[1]->stream->is_datagram) return; /* nobody joins those */
  int k = 0;
  while (k < (int)SPLICES_MAX && s->ends[k][0] != NULL) k++;
  TMESH_ASSERT(k < (int)SPLICES_MAX);
  for (int i = 0; i < 2; i++) {
    s->ends[k][i] = ends[i];
    ends[i]->splice = k;
  }
  struct tmesh_splice* sp = &s->splices[k];
  tmesh_splice_init(sp, tmesh_stream_end(ends[0]->stream), tmesh_stream_end(ends[1]->stream), s,
                    user_on_done);
  /* An end that is over already told its former user; a splice would wait for ever. */
  for (int i = 0; i < 2; i++) {
    if (ends[i]->stream != NULL && ends[i]->stream->state == TMESH_STREAM_RESET) {
      tmesh_splice_broken(sp, i, tmesh_err_stream(TMESH_E_RESET));
      return;
    }
  }
  tmesh_splice_start(sp);
}

static void answer(struct user* u, bool accepted) {
  if (u->stream->is_opener ||
      (u->stream->state != TMESH_STREAM_OPENING && !tmesh_stream_is_over(u->stream->state))) {
    return;
  }
  struct tmesh_open_result result =
      accepted ? tmesh_open_accept() : tmesh_open_refuse(TMESH_STAGE_DNS, TMESH_OPEN_HOST_UNREACHABLE, true);
  tmesh_stream_answer(u->stream, &result);
}

static void user_operation(struct side* s, unsigned op, struct input* in) {
  struct user* u = &s->users[take(in) % USERS_MAX];
  if (u->stream == NULL) return;
  switch (op) {
    case 0:
      if (u->splice < 0) write_some(u, (size_t)take(in) * 256);
      break;
    case 1:
      if (u->splice < 0) tmesh_stream_finish(u->stream);
      break;
    case 2:
      if (u->splice < 0) tmesh_stream_reset(u->stream);
      break;
    case 3:
      user_release(u);
      break;
    case 4:
      if (u->splice < 0) consume(u, (size_t)take(in) * 1024);
      break;
    default:
      answer(u, take(in) % 4 != 0);
  }
}

/* --- time, path, memory ------------------------------------------------------------------ */

static void pass_to_now(struct world* w) {
  for (int i = 0; i < 2; i++) tmesh_mux_set_time(&w->sides[i].mux, w->now_us);
}

static void pass_time(struct world* w, struct input* in) {
  w->now_us += (uint64_t)take(in) * take(in) * 256;
  pass_to_now(w);
}

/* As the loop's timer does. */
static void pass_until_due(struct world* w) {
  for (int i = 0; i < 2; i++) {
    uint64_t due_us = tmesh_mux_due_us(&w->sides[i].mux);
    if (due_us != UINT64_MAX && due_us > w->now_us) w->now_us = due_us;
  }
  pass_to_now(w);
  for (int i = 0; i < 2; i++) {
    uint64_t due_us = tmesh_mux_due_us(&w->sides[i].mux);
    TMESH_ASSERT(due_us > w->now_us);
  }
}

static void reset_stalled(struct side* s, struct input* in) {
  size_t n = tmesh_mux_reset_stalled(&s->mux, s->world->now_us, (uint64_t)take(in) << 12);
  TMESH_ASSERT(n <= USERS_MAX);
}

/* Other users of the pool take blocks and give them back. */
static void press(struct world* w, struct input* in) {
  unsigned count = take(in) % (HELD_MAX_COUNT + 1);
  while (w->held_count > count) tmesh_pool_put(&w->pool, w->held[--w->held_count]);
  while (w->held_count < count) {
    struct tmesh_block* b = tmesh_pool_get(&w->pool);
    if (b == NULL) return;
    w->held[w->held_count++] = b;
  }
}

static void surroundings(struct side* s, unsigned op, struct input* in) {
  switch (op) {
    case 0:
      pass_time(s->world, in);
      break;
    case 1:
      tmesh_mux_set_rtt(&s->mux, (uint64_t)take(in) * 1000);
      break;
    case 2:
      press(s->world, in);
      break;
    case 3:
      reset_stalled(s, in);
      break;
    case 4:
      tmesh_mux_set_coalesce(&s->mux, take(in) % 2 == 0 ? 0 : TMESH_COALESCE_US);
      break;
    default:
      pass_until_due(s->world);
  }
}

static void operation(struct world* w, struct input* in) {
  uint8_t code = take(in);
  struct side* s = &w->sides[code & 1];
  unsigned op = (code >> 1) % 23;
  if (op >= 17) {
    surroundings(s, op - 17, in);
    return;
  }
  if (op >= 11) {
    user_operation(s, op - 11, in);
    return;
  }
  switch (op) {
    case 0:
      open_stream(s, in);
      break;
    case 1:
    case 2:
      wire_pull(s, op == 1 ? PULL_MAX_BYTES : take(in));
      break;
    case 3:
      if (s->mux.is_batch_open) tmesh_mux_written(&s->mux);
      break;
    case 4:
      wire_deliver(s, PIPE_MAX_BYTES);
      break;
    case 5:
      wire_deliver(s, take(in));
      break;
    case 6:
      tmesh_mux_dispatch(&s->mux);
      break;
    case 7:
      wire_inject(s, in);
      break;
    case 8: {
      static const uint8_t payload[40];
      uint8_t len = take(in) % 40;
      (void)!tmesh_is_ok(
          tmesh_mux_control(&s->mux, len == 39 ? TMESH_FRAME_GOAWAY : TMESH_FRAME_PING, payload, len));
      break;
    }
    case 9:
      splice(s, take(in), take(in));
      break;
    default:
      if (take(in) == 0xff) tmesh_mux_fail(&s->mux, tmesh_err_session(TMESH_E_CLOSED));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct input in = {data, size};
  struct world* w = calloc(1, sizeof *w);
  TMESH_ASSERT(w != NULL);
  uint8_t how = take(&in);
  world_start(w, how, take(&in));
  while (in.left > 0) {
    operation(w, &in);
    world_check(w);
  }
  world_stop(w);
  free(w);
  return 0;
}
