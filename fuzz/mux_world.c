#include "fuzz/mux_world.h"

#include <stdlib.h>
#include <string.h>

/* --- users -------------------------------------------------------------------------- */

static void forget(struct user* u) {
  u->stream = NULL;
  u->splice = -1;
}

void user_on_done(void* ctx, struct tmesh_splice* sp, struct tmesh_status why, int broken) {
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

void user_adopt(struct side* s, struct tmesh_stream* stream) {
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
  TMESH_ASSERT(stream->is_datagram == (open->protocol == TMESH_OPEN_UDP));
  if (s->world->ignores_opens && stream->id % 4 == 3) return;
  uint32_t id = stream->id;
  user_adopt(s, stream);
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

/* As the programs do when nothing is stalled: the largest stream of all links is given up. */
static void on_memory_full(void* ctx, const struct tmesh_stream* keep) {
  struct world* w = ((struct side*)ctx)->world;
  struct tmesh_stream* largest = NULL;
  size_t largest_count = 0;
  for (int i = 0; i < 2; i++) {
    struct tmesh_list* all = &w->sides[i].mux.all;
    for (struct tmesh_list* n = all->next; n != all; n = n->next) {
      struct tmesh_stream* s = TMESH_CONTAINER(n, struct tmesh_stream, in_all);
      const size_t count = s->in.block_count + s->out.block_count;
      if (s == keep || tmesh_stream_is_over((enum tmesh_stream_state)s->state) || count <= largest_count)
        continue;
      largest = s;
      largest_count = count;
    }
  }
  if (largest != NULL) tmesh_mux_evict(largest);
}

static const struct tmesh_mux_events events = {
    .on_open = on_open, .on_control = on_control, .on_pong = on_pong, .on_memory_full = on_memory_full};

void user_release(struct user* u) {
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

void wire_pull(struct side* s, size_t target_bytes) {
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

void wire_deliver(struct side* from, size_t n) {
  if (n > from->pipe_len - from->pipe_at) n = from->pipe_len - from->pipe_at;
  give(from->other, from->pipe + from->pipe_at, n);
  from->pipe_at += n;
}

void wire_inject(struct side* to, struct input* in) {
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

/* --- the world ----------------------------------------------------------------------------- */

void world_check(const struct world* w) {
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

void world_start(struct world* w, uint8_t how, uint8_t limits) {
  unsigned blocks = (limits & 1) != 0 ? 6 : (limits & 32) != 0 ? 64 : 2048;
  tmesh_pool_init(&w->pool, blocks * TMESH_BLOCK_BYTES, 1u << 20);
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
                                      .has_early_data = (how & 65) == 65,
                                      .has_window_growth = (how & 130) == 130,
                                      .coalesce_us = (limits & 64) != 0 ? TMESH_COALESCE_US : 0,
                                      .window_max_bytes = (limits & 16) != 0 ? 1u << 20 : 4u << 20,
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

void world_stop(struct world* w) {
  for (int i = 0; i < 2; i++) {
    struct side* s = &w->sides[i];
    for (unsigned k = 0; k < USERS_MAX; k++) {
      if (s->users[k].stream != NULL) user_release(&s->users[k]);
    }
    tmesh_mux_check(&s->mux);
    tmesh_mux_close(&s->mux);
    free(s->pipe);
  }
  TMESH_ASSERT(w->pool.live_count == w->held_count);
  while (w->held_count > 0) tmesh_pool_put(&w->pool, w->held[--w->held_count]);
  tmesh_pool_close(&w->pool);
}
