/* Allocations: none per frame, and every one may fail. malloc, calloc and realloc are
 * wrapped by the linker (--wrap), so only calls of the code under test and of this
 * file are counted. */
#include <stdlib.h>
#include <string.h>

#include "scripted_peer.h"

void* __real_malloc(size_t n);
void* __real_calloc(size_t n, size_t size);
void* __real_realloc(void* p, size_t n);
void* __wrap_malloc(size_t n);
void* __wrap_calloc(size_t n, size_t size);
void* __wrap_realloc(void* p, size_t n);

static size_t calls_count;
static size_t fail_at; /* 1 = the next call; 0 = never */

static bool refused(void) {
  calls_count++;
  if (fail_at == 0) return false;
  fail_at--;
  return fail_at == 0;
}
void* __wrap_malloc(size_t n) {
  return refused() ? NULL : __real_malloc(n);
}
void* __wrap_calloc(size_t n, size_t size) {
  return refused() ? NULL : __real_calloc(n, size);
}
void* __wrap_realloc(void* p, size_t n) {
  return refused() ? NULL : __real_realloc(p, n);
}

/* --- two muxes joined without anything in between ------------------------------------ */

struct side {
  struct tmesh_mux mux;
  struct tmesh_stream* streams[8];
  size_t streams_count;
  uint8_t message[TMESH_PULL_MESSAGE_MAX_BYTES];
  size_t message_len;
  struct side* other;
};

static void on_event(void* user, struct tmesh_stream* s, unsigned events) {
  (void)user;
  /* A consumer that takes everything at once. */
  size_t len;
  static uint8_t datagram[TMESH_DATAGRAM_MAX_BYTES];
  while (s->is_datagram && tmesh_stream_peek_datagram(s, datagram, sizeof datagram, &len)) {
    tmesh_stream_take_datagram(s);
  }
  if ((events & TMESH_STREAM_EV_READABLE) != 0 && s->in.len_bytes > 0) {
    size_t n = s->in.len_bytes;
    tmesh_chunkq_consume(&s->in, n);
    tmesh_stream_consumed(s, n);
  }
}

static void on_open(void* ctx, struct tmesh_stream* s, const struct tmesh_open_stream* open) {
  struct side* side = ctx;
  (void)open;
  struct tmesh_open_result ok = tmesh_open_accept();
  side->streams[side->streams_count++] = s;
  tmesh_stream_attach(s, side, on_event);
  tmesh_stream_answer(s, &ok);
}

static struct tmesh_status on_control(void* ctx, const struct tmesh_frame_header* h, const uint8_t* payload,
                                      size_t len_bytes) {
  (void)ctx, (void)h, (void)payload, (void)len_bytes;
  return tmesh_ok();
}
static const struct tmesh_mux_events events = {.on_open = on_open, .on_control = on_control};

static uint8_t* sink_begin(void* ctx, size_t len_bytes) {
  struct side* side = ctx;
  assert_true(len_bytes <= sizeof side->message);
  side->message_len = len_bytes;
  return side->message;
}

static void sink_end(void* ctx) {
  struct side* side = ctx;
  struct tmesh_mux* to = &side->other->mux;
  struct tmesh_frame_header h;
  assert_true(tmesh_is_ok(tmesh_frame_header_decode(&h, side->message)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_header(to, &h)));
  assert_true(
      tmesh_is_ok(tmesh_mux_frame_payload(to, side->message + TMESH_FRAME_HEADER_BYTES, h.length_bytes)));
  assert_true(tmesh_is_ok(tmesh_mux_frame_end(to)));
}

static void turn(struct side* side) {
  struct tmesh_sink sink = {side, sink_begin, sink_end};
  if (tmesh_mux_pull(&side->mux, &sink, 65536) > 0) tmesh_mux_written(&side->mux);
  tmesh_mux_dispatch(&side->mux);
}

static void feed(struct side* side, const uint8_t* bytes, size_t len, unsigned round) {
  for (size_t i = 0; i < side->streams_count; i++) {
    size_t part = 1 + (round * 7919u + i * 104729u) % len;
    if (!side->streams[i]->is_datagram) {
      tmesh_stream_write(side->streams[i], bytes, part);
    } else {
      (void)!tmesh_is_ok(tmesh_stream_send_datagram(side->streams[i], bytes, part)); /* or dropped */
    }
  }
  uint64_t stamp = round;
  if (round % 16 == 0) {
    assert_true(tmesh_is_ok(tmesh_mux_control(&side->mux, TMESH_FRAME_PING, &stamp, sizeof stamp)));
  }
}

static void side_init(struct side* side, struct tmesh_pool* pool, bool is_opener) {
  struct tmesh_mux_config c = peer_config();
  c.pool = pool;
  c.events = &events;
  c.events_ctx = side;
  c.is_opener = is_opener;
  c.peer_is_ours = true;
  assert_true(tmesh_is_ok(tmesh_mux_init(&side->mux, &c)));
}

static void ten_thousand_frames_each_way_without_a_malloc(void** state) {
  (void)state;
  static struct side a, b;
  static uint8_t bytes[65536];
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, 64u << 20, 64u << 20);
  a.other = &b;
  b.other = &a;
  side_init(&a, &pool, true);
  side_init(&b, &pool, false);
  struct tmesh_open_stream o = sample_open();
  for (int i = 0; i < 8; i++) {
    o.protocol = i < 2 ? TMESH_OPEN_UDP : TMESH_OPEN_TCP;
    struct tmesh_open_params params = {&o, true, TMESH_WINDOW_INITIAL_BYTES};
    struct tmesh_status why;
    struct tmesh_stream* s = tmesh_mux_open(&a.mux, &params, &why);
    assert_non_null(s);
    tmesh_stream_attach(s, &a, on_event);
    a.streams[a.streams_count++] = s;
  }
  unsigned round = 0;
  for (; round < 500; round++) {
    feed(&a, bytes, sizeof bytes, round);
    feed(&b, bytes, sizeof bytes, round);
    turn(&a);
    turn(&b);
  }
  assert_int_equal(b.streams_count, 8);
  uint64_t frames[2] = {a.mux.stats.frames_out_count, b.mux.stats.frames_out_count};
  uint64_t sent = a.mux.stats.data_bytes_out;
  calls_count = 0;
  while (a.mux.stats.frames_out_count - frames[0] < 10000 ||
         b.mux.stats.frames_out_count - frames[1] < 10000) {
    feed(&a, bytes, sizeof bytes, round);
    feed(&b, bytes, sizeof bytes, round);
    turn(&a);
    turn(&b);
    round++;
    assert_in_range(round, 0, 1000000);
  }
  assert_int_equal(calls_count, 0);
  assert_true(a.mux.stats.data_bytes_out - sent > 50u << 20);
  tmesh_mux_check(&a.mux);
  tmesh_mux_check(&b.mux);
  for (size_t i = 0; i < 8; i++) {
    tmesh_stream_release(a.streams[i]);
    tmesh_stream_release(b.streams[i]);
  }
  tmesh_mux_close(&a.mux);
  tmesh_mux_close(&b.mux);
  tmesh_pool_close(&pool);
}

static void init_fails_cleanly_for_every_allocation(void** state) {
  (void)state;
  struct tmesh_pool pool;
  tmesh_pool_init(&pool, 1u << 20, 0);
  struct tmesh_mux_config c = peer_config();
  c.pool = &pool;
  for (size_t n = 1;; n++) {
    assert_in_range(n, 1, 10);
    struct tmesh_mux m;
    fail_at = n;
    struct tmesh_status st = tmesh_mux_init(&m, &c);
    bool ran_out = fail_at == 0;
    fail_at = 0;
    if (!ran_out) {
      assert_true(tmesh_is_ok(st));
      tmesh_mux_close(&m);
      assert_true(n > 1);
      return;
    }
    assert_int_equal(st.code, TMESH_E_NO_MEMORY);
    assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  }
}

static void open_fails_cleanly_for_every_allocation(void** state) {
  (void)state;
  for (size_t n = 1;; n++) {
    assert_in_range(n, 1, 10);
    struct peer* p = peer_new_opener();
    struct tmesh_open_stream o = sample_open();
    struct tmesh_open_params params = {&o, true, TMESH_WINDOW_INITIAL_BYTES};
    struct tmesh_status why;
    fail_at = n;
    struct tmesh_stream* s = tmesh_mux_open(&p->mux, &params, &why);
    bool ran_out = fail_at == 0;
    fail_at = 0;
    tmesh_mux_check(&p->mux);
    if (s == NULL) {
      assert_true(ran_out);
      assert_int_equal(why.code, TMESH_E_NO_MEMORY);
      assert_int_equal(why.scope, TMESH_SCOPE_STREAM);
      assert_int_equal(p->mux.live_count, 0);
      peer_start(p, true, 0); /* and the next one works, with the id that was not used */
      peer_flush(p);
      assert_int_equal(p->frames[0].header.stream_id, 1);
    } else {
      tmesh_stream_release(s);
    }
    peer_free(p);
    if (!ran_out) {
      assert_true(n > 2);
      return;
    }
  }
}

static void accept_without_memory_resets_that_open(void** state) {
  (void)state;
  for (size_t n = 1;; n++) {
    assert_in_range(n, 1, 200);
    struct peer* p = peer_new_acceptor();
    p->on_open = OPEN_ACCEPT;
    struct tmesh_open_stream o = sample_open();
    char payload[1024];
    size_t len;
    assert_true(tmesh_is_ok(tmesh_open_stream_encode(&o, payload, sizeof payload, &len)));
    fail_at = n;
    struct tmesh_status st =
        peer_frame_status(p, TMESH_FRAME_OPEN_STREAM, TMESH_FLAG_STRICT_OPEN, 1, 1000, payload, len);
    bool ran_out = fail_at == 0;
    fail_at = 0;
    assert_true(tmesh_is_ok(st));
    peer_flush(p);
    /* Whatever failed, the opener is told exactly once. */
    assert_int_equal(peer_sent(p, TMESH_FRAME_RESET, 1) + peer_sent(p, TMESH_FRAME_OPEN_RESULT, 1), 1);
    peer_free(p);
    if (!ran_out) return;
  }
}

static void control_without_memory_ends_the_session(void** state) {
  (void)state;
  struct peer* p = peer_new_acceptor();
  fail_at = 1;
  struct tmesh_status st = tmesh_mux_control(&p->mux, TMESH_FRAME_PING, "12345678", 8);
  assert_true(tmesh_is_ok(st)); /* a small payload needs none */
  st = tmesh_mux_control(&p->mux, TMESH_FRAME_CLIENT_HELLO, "123456789", 9);
  fail_at = 0;
  assert_int_equal(st.code, TMESH_E_NO_MEMORY);
  assert_int_equal(st.scope, TMESH_SCOPE_SESSION);
  peer_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_thousand_frames_each_way_without_a_malloc),
      cmocka_unit_test(init_fails_cleanly_for_every_allocation),
      cmocka_unit_test(open_fails_cleanly_for_every_allocation),
      cmocka_unit_test(accept_without_memory_resets_that_open),
      cmocka_unit_test(control_without_memory_ends_the_session),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
