#include "tests/core/loop/link_support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void note(struct test_link* t, char what) {
  size_t len = strlen(t->order);
  if (len + 1 < sizeof t->order) t->order[len] = what;
}

static void on_stream_event(void* user, struct tmesh_stream* s, unsigned events) {
  struct test_link* t = user;
  if ((events & TMESH_STREAM_EV_READABLE) != 0 && !t->streams_read_nothing) {
    const size_t n = s->in.len_bytes;
    t->stream_got_bytes += n;
    tmesh_chunkq_consume(&s->in, n);
    tmesh_stream_consumed(s, n);
  }
  if ((events & TMESH_STREAM_EV_OVER) == 0) return;
  t->over_count++;
  note(t, 'O');
  if (t->holds_streams) return;
  for (unsigned i = 0; i < t->stream_count; i++) {
    if (t->streams[i] == s) t->streams[i] = NULL;
  }
  tmesh_stream_release(s);
}

void test_link_attach(struct test_link* t, struct tmesh_stream* s) {
  assert_true(t->stream_count < TEST_STREAMS_MAX);
  t->streams[t->stream_count++] = s;
  tmesh_stream_attach(s, t, on_stream_event);
}

static void on_open(void* ctx, struct tmesh_stream* s, const struct tmesh_open_stream* open) {
  struct test_link* t = ctx;
  const struct tmesh_open_result ok = tmesh_open_accept();
  (void)open;
  if (t->on_stream != NULL) {
    t->on_stream(t->ctx, s);
    return;
  }
  test_link_attach(t, s);
  tmesh_stream_answer(s, &ok);
}

static struct tmesh_status on_control(void* ctx, const struct tmesh_frame_header* header,
                                      const uint8_t* payload, size_t len_bytes) {
  struct test_link* t = ctx;
  if (len_bytes == 8 && strtoul((const char*)payload, NULL, 10) != t->control_count) t->disorder_count++;
  t->control_count++;
  t->control = *header;
  t->control_len_bytes = len_bytes < sizeof t->control_payload ? len_bytes : sizeof t->control_payload;
  if (len_bytes > 0) memcpy(t->control_payload, payload, t->control_len_bytes);
  return t->fails_in_control ? tmesh_err_session(TMESH_E_POLICY) : tmesh_ok();
}

static void on_pong(void* ctx, const uint8_t* payload, size_t len_bytes) {
  (void)payload;
  (void)len_bytes;
  ((struct test_link*)ctx)->pong_count++;
}

static void on_goaway(void* ctx) {
  ((struct test_link*)ctx)->goaway_count++;
}

static const struct tmesh_mux_events mux_events = {on_open, on_control, on_pong, on_goaway, NULL};

static void on_down(void* ctx, struct tmesh_status why) {
  struct test_link* t = ctx;
  t->down_count++;
  t->down = why;
  note(t, 'D');
  if (t->closes_in_down) tmesh_link_close(&t->link);
}

static void on_closed(void* ctx) {
  struct test_link* t = ctx;
  t->closed_count++;
  note(t, 'C');
}

static const struct tmesh_link_events link_events = {on_down, on_closed};

static void on_ready(void* ctx, struct tmesh_status st) {
  assert_true(tmesh_is_ok(st));
  ((struct test_link*)ctx)->is_ready = true;
}

static void on_transport_closed(void* ctx) {
  ((struct test_link*)ctx)->is_transport_closed = true;
}

const struct tmesh_transport_events test_link_before = {.on_ready = on_ready,
                                                        .on_closed = on_transport_closed};

struct tmesh_status test_link_try_take(struct test_link* t, bool is_client, const void* early,
                                       size_t early_bytes) {
  const struct tmesh_mux_config config = {
      .events = &mux_events,
      .events_ctx = t,
      .is_opener = is_client,
      .has_open_result = true,
      .has_flow_control = true,
      .resets_unknown_data = !is_client,
      .peer_is_ours = true,
      .initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
      .window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES,
      .inbound_max_bytes = 262144,
      .outbound_max_bytes = 262144,
      .streams_max = 1000,
  };
  return tmesh_link_open(&t->link, &t->transport, is_client, &config, &link_events, t, early, early_bytes);
}

void test_link_take(struct test_link* t, bool is_client, const void* early, size_t early_bytes) {
  assert_true(tmesh_is_ok(test_link_try_take(t, is_client, early, early_bytes)));
}

void test_link_start(struct test_link* t, int fd, bool is_client, struct tmesh_tls_config* config,
                     const char* server_name) {
  memset(t, 0, sizeof *t);
  assert_true(tmesh_is_ok(tmesh_transport_open(&t->transport, &test_loop, fd, config, !is_client, server_name,
                                               &test_link_before, t)));
}

void test_link_open(struct test_link* t, int fd, bool is_client, const void* early, size_t early_bytes) {
  test_link_start(t, fd, is_client, NULL, NULL);
  RUN_UNTIL(t->is_ready);
  test_link_take(t, is_client, early, early_bytes);
}

struct tmesh_stream* test_link_stream(struct test_link* t) {
  struct tmesh_open_stream open = {.protocol = TMESH_OPEN_TCP, .target_host = "127.0.0.1", .target_port = 80};
  const struct tmesh_open_params params = {
      .open = &open, .is_strict = true, .window_bytes = TMESH_WINDOW_INITIAL_BYTES};
  struct tmesh_status why;
  struct tmesh_stream* s = tmesh_mux_open(tmesh_link_mux(&t->link), &params, &why);
  assert_non_null(s);
  return s;
}

void test_link_closed(struct test_link* t) {
  RUN_UNTIL(t->closed_count > 0);
  test_loop_spin(3);
  assert_int_equal(t->closed_count, 1);
  assert_int_equal(t->down_count, 1);
  const char* down = strchr(t->order, 'D');
  assert_non_null(down);
  assert_null(strchr(down, 'O'));  /* streams end before on_down ... */
  assert_string_equal(down, "DC"); /* ... and on_closed is last */
  assert_null(t->link.rest);
}

/* --- the raw peer -------------------------------------------------------------------- */

void raw_open(struct raw_peer* p, int fd, bool is_client) {
  memset(p, 0, sizeof *p);
  p->fd = fd;
  p->is_client = is_client;
  tmesh_ws_decoder_init(&p->ws, is_client ? TMESH_WS_CLIENT : TMESH_WS_SERVER, TMESH_WS_MESSAGE_MAX_BYTES);
}

void raw_send(struct raw_peer* p, bool fin, enum tmesh_ws_opcode opcode, const void* payload, size_t n) {
  static uint8_t out[1 << 21];
  static const uint8_t mask[4] = {0x11, 0x22, 0x33, 0x44};
  assert_true(n + TMESH_WS_HEADER_MAX_BYTES <= sizeof out);
  const size_t head = tmesh_ws_header_encode(out, opcode, n, p->is_client, mask);
  if (!fin) out[0] &= 0x7f;
  if (p->is_client) {
    tmesh_ws_mask_copy(out + head, payload, n, mask, 0);
  } else if (n > 0) {
    memcpy(out + head, payload, n);
  }
  size_t sent = 0;
  RUN_UNTIL((sent += test_send(p->fd, out + sent, head + n - sent)) == head + n);
}

size_t raw_frame_bytes(uint8_t* out, struct tmesh_frame_header h, const void* payload) {
  const struct tmesh_status st = tmesh_frame_header_encode(out, &h);
  assert_true(tmesh_is_ok(st));
  if (h.length_bytes > 0) memcpy(out + TMESH_FRAME_HEADER_BYTES, payload, h.length_bytes);
  return TMESH_FRAME_HEADER_BYTES + h.length_bytes;
}

void raw_send_frame(struct raw_peer* p, struct tmesh_frame_header h, const void* payload) {
  static uint8_t out[1 << 17];
  raw_send(p, true, TMESH_WS_OP_BINARY, out, raw_frame_bytes(out, h, payload));
}

static bool take(struct raw_peer* p, const struct tmesh_ws_event* ev) {
  if (ev->kind == TMESH_WS_MESSAGE_BEGIN) p->message_bytes = 0;
  if (ev->kind == TMESH_WS_MESSAGE_DATA) {
    assert_true(p->message_bytes + ev->len_bytes <= sizeof p->message);
    memcpy(p->message + p->message_bytes, ev->data, ev->len_bytes);
    p->message_bytes += ev->len_bytes;
  }
  if (ev->kind == TMESH_WS_NONE || ev->kind == TMESH_WS_MESSAGE_BEGIN || ev->kind == TMESH_WS_MESSAGE_DATA) {
    return false;
  }
  p->kind = ev->kind;
  if (ev->kind != TMESH_WS_MESSAGE_END) {
    p->message_bytes = ev->len_bytes;
    if (ev->len_bytes > 0) memcpy(p->message, ev->data, ev->len_bytes);
    p->close_code = ev->close_code;
  }
  return true;
}

bool raw_next(struct raw_peer* p) {
  if (!p->is_eof && test_recv(p->fd, p->in, sizeof p->in, &p->in_bytes) != 1) p->is_eof = true;
  for (;;) {
    struct tmesh_ws_event ev;
    size_t used;
    if (tmesh_ws_decode(&p->ws, p->in, p->in_bytes, &used, &ev).code != TMESH_OK) return false;
    const bool is_complete = take(p, &ev);
    p->in_bytes -= used;
    memmove(p->in, p->in + used, p->in_bytes);
    if (is_complete) return true;
    if (ev.kind == TMESH_WS_NONE) return false;
  }
}

void raw_wait(struct raw_peer* p, enum tmesh_ws_event_kind kind) {
  RUN_UNTIL(raw_next(p) && p->kind == kind);
}

struct tmesh_frame_header raw_wait_frame(struct raw_peer* p, unsigned type) {
  struct tmesh_frame_header h = {0};
  do {
    raw_wait(p, TMESH_WS_MESSAGE_END);
    assert_true(p->message_bytes >= TMESH_FRAME_HEADER_BYTES);
    assert_true(tmesh_is_ok(tmesh_frame_header_decode(&h, p->message)));
    assert_int_equal(p->message_bytes, TMESH_FRAME_HEADER_BYTES + h.length_bytes);
  } while (h.type != type);
  return h;
}

/* --- the usual arrangements ------------------------------------------------------------ */

struct test_link a, b;
struct raw_peer peer;

void open_two(void) {
  int fds[2];
  test_tcp_pair(fds);
  test_link_open(&a, fds[0], true, NULL, 0);
  test_link_open(&b, fds[1], false, NULL, 0);
}

void close_two(void) {
  tmesh_link_close(&a.link);
  test_link_closed(&a);
  test_link_closed(&b);
}

/* One link against the raw peer. */
void open_raw(bool link_is_client) {
  int fds[2];
  test_tcp_pair(fds);
  test_link_open(&b, fds[0], link_is_client, NULL, 0);
  raw_open(&peer, fds[1], !link_is_client);
}

void expect_down(enum tmesh_code code) {
  RUN_UNTIL(b.down_count == 1);
  assert_int_equal(b.down.code, code);
  assert_int_equal(b.down.scope, TMESH_SCOPE_SESSION);
}

void end_raw(void) {
  close(peer.fd);
  test_link_closed(&b);
}

void open_stream_from_peer(uint32_t id) {
  char json[256];
  size_t len;
  struct tmesh_open_stream open = {.protocol = TMESH_OPEN_TCP, .target_host = "127.0.0.1", .target_port = 80};
  assert_true(tmesh_is_ok(tmesh_open_stream_encode(&open, json, sizeof json, &len)));
  raw_send_frame(&peer,
                 (struct tmesh_frame_header){.type = TMESH_FRAME_OPEN_STREAM,
                                             .flags = TMESH_FLAG_STRICT_OPEN,
                                             .stream_id = id,
                                             .length_bytes = (uint32_t)len,
                                             .window_bytes = TMESH_WINDOW_INITIAL_BYTES},
                 json);
}

struct tmesh_frame_header header(unsigned type, uint32_t id, size_t len) {
  return (struct tmesh_frame_header){.type = (uint8_t)type, .stream_id = id, .length_bytes = (uint32_t)len};
}
