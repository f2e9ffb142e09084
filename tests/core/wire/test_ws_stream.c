/* Long random streams: other fragments, other chunks, another implementation. wslay is
 * the reference; a failure prints the seed that repeats it. */
// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <wslay/wslay.h>

#include "tests/core/wire/ws_transcript.h"

/* xorshift64*: small, seeded, the same everywhere. */
struct rng {
  uint64_t s;
};
static uint64_t next(struct rng* r) {
  r->s ^= r->s >> 12;
  r->s ^= r->s << 25;
  r->s ^= r->s >> 27;
  return r->s * UINT64_C(2685821657736338717);
}
static size_t below(struct rng* r, size_t n) {
  return (size_t)((next(r) >> 33) % n);
}
static size_t random_chunk(void* context) {
  return 1 + below(context, 700);
}

struct bytes {
  uint8_t* data;
  size_t len, cap, at;
};
static void append(struct bytes* b, const void* data, size_t n) {
  if (b->cap - b->len < n) {
    b->cap = (b->len + n) * 2;
    b->data = realloc(b->data, b->cap);
    assert_non_null(b->data);
  }
  if (n > 0) memcpy(b->data + b->len, data, n);
  b->len += n;
}

/* Sizes around every length form, and in between. */
static size_t random_size(struct rng* r) {
  static const size_t edges[] = {0, 1, 125, 126, 127, 4095, 4096, 65535, 65536, 65537};
  return below(r, 3) == 0 ? edges[below(r, sizeof edges / sizeof *edges)] : below(r, 2000);
}

static void append_frame(struct bytes* out, struct rng* r, unsigned opcode, bool is_final, bool is_masked,
                         const uint8_t* payload, size_t n) {
  uint8_t header[TMESH_WS_HEADER_MAX_BYTES];
  uint8_t mask[4];
  size_t start;
  for (size_t i = 0; i < 4; i++) mask[i] = (uint8_t)next(r);
  append(out, header, tmesh_ws_header_encode(header, opcode, n, is_masked, mask));
  if (!is_final) out->data[out->len - tmesh_ws_header_encode(header, opcode, n, is_masked, mask)] &= 0x7f;
  start = out->len;
  append(out, payload, n);
  if (is_masked && n > 0) tmesh_ws_mask_copy(out->data + start, out->data + start, n, mask, 0);
}

static void append_pings(struct bytes* out, struct rng* r, bool is_masked, struct ws_transcript* want) {
  uint8_t payload[125];
  size_t n = below(r, 126);
  if (below(r, 4) != 0) return;
  for (size_t i = 0; i < n; i++) payload[i] = (uint8_t)next(r);
  append_frame(out, r, TMESH_WS_OP_PING, true, is_masked, payload, n);
  ws_transcript_puts(want, "<");
  ws_transcript_hex(want, payload, n);
  ws_transcript_puts(want, ">");
}

static void append_message(struct bytes* out, struct rng* r, bool is_masked, struct ws_transcript* want) {
  size_t n = random_size(r), done = 0;
  uint8_t* payload = malloc(n + 1);
  unsigned opcode = TMESH_WS_OP_BINARY;
  bool is_final = false;
  for (size_t i = 0; i < n; i++) payload[i] = (uint8_t)next(r);
  ws_transcript_puts(want, "(");
  while (!is_final) {
    size_t part = below(r, 3) == 0 ? n - done : below(r, n - done + 1);
    is_final = part == n - done && below(r, 2) == 0;
    append_frame(out, r, opcode, is_final, is_masked, payload + done, part);
    ws_transcript_hex(want, payload + done, part);
    done += part;
    opcode = TMESH_WS_OP_CONTINUATION;
    if (!is_final) append_pings(out, r, is_masked, want);
  }
  ws_transcript_puts(want, ")");
  free(payload);
}

static void test_random_fragments_and_chunks_give_identical_messages(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    struct rng r = {seed * UINT64_C(0x9E3779B97F4A7C15)};
    struct bytes stream = {0};
    struct ws_transcript want, got;
    const bool is_masked = seed % 2 == 0;
    ws_transcript_init(&want);
    ws_transcript_init(&got);
    for (int i = 0; i < 12; i++) {
      append_message(&stream, &r, is_masked, &want);
      append_pings(&stream, &r, is_masked, &want);
    }
    ws_transcript_run(&got, is_masked ? TMESH_WS_SERVER : TMESH_WS_CLIENT, TMESH_WS_MESSAGE_MAX_BYTES,
                      stream.data, stream.len, random_chunk, &r);
    if (strcmp(got.text, want.text) != 0) fail_msg("seed %llu", (unsigned long long)seed);
    ws_transcript_free(&want);
    ws_transcript_free(&got);
    free(stream.data);
  }
}

/* --- wslay as the other end ----------------------------------------------------------- */

struct peer {
  struct bytes in;  /* what wslay reads */
  struct bytes out; /* what wslay wrote */
  struct rng r;
  struct bytes source; /* of a fragmented message */
  struct ws_transcript got;
};

static ssize_t peer_recv(wslay_event_context_ptr ctx, uint8_t* buf, size_t len, int flags, void* data) {
  struct peer* p = data;
  (void)flags;
  if (p->in.at == p->in.len) {
    wslay_event_set_error(ctx, WSLAY_ERR_WOULDBLOCK);
    return -1;
  }
  if (len > p->in.len - p->in.at) len = p->in.len - p->in.at;
  memcpy(buf, p->in.data + p->in.at, len);
  p->in.at += len;
  return (ssize_t)len;
}

static ssize_t peer_send(wslay_event_context_ptr ctx, const uint8_t* buf, size_t len, int flags, void* data) {
  struct peer* p = data;
  (void)ctx;
  (void)flags;
  append(&p->out, buf, len);
  return (ssize_t)len;
}

static int peer_mask(wslay_event_context_ptr ctx, uint8_t* buf, size_t len, void* data) {
  struct peer* p = data;
  (void)ctx;
  for (size_t i = 0; i < len; i++) buf[i] = (uint8_t)next(&p->r);
  return 0;
}

static void peer_message(wslay_event_context_ptr ctx, const struct wslay_event_on_msg_recv_arg* arg,
                         void* data) {
  struct peer* p = data;
  (void)ctx;
  switch (arg->opcode) {
    case WSLAY_BINARY_FRAME:
      ws_transcript_puts(&p->got, "(");
      ws_transcript_hex(&p->got, arg->msg, arg->msg_length);
      ws_transcript_puts(&p->got, ")");
      break;
    case WSLAY_CONNECTION_CLOSE:
      ws_transcript_close(&p->got, arg->status_code, arg->msg + 2, arg->msg_length - 2);
      break;
    default:
      ws_transcript_puts(&p->got, arg->opcode == WSLAY_PING ? "<" : "[");
      ws_transcript_hex(&p->got, arg->msg, arg->msg_length);
      ws_transcript_puts(&p->got, arg->opcode == WSLAY_PING ? ">" : "]");
  }
}

static ssize_t peer_fragment(wslay_event_context_ptr ctx, uint8_t* buf, size_t len,
                             const union wslay_event_msg_source* source, int* eof, void* data) {
  struct peer* p = data;
  struct bytes* b = source->data;
  size_t n = below(&p->r, 900) + 1;
  (void)ctx;
  if (n > len) n = len;
  if (n > b->len - b->at) n = b->len - b->at;
  memcpy(buf, b->data + b->at, n);
  b->at += n;
  *eof = b->at == b->len;
  return (ssize_t)n;
}

static wslay_event_context_ptr peer_open(struct peer* p, bool is_server, uint64_t seed) {
  static const struct wslay_event_callbacks callbacks = {
      .recv_callback = peer_recv,
      .send_callback = peer_send,
      .genmask_callback = peer_mask,
      .on_msg_recv_callback = peer_message,
  };
  wslay_event_context_ptr ctx;
  memset(p, 0, sizeof *p);
  p->r.s = seed;
  ws_transcript_init(&p->got);
  assert_int_equal(
      (is_server ? wslay_event_context_server_init : wslay_event_context_client_init)(&ctx, &callbacks, p),
      0);
  return ctx;
}

static void peer_close(struct peer* p, wslay_event_context_ptr ctx) {
  wslay_event_context_free(ctx);
  ws_transcript_free(&p->got);
  free(p->in.data);
  free(p->out.data);
  free(p->source.data);
}

static void test_wslay_reads_what_we_write(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const bool is_masked = seed % 2 == 0; /* towards a server */
    struct ws_transcript want;
    struct peer p;
    struct rng r = {seed * 7919};
    wslay_event_context_ptr ctx = peer_open(&p, is_masked, seed);
    ws_transcript_init(&want);
    for (int i = 0; i < 10; i++) {
      size_t n = random_size(&r);
      uint8_t* payload = malloc(n + 1);
      for (size_t k = 0; k < n; k++) payload[k] = (uint8_t)next(&r);
      append_pings(&p.in, &r, is_masked, &want);
      append_frame(&p.in, &r, TMESH_WS_OP_BINARY, true, is_masked, payload, n);
      ws_transcript_puts(&want, "(");
      ws_transcript_hex(&want, payload, n);
      ws_transcript_puts(&want, ")");
      free(payload);
    }
    {
      uint8_t close[TMESH_WS_CONTROL_FRAME_MAX_BYTES];
      append(&p.in, close, tmesh_ws_close_encode(close, 1001, is_masked, (const uint8_t*)"mask"));
      ws_transcript_close(&want, 1001, NULL, 0);
    }
    assert_int_equal(wslay_event_recv(ctx), 0);
    if (strcmp(p.got.text, want.text) != 0) fail_msg("seed %llu", (unsigned long long)seed);
    assert_true(wslay_event_get_close_received(ctx));
    ws_transcript_free(&want);
    peer_close(&p, ctx);
  }
}

static void test_we_read_what_wslay_writes(void** state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 40; seed++) {
    const bool is_server = seed % 2 == 0; /* wslay is */
    struct ws_transcript want, got;
    struct peer p;
    struct rng r = {seed * 104729};
    wslay_event_context_ptr ctx = peer_open(&p, is_server, seed);
    ws_transcript_init(&want);
    ws_transcript_init(&got);
    for (int i = 0; i < 10; i++) {
      struct wslay_event_fragmented_msg fragmented = {WSLAY_BINARY_FRAME, {.data = &p.source}, peer_fragment};
      struct wslay_event_msg ping = {WSLAY_PING, (const uint8_t*)"now", 3};
      size_t n = 1 + random_size(&r);
      uint8_t* payload = malloc(n);
      for (size_t k = 0; k < n; k++) payload[k] = (uint8_t)next(&r);
      p.source.len = p.source.at = 0;
      append(&p.source, payload, n);
      ws_transcript_puts(&want, "(");
      ws_transcript_hex(&want, payload, n);
      ws_transcript_puts(&want, ")<6e6f77>");
      if (below(&r, 2) == 0) {
        assert_int_equal(wslay_event_queue_fragmented_msg(ctx, &fragmented), 0);
      } else {
        struct wslay_event_msg whole = {WSLAY_BINARY_FRAME, payload, n};
        assert_int_equal(wslay_event_queue_msg(ctx, &whole), 0);
      }
      assert_int_equal(wslay_event_send(ctx), 0);
      assert_int_equal(wslay_event_queue_msg(ctx, &ping), 0);
      assert_int_equal(wslay_event_send(ctx), 0);
      free(payload);
    }
    assert_int_equal(wslay_event_queue_close(ctx, 1000, (const uint8_t*)"done", 4), 0);
    assert_int_equal(wslay_event_send(ctx), 0);
    ws_transcript_close(&want, 1000, (const uint8_t*)"done", 4);
    ws_transcript_run(&got, is_server ? TMESH_WS_CLIENT : TMESH_WS_SERVER, TMESH_WS_MESSAGE_MAX_BYTES,
                      p.out.data, p.out.len, random_chunk, &r);
    if (strcmp(got.text, want.text) != 0) fail_msg("seed %llu", (unsigned long long)seed);
    ws_transcript_free(&want);
    ws_transcript_free(&got);
    peer_close(&p, ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_random_fragments_and_chunks_give_identical_messages),
      cmocka_unit_test(test_wslay_reads_what_we_write),
      cmocka_unit_test(test_we_read_what_wslay_writes),
  };
  return cmocka_run_group_tests_name("ws_stream", tests, NULL, NULL);
}
