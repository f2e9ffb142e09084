#include "scripted_peer.h"

#include <stdlib.h>
#include <string.h>

static uint8_t* sink_begin(void* ctx, size_t len_bytes) {
  struct peer* p = ctx;
  assert_true(p->bytes_used + len_bytes <= PEER_BYTES_MAX);
  p->at = p->bytes + p->bytes_used;
  p->at_len = len_bytes;
  p->bytes_used += len_bytes;
  return p->at;
}

static void sink_end(void* ctx) {
  struct peer* p = ctx;
  assert_true(p->frames_count < PEER_FRAMES_MAX);
  struct sent_frame* f = &p->frames[p->frames_count++];
  assert_true(tmesh_is_ok(tmesh_frame_header_decode(&f->header, p->at)));
  assert_int_equal(p->at_len, TMESH_FRAME_HEADER_BYTES + f->header.length_bytes);
  f->payload = p->at + TMESH_FRAME_HEADER_BYTES;
}

struct tmesh_sink peer_sink(struct peer* p) {
  return (struct tmesh_sink){p, sink_begin, sink_end};
}

static void on_event(void* user, struct tmesh_stream* s, unsigned events) {
  struct seen* u = user;
  assert_ptr_equal(u->stream, s);
  u->events |= events;
  if (events & TMESH_STREAM_EV_RESULT) {
    u->result_count++;
    u->result = s->result;
  }
  if (events & TMESH_STREAM_EV_READABLE) u->readable_count++;
  if (events & TMESH_STREAM_EV_WRITTEN) {
    u->written_count++;
    u->written_bytes += s->written_bytes;
  }
  if (events & TMESH_STREAM_EV_OVER) {
    u->over_count++;
    u->over = s->over;
    tmesh_stream_release(s);
    u->stream = NULL;
  }
}

static struct seen* new_user(struct peer* p, struct tmesh_stream* s) {
  assert_true(p->users_count < PEER_USERS_MAX);
  struct seen* u = &p->users[p->users_count++];
  u->stream = s;
  u->id = s->id;
  tmesh_stream_attach(s, u, on_event);
  return u;
}

static void on_open(void* ctx, struct tmesh_stream* s, const struct tmesh_open_stream* open) {
  struct peer* p = ctx;
  struct tmesh_open_result ok = tmesh_open_accept();
  struct tmesh_open_result no = tmesh_open_refuse(TMESH_STAGE_POLICY, TMESH_OPEN_FORBIDDEN, false);
  assert_int_equal(s->state, TMESH_STREAM_OPENING);
  p->last_open = *open;
  if (p->on_open == OPEN_IGNORE) return;
  struct seen* u = new_user(p, s);
  if (p->on_open == OPEN_ACCEPT) tmesh_stream_answer(s, &ok);
  if (p->on_open == OPEN_REFUSE) tmesh_stream_answer(s, &no);
  if (p->on_open == OPEN_RESET) tmesh_stream_reset(s);
  if (p->on_open == OPEN_RELEASE) {
    tmesh_stream_release(s);
    u->stream = NULL;
  }
}

static struct tmesh_status on_control(void* ctx, const struct tmesh_frame_header* h, const uint8_t* payload,
                                      size_t len_bytes) {
  struct peer* p = ctx;
  (void)h;
  p->control_count++;
  memcpy(p->last_control, payload, len_bytes);
  p->last_control_len = len_bytes;
  return p->control_answer;
}
static void on_pong(void* ctx, const uint8_t* payload, size_t len_bytes) {
  struct peer* p = ctx;
  p->pong_count++;
  memcpy(p->last_control, payload, len_bytes);
  p->last_control_len = len_bytes;
}
static void on_goaway(void* ctx) {
  ((struct peer*)ctx)->goaway_count++;
}
static void on_dirty(void* ctx) {
  ((struct peer*)ctx)->dirty_count++;
}

static void on_memory_full(void* ctx, const struct tmesh_stream* keep) {
  struct peer* p = ctx;
  p->memory_full_count++;
  if (p->on_memory_full != NULL) p->on_memory_full(p, keep);
}

static const struct tmesh_mux_events events = {on_open,   on_control, on_pong,
                                               on_goaway, on_dirty,   on_memory_full};

struct tmesh_mux_config peer_config(void) {
  return (struct tmesh_mux_config){.events = &events,
                                   .has_open_result = true,
                                   .has_flow_control = true,
                                   .resets_unknown_data = true,
                                   .initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
                                   .window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES,
                                   .inbound_max_bytes = 262144,
                                   .outbound_max_bytes = 524288,
                                   .streams_max = 2048};
}

struct peer* peer_new(const struct tmesh_mux_config* config) {
  struct peer* p = calloc(1, sizeof *p);
  assert_non_null(p);
  p->bytes = malloc(PEER_BYTES_MAX);
  assert_non_null(p->bytes);
  tmesh_pool_init(&p->pool, 64u << 20, 4u << 20);
  struct tmesh_mux_config c = *config;
  c.pool = &p->pool;
  c.events_ctx = p;
  assert_true(tmesh_is_ok(tmesh_mux_init(&p->mux, &c)));
  return p;
}

struct peer* peer_new_acceptor(void) {
  struct tmesh_mux_config c = peer_config();
  return peer_new(&c);
}

struct peer* peer_new_opener(void) {
  struct tmesh_mux_config c = peer_config();
  c.is_opener = true;
  return peer_new(&c);
}

struct peer* peer_new_early(bool is_opener) {
  struct tmesh_mux_config c = peer_config();
  c.is_opener = is_opener;
  c.has_early_data = true;
  c.peer_is_ours = true;
  return peer_new(&c);
}

void peer_free(struct peer* p) {
  for (size_t i = 0; i < p->users_count; i++) {
    if (p->users[i].stream != NULL) tmesh_stream_release(p->users[i].stream);
  }
  tmesh_mux_check(&p->mux);
  tmesh_mux_close(&p->mux);
  assert_int_equal(p->pool.live_count, 0);
  tmesh_pool_close(&p->pool);
  free(p->bytes);
  free(p);
}

struct tmesh_status peer_frame_status(struct peer* p, uint8_t type, uint16_t flags, uint32_t id,
                                      uint32_t window, const void* payload, size_t len) {
  struct tmesh_frame_header h = {type, flags, id, (uint32_t)len, window};
  const uint8_t* bytes = payload;
  struct tmesh_status st = tmesh_mux_frame_header(&p->mux, &h);
  if (tmesh_is_ok(st)) st = tmesh_mux_frame_payload(&p->mux, bytes, len / 2);
  if (tmesh_is_ok(st))
    st = tmesh_mux_frame_payload(&p->mux, len == 0 ? bytes : bytes + len / 2, len - len / 2);
  if (tmesh_is_ok(st)) st = tmesh_mux_frame_end(&p->mux);
  tmesh_mux_check(&p->mux);
  return st;
}

void peer_frame(struct peer* p, uint8_t type, uint32_t id, const void* payload, size_t len) {
  assert_true(tmesh_is_ok(peer_frame_status(p, type, 0, id, 0, payload, len)));
}

void peer_data(struct peer* p, uint32_t id, size_t len) {
  uint8_t* bytes = malloc(len + 1);
  assert_non_null(bytes);
  for (size_t i = 0; i < len; i++) bytes[i] = (uint8_t)(i * 7 + i / 251);
  peer_frame(p, TMESH_FRAME_DATA, id, bytes, len);
  free(bytes);
}

void peer_update(struct peer* p, uint32_t id, uint32_t window) {
  assert_true(tmesh_is_ok(peer_frame_status(p, TMESH_FRAME_WINDOW_UPDATE, 0, id, window, NULL, 0)));
}

struct tmesh_open_stream sample_open(void) {
  struct tmesh_open_stream o = {.protocol = TMESH_OPEN_TCP, .target_port = 443};
  strcpy(o.target_host, "example.test");
  return o;
}

void peer_pattern(uint8_t* bytes, size_t n) {
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)(i * 31 + i / 257);
}

void peer_open(struct peer* p, uint32_t id, uint16_t flags, uint32_t window) {
  struct tmesh_open_stream o = sample_open();
  char payload[4096];
  size_t len;
  assert_true(tmesh_is_ok(tmesh_open_stream_encode(&o, payload, sizeof payload, &len)));
  assert_true(tmesh_is_ok(peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, flags, id, window, payload, len)));
}

struct tmesh_stream* peer_opened(struct peer* p, uint32_t id) {
  p->on_open = OPEN_ACCEPT;
  peer_open(p, id, TMESH_FLAG_STRICT_OPEN, TMESH_WINDOW_INITIAL_BYTES);
  peer_flush(p);
  peer_forget(p);
  return peer_user(p, id)->stream;
}

struct tmesh_stream* peer_bulk(struct peer* p, uint32_t id) {
  struct tmesh_stream* s = peer_opened(p, id);
  s->first_bytes = TMESH_FRESH_MAX_BYTES;
  return s;
}

void peer_open_udp(struct peer* p, uint32_t id, uint16_t flags, uint32_t window) {
  const char* udp = "{\"protocol\":\"udp\",\"target_host\":\"h\",\"target_port\":53}";
  assert_true(
      tmesh_is_ok(peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, flags, id, window, udp, strlen(udp))));
}

struct tmesh_stream* peer_opened_udp(struct peer* p, uint32_t id) {
  p->on_open = OPEN_ACCEPT;
  peer_open_udp(p, id, 0, TMESH_WINDOW_INITIAL_BYTES);
  peer_flush(p);
  return peer_stream(p, id);
}

void peer_result(struct peer* p, uint32_t id, struct tmesh_open_result result) {
  char payload[TMESH_OPEN_RESULT_MAX_BYTES];
  size_t len;
  assert_true(tmesh_is_ok(tmesh_open_result_encode(&result, payload, sizeof payload, &len)));
  peer_frame(p, TMESH_FRAME_OPEN_RESULT, id, payload, len);
}

void peer_flush(struct peer* p) {
  struct tmesh_sink sink = peer_sink(p);
  while (tmesh_mux_pull(&p->mux, &sink, 65536) > 0) {
    tmesh_mux_check(&p->mux);
    tmesh_mux_written(&p->mux);
    tmesh_mux_check(&p->mux);
  }
  assert_false(tmesh_mux_has_output(&p->mux));
  peer_dispatch(p);
}

void peer_dispatch(struct peer* p) {
  while (tmesh_mux_dispatch(&p->mux)) {
  }
  tmesh_mux_check(&p->mux);
}

void peer_forget(struct peer* p) {
  p->frames_count = 0;
  p->bytes_used = 0;
  p->dirty_count = 0;
}

size_t peer_sent(const struct peer* p, unsigned type, uint32_t id) {
  size_t n = 0;
  for (size_t i = 0; i < p->frames_count; i++) {
    if (p->frames[i].header.type == type && (id == 0 || p->frames[i].header.stream_id == id)) n++;
  }
  return n;
}

const struct sent_frame* peer_last(const struct peer* p) {
  assert_true(p->frames_count > 0);
  return &p->frames[p->frames_count - 1];
}

struct seen* peer_start(struct peer* p, bool is_strict, uint32_t window) {
  struct tmesh_open_stream o = sample_open();
  struct tmesh_open_params params = {&o, is_strict, window};
  struct tmesh_status why;
  struct tmesh_stream* s = tmesh_mux_open(&p->mux, &params, &why);
  assert_non_null(s);
  assert_true(tmesh_is_ok(why));
  return new_user(p, s);
}

struct tmesh_stream* peer_stream(struct peer* p, uint32_t id) {
  return tmesh_idmap_get(&p->mux.streams, id);
}

void peer_attach(struct seen* u) {
  tmesh_stream_attach(u->stream, u, on_event);
}

struct seen* peer_user(struct peer* p, uint32_t id) {
  for (size_t i = 0; i < p->users_count; i++) {
    if (p->users[i].id == id) return &p->users[i];
  }
  fail_msg("no user for stream %u", id);
  return NULL;
}

struct peer* peer_two_streams(void) {
  struct peer* p = peer_new_acceptor();
  peer_opened(p, 1);
  peer_opened(p, 2);
  return p;
}

void peer_expect_reset_of_1(struct peer* p, unsigned code) {
  peer_flush(p);
  assert_int_equal(peer_user(p, 1)->over_count, 1);
  assert_int_equal(peer_user(p, 1)->events & TMESH_STREAM_EV_OVER, TMESH_STREAM_EV_OVER);
  assert_int_equal(peer_user(p, 1)->over.code, code);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1), 1);
  assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 2), 0);
  assert_int_equal(peer_user(p, 2)->over_count, 0);
  assert_int_equal(p->mux.stats.stream_errors_count[code], 1);
  assert_true(tmesh_is_ok(p->mux.failed));
  peer_free(p);
}
