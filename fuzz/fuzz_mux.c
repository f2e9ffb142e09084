/* Operation sequences on two connected muxes, with frames of a hostile peer in between.
 *
 * The first byte chooses the configuration, then every operation takes one byte and its
 * arguments. All invariants of both muxes are checked after each operation. As long as
 * no hostile frame was injected, neither side may see the other break the protocol:
 * whatever users do through the API must be legal on the wire. At the end everything is
 * released, and every block must be back in the pool. */
#include <stdlib.h>
#include <string.h>

#include "core/base/check.h"
#include "core/mux/mux.h"
#include "core/mux/splice.h"
#include "fuzz/fuzz.h"

#define USERS_MAX 12u
#define SPLICES_MAX (USERS_MAX / 2)
#define PIPE_MAX_BYTES (1u << 20)
#define PULL_MAX_BYTES 65536u

struct input {
  const uint8_t* at;
  size_t left;
};

struct user {
  struct side* side;
  struct tmesh_stream* stream; /* NULL = free place */
  int splice;                  /* index into side->splices, or -1 */
};

struct side {
  struct world* world;
  struct side* other;
  struct tmesh_mux mux;
  struct user users[USERS_MAX];
  struct tmesh_splice splices[SPLICES_MAX];
  struct user* ends[SPLICES_MAX][2]; /* NULL = no splice here */
  /* bytes on their way to the other side */
  uint8_t* pipe;
  size_t pipe_len, pipe_at;
  struct tmesh_frame_decoder decoder; /* of what arrives here */
  bool is_in_message;
};

struct world {
  struct tmesh_pool pool;
  struct side sides[2]; /* 0 opens */
  bool is_hostile;
  bool releases_in_callback, answers_at_once, ignores_opens;
};

static uint8_t take(struct input* in) {
  if (in->left == 0) return 0;
  in->left--;
  return *in->at++;
}
static uint32_t take32(struct input* in) {
  uint32_t v = 0;
  for (int i = 0; i < 4; i++) v = v << 8 | take(in);
  return v;
}

/* --- users -------------------------------------------------------------------------- */

static void forget(struct user* u) {
  u->stream = NULL;
  u->splice = -1;
}

static void on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
  struct side* s = ctx;
  int k = (int)(sp - s->splices);
  (void)why, (void)broken;
  TMESH_ASSERT(s->ends[k][0] != NULL); /* once */
  for (int i = 0; i < 2; i++) {
    struct user* u = s->ends[k][i];
    s->ends[k][i] = NULL;
    tmesh_stream_release(u->stream);
    forget(u);
  }
}

static void on_event(void* ctx, struct tmesh_stream* stream, unsigned events) {
  struct user* u = ctx;
  TMESH_ASSERT(u->stream == stream && events != 0);
  if (u->splice >= 0) {
    int i = u->side->ends[u->splice][0] == u ? 0 : 1;
    tmesh_splice_stream_event(&u->side->splices[u->splice], i, stream, events);
    return;
  }
  if ((events & TMESH_STREAM_EV_OVER) != 0) TMESH_ASSERT(events == TMESH_STREAM_EV_OVER);
  if ((events & TMESH_STREAM_EV_OVER) != 0 && u->side->world->releases_in_callback) {
    tmesh_stream_release(stream);
    forget(u);
  }
}

static void adopt(struct side* s, struct tmesh_stream* stream) {
  for (unsigned i = 0; i < USERS_MAX; i++) {
    struct user* u = &s->users[i];
    if (u->stream != NULL) continue;
    u->stream = stream;
    tmesh_stream_attach(stream, u, on_event);
    return;
  }
  tmesh_stream_release(stream);
}

static void on_open(void* ctx, struct tmesh_stream* stream, const struct tmesh_open_stream* open) {
  struct side* s = ctx;
  TMESH_ASSERT(open->protocol != TMESH_OPEN_UDP);
  if (s->world->ignores_opens && stream->id % 4 == 3) return;
  uint32_t id = stream->id;
  adopt(s, stream);
  if (!s->world->answers_at_once || tmesh_idmap_get(&s->mux.streams, id) != stream) return;
  struct tmesh_open_result ok = tmesh_open_accept();
  if (!stream->is_released) tmesh_stream_answer(stream, &ok);
}

static struct tmesh_status on_control(void* ctx, const struct tmesh_frame_header* h, const uint8_t* payload,
                                      size_t len_bytes) {
  (void)ctx, (void)h, (void)payload, (void)len_bytes;
  return tmesh_ok();
}
static void on_pong(void* ctx, const uint8_t* payload, size_t len_bytes) {
  (void)ctx, (void)payload;
  TMESH_ASSERT(len_bytes <= TMESH_ADVISORY_MAX_BYTES);
}

static const struct tmesh_mux_events events = {
    .on_open = on_open, .on_control = on_control, .on_pong = on_pong};

/* --- the wire ------------------------------------------------------------------------ */

static uint8_t* sink_begin(void* ctx, size_t len_bytes) {
  struct side* s = ctx;
  TMESH_ASSERT(s->pipe_len + len_bytes <= PIPE_MAX_BYTES);
  uint8_t* at = s->pipe + s->pipe_len;
  s->pipe_len += len_bytes;
  return at;
}
static void sink_end(void* ctx) {
  (void)ctx;
}

static void pull(struct side* s, size_t target_bytes) {
  if (s->mux.is_batch_open) return;
  if (s->pipe_at > 0) {
    memmove(s->pipe, s->pipe + s->pipe_at, s->pipe_len - s->pipe_at);
    s->pipe_len -= s->pipe_at;
    s->pipe_at = 0;
  }
  if (PIPE_MAX_BYTES - s->pipe_len < PULL_MAX_BYTES + TMESH_PULL_MESSAGE_MAX_BYTES) return;
  struct tmesh_sink sink = {s, sink_begin, sink_end};
  bool has_output = tmesh_mux_has_output(&s->mux);
  size_t n = tmesh_mux_pull(&s->mux, &sink, target_bytes);
  TMESH_ASSERT((n > 0) == (has_output && target_bytes > 0));
}

static void give(struct side* to, const uint8_t* data, size_t len) {
  size_t at = 0;
  for (;;) {
    if (!to->is_in_message) {
      if (at == len) return;
      tmesh_frame_decoder_begin(&to->decoder);
      to->is_in_message = true;
    }
    size_t used;
    struct tmesh_frame_event event;
    TMESH_ASSERT(tmesh_is_ok(tmesh_frame_decode(&to->decoder, data + at, len - at, &used, &event)));
    at += used;
    struct tmesh_status st = tmesh_ok();
    if (event.kind == TMESH_FRAME_EVENT_NONE) return;
    if (event.kind == TMESH_FRAME_EVENT_HEADER) st = tmesh_mux_frame_header(&to->mux, &to->decoder.header);
    if (event.kind == TMESH_FRAME_EVENT_PAYLOAD)
      st = tmesh_mux_frame_payload(&to->mux, event.data, event.len_bytes);
    if (event.kind == TMESH_FRAME_EVENT_END) {
      st = tmesh_mux_frame_end(&to->mux);
      to->is_in_message = false;
    }
    TMESH_ASSERT(tmesh_is_ok(st) || st.scope == TMESH_SCOPE_SESSION);
  }
}

static void deliver(struct side* from, size_t n) {
  if (n > from->pipe_len - from->pipe_at) n = from->pipe_len - from->pipe_at;
  give(from->other, from->pipe + from->pipe_at, n);
  from->pipe_at += n;
}

static void inject(struct side* to, struct input* in) {
  if (to->is_in_message) return; /* a message is never interrupted */
  struct tmesh_frame_header h = {.type = (uint8_t)(take(in) % TMESH_FRAME_TYPE_MAX + 1)};
  h.flags = take(in);
  h.stream_id = take(in) % 32;
  uint8_t how = take(in);
  h.window_bytes = (how & 1) != 0 ? take32(in) : take(in);
  h.length_bytes = (how & 2) != 0 ? (uint32_t)take(in) * 257 : take(in);
  uint8_t encoded[TMESH_FRAME_HEADER_BYTES];
  struct tmesh_status st = tmesh_frame_header_encode(encoded, &h);
  if (st.scope == TMESH_SCOPE_SESSION) return; /* the decoder would have ended the link */
  to->world->is_hostile = true;
  (void)!tmesh_is_ok(tmesh_mux_frame_header(&to->mux, &h));
  size_t left = h.length_bytes;
  while (left > 0) {
    static const uint8_t filler[4096];
    size_t part = in->left > 0 ? in->left : sizeof filler;
    if (part > left) part = left;
    const uint8_t* bytes = in->left > 0 ? in->at : filler;
    (void)!tmesh_is_ok(tmesh_mux_frame_payload(&to->mux, bytes, part));
    if (in->left > 0) {
      in->at += part;
      in->left -= part;
    }
    left -= part;
  }
  (void)!tmesh_is_ok(tmesh_mux_frame_end(&to->mux));
}

/* --- operations ------------------------------------------------------------------------ */

static void open_stream(struct side* s, struct input* in) {
  if (!s->mux.config.is_opener) return;
  uint8_t how = take(in);
  struct tmesh_open_stream open = {
      .protocol = how % 16 == 15 ? TMESH_OPEN_UDP : TMESH_OPEN_TCP, .target_host = "h", .target_port = 80};
  struct tmesh_open_params params = {&open, (how & 1) != 0,
                                     (how & 2) != 0   ? 262144u
                                     : (how & 4) != 0 ? 1000u
                                                      : 0u};
  struct tmesh_status why;
  struct tmesh_stream* stream = tmesh_mux_open(&s->mux, &params, &why);
  TMESH_ASSERT((stream == NULL) == !tmesh_is_ok(why));
  if (stream != NULL) adopt(s, stream);
}

static void write_some(struct user* u, size_t n) {
  static const uint8_t bytes[65536];
  size_t room = tmesh_stream_out_room(u->stream);
  size_t done = tmesh_stream_write(u->stream, bytes, n);
  TMESH_ASSERT(done <= n && done <= room);
}

static void consume(struct user* u, size_t n) {
  struct tmesh_stream* s = u->stream;
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
  int k = 0;
  while (k < (int)SPLICES_MAX && s->ends[k][0] != NULL) k++;
  TMESH_ASSERT(k < (int)SPLICES_MAX);
  for (int i = 0; i < 2; i++) {
    s->ends[k][i] = ends[i];
    ends[i]->splice = k;
  }
  struct tmesh_splice* sp = &s->splices[k];
  tmesh_splice_init(sp, tmesh_stream_end(ends[0]->stream), tmesh_stream_end(ends[1]->stream), s, on_done);
  /* An end that is over already told its former user; a splice would wait for ever. */
  for (int i = 0; i < 2; i++) {
    if (ends[i]->stream != NULL && ends[i]->stream->state == TMESH_STREAM_RESET) {
      tmesh_splice_broken(sp, i, tmesh_err_stream(TMESH_E_RESET));
      return;
    }
  }
  tmesh_splice_start(sp);
}

static void release(struct user* u) {
  if (u->splice >= 0) {
    int k = u->splice;
    tmesh_splice_cancel(&u->side->splices[k]);
    for (int i = 0; i < 2; i++) {
      struct user* end = u->side->ends[k][i];
      u->side->ends[k][i] = NULL;
      tmesh_stream_release(end->stream);
      forget(end);
    }
    return;
  }
  tmesh_stream_release(u->stream);
  forget(u);
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
      release(u);
      break;
    case 4:
      if (u->splice < 0) consume(u, (size_t)take(in) * 1024);
      break;
    default:
      answer(u, take(in) % 4 != 0);
  }
}

static void operation(struct world* w, struct input* in) {
  uint8_t code = take(in);
  struct side* s = &w->sides[code & 1];
  unsigned op = (code >> 1) % 17;
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
      pull(s, op == 1 ? PULL_MAX_BYTES : take(in));
      break;
    case 3:
      if (s->mux.is_batch_open) tmesh_mux_written(&s->mux);
      break;
    case 4:
      deliver(s, PIPE_MAX_BYTES);
      break;
    case 5:
      deliver(s, take(in));
      break;
    case 6:
      tmesh_mux_dispatch(&s->mux);
      break;
    case 7:
      inject(s, in);
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

/* --- the world ----------------------------------------------------------------------------- */

static void check(const struct world* w) {
  for (int i = 0; i < 2; i++) {
    const struct side* s = &w->sides[i];
    tmesh_mux_check(&s->mux);
    for (unsigned k = 0; k < SPLICES_MAX; k++) {
      if (s->ends[k][0] != NULL) tmesh_splice_check(&s->splices[k]);
    }
    if (w->is_hostile) continue;
    TMESH_ASSERT(s->mux.stats.protocol_resets_count == 0);
    TMESH_ASSERT(s->mux.stats.window_violations_count == 0);
    TMESH_ASSERT(s->mux.stats.unknown_frames_count == 0);
  }
}

static void start(struct world* w, uint8_t how, uint8_t limits) {
  tmesh_pool_init(&w->pool, (limits & 1) != 0 ? 6u * TMESH_BLOCK_BYTES : 64u << 20, 1u << 20);
  w->releases_in_callback = (limits & 2) != 0;
  w->answers_at_once = (limits & 4) != 0;
  w->ignores_opens = (limits & 8) != 0;
  for (int i = 0; i < 2; i++) {
    struct side* s = &w->sides[i];
    struct tmesh_mux_config config = {.pool = &w->pool,
                                      .events = &events,
                                      .events_ctx = s,
                                      .is_opener = i == 0,
                                      .has_open_result = (how & 1) != 0,
                                      .has_flow_control = (how & 2) != 0,
                                      .resets_unknown_data = (how & 4) != 0,
                                      .peer_is_ours = (how & 8) != 0,
                                      .initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
                                      .window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES,
                                      .inbound_max_bytes = (how & 16) != 0 ? 20000 : 262144,
                                      .outbound_max_bytes = 262144,
                                      .streams_max = (how & 32) != 0 ? 3 : 1000};
    s->world = w;
    s->other = &w->sides[1 - i];
    s->pipe = malloc(PIPE_MAX_BYTES);
    TMESH_ASSERT(s->pipe != NULL);
    for (unsigned k = 0; k < USERS_MAX; k++) {
      s->users[k].side = s;
      s->users[k].splice = -1;
    }
    TMESH_ASSERT(tmesh_is_ok(tmesh_mux_init(&s->mux, &config)));
  }
}

static void stop(struct world* w) {
  for (int i = 0; i < 2; i++) {
    struct side* s = &w->sides[i];
    for (unsigned k = 0; k < USERS_MAX; k++) {
      if (s->users[k].stream != NULL) release(&s->users[k]);
    }
    tmesh_mux_check(&s->mux);
    tmesh_mux_close(&s->mux);
    free(s->pipe);
  }
  TMESH_ASSERT(w->pool.live_count == 0);
  tmesh_pool_close(&w->pool);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  struct input in = {data, size};
  struct world* w = calloc(1, sizeof *w);
  TMESH_ASSERT(w != NULL);
  uint8_t how = take(&in);
  start(w, how, take(&in));
  while (in.left > 0) {
    operation(w, &in);
    check(w);
  }
  stop(w);
  free(w);
  return 0;
}
