/* One whole life with the n-th allocation refused, for every n until none is: listen,
 * look a name up, dial, take sockets over, handshake, open a stream, move bytes both ways,
 * end. Whatever is refused, everything ends by itself, with a status, and the loop closes
 * clean, and the next one works. Refused are the allocations of our own code, of the TLS library and of
 * c-ares; libuv ends the process by itself when it has no memory for its table of descriptors. */
#include <ares.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/loop/dial.h"
#include "core/loop/link.h"
#include "core/loop/listener.h"
#include "core/loop/resolver.h"
#include "core/loop/tcp.h"
#include "core/loop/workers.h"
#include "tests/core/loop/fake_dns.h"
#include "tests/core/loop/loop_support.h"
#include "tests/core/wire/tls_fixture.h"

#define TOTAL_BYTES 100000u

static uint64_t allocation_count;
static uint64_t fail_at; /* 0 = none */
static bool has_failed;

void* __real_malloc(size_t n);
void* __real_calloc(size_t n, size_t size);
void* __real_realloc(void* p, size_t n);
void* __wrap_malloc(size_t n);
void* __wrap_calloc(size_t n, size_t size);
void* __wrap_realloc(void* p, size_t n);

static bool is_refused(void) {
  if (fail_at == 0 || ++allocation_count != fail_at) return false;
  has_failed = true;
  return true;
}

void* __wrap_malloc(size_t n) {
  return is_refused() ? NULL : __real_malloc(n);
}

void* __wrap_calloc(size_t n, size_t size) {
  return is_refused() ? NULL : __real_calloc(n, size);
}

void* __wrap_realloc(void* p, size_t n) {
  return is_refused() ? NULL : __real_realloc(p, n);
}

/* --- one end ------------------------------------------------------------------------------ */

struct scene;

/* A link, and the stream of it. The client's is spliced with nothing: it sends and counts. */
struct side {
  struct scene* scene;
  struct tmesh_transport transport;
  struct tmesh_link link;
  struct tmesh_stream* stream;
  bool is_client, has_transport, has_link, is_ready, is_finished;
  size_t sent_bytes, got_bytes;
};

/* What waits for what; every arrow can fail, and then `is_over`. */
struct scene {
  struct tmesh_loop loop;
  struct fake_dns dns;
  struct tmesh_resolver* resolver;
  struct tmesh_listener listener;
  struct tmesh_workers* workers;
  struct tmesh_dial* dial;
  struct tmesh_job job;
  struct tls_configs* tls;
  struct side client, server;
  bool has_listener, is_listener_closed, is_job_over, is_over, is_good;
};

static struct scene scene;

static void give_up(void) {
  scene.is_over = true;
}

static void check_end(void) {
  const bool is_complete = scene.client.got_bytes == TOTAL_BYTES && scene.server.got_bytes == TOTAL_BYTES;
  if (!is_complete || scene.client.stream != NULL || scene.server.stream != NULL || !scene.is_job_over)
    return;
  scene.is_good = true;
  scene.is_over = true;
}

static void move(struct side* s) {
  static uint8_t data[16384];
  while (s->sent_bytes < TOTAL_BYTES) {
    size_t n = TOTAL_BYTES - s->sent_bytes < sizeof data ? TOTAL_BYTES - s->sent_bytes : sizeof data;
    n = tmesh_stream_write(s->stream, data, n);
    s->sent_bytes += n;
    if (n == 0) break;
  }
  if (s->sent_bytes == TOTAL_BYTES) tmesh_stream_finish(s->stream);
}

static void on_stream_event(void* user, struct tmesh_stream* stream, unsigned events) {
  struct side* s = user;
  if ((events & TMESH_STREAM_EV_READABLE) != 0) {
    const size_t n = stream->in.len_bytes;
    tmesh_chunkq_consume(&stream->in, n);
    tmesh_stream_consumed(stream, n);
    s->got_bytes += n;
  }
  const bool is_refused_open = (events & TMESH_STREAM_EV_RESULT) != 0 && !stream->result.accepted;
  if ((events & TMESH_STREAM_EV_OVER) != 0 || is_refused_open) {
    s->stream = NULL;
    tmesh_stream_release(stream);
    give_up();
    return;
  }
  move(s);
  /* A block that is refused is asked for again by the next event; without one, now. */
  if (s->sent_bytes < TOTAL_BYTES && stream->out.len_bytes == 0 && stream->batched_bytes == 0) give_up();
  if (!tmesh_stream_is_done(stream) || !tmesh_stream_all_written(stream)) return;
  s->stream = NULL;
  tmesh_stream_release(stream);
  check_end();
}

static void on_open(void* ctx, struct tmesh_stream* stream, const struct tmesh_open_stream* open) {
  struct side* s = ctx;
  const struct tmesh_open_result ok = tmesh_open_accept();
  (void)open;
  s->stream = stream;
  tmesh_stream_attach(stream, s, on_stream_event);
  tmesh_stream_answer(stream, &ok);
}

static struct tmesh_status on_control(void* ctx, const struct tmesh_frame_header* header,
                                      const uint8_t* payload, size_t len_bytes) {
  (void)ctx;
  (void)header;
  (void)payload;
  (void)len_bytes;
  return tmesh_ok();
}

static const struct tmesh_mux_events mux_events = {.on_open = on_open, .on_control = on_control};

static void on_down(void* ctx, struct tmesh_status why) {
  (void)ctx;
  (void)why;
  give_up();
}

static void on_link_closed(void* ctx) {
  struct side* s = ctx;
  s->has_link = false;
  s->has_transport = false;
}

static const struct tmesh_link_events link_events = {on_down, on_link_closed};

static void open_link(struct side* s) {
  const struct tmesh_mux_config config = {
      .events = &mux_events,
      .events_ctx = s,
      .is_opener = s->is_client,
      .has_open_result = true,
      .has_flow_control = true,
      .peer_is_ours = true,
      .initial_window_bytes = TMESH_WINDOW_INITIAL_BYTES,
      .window_threshold_bytes = TMESH_WINDOW_THRESHOLD_BYTES,
      .inbound_max_bytes = 262144,
      .outbound_max_bytes = 262144,
      .streams_max = 10,
  };
  if (!tmesh_is_ok(
          tmesh_link_open(&s->link, &s->transport, s->is_client, &config, &link_events, s, NULL, 0))) {
    give_up(); /* the transport is still ours */
    return;
  }
  s->has_link = true;
  if (!s->is_client) return;
  const struct tmesh_open_stream open = {.protocol = TMESH_OPEN_TCP, .target_host = "h", .target_port = 1};
  const struct tmesh_open_params params = {
      .open = &open, .is_strict = true, .window_bytes = TMESH_WINDOW_INITIAL_BYTES};
  struct tmesh_status why;
  s->stream = tmesh_mux_open(tmesh_link_mux(&s->link), &params, &why);
  if (s->stream != NULL) {
    tmesh_stream_attach(s->stream, s, on_stream_event);
  } else {
    assert_int_equal(why.code, TMESH_E_NO_MEMORY);
    give_up();
  }
}

static void on_ready(void* ctx, struct tmesh_status st) {
  if (tmesh_is_ok(st)) {
    open_link(ctx);
  } else {
    give_up();
  }
}

static void on_error(void* ctx, struct tmesh_status st) {
  (void)ctx;
  (void)st;
  give_up();
}

static void on_transport_closed(void* ctx) {
  ((struct side*)ctx)->has_transport = false;
}

static const struct tmesh_transport_events transport_events = {
    .on_ready = on_ready, .on_error = on_error, .on_closed = on_transport_closed};

static void take_over(struct side* s, int fd, bool is_client) {
  struct tmesh_tls_config* config = NULL;
  if (scene.tls != NULL) config = is_client ? scene.tls->client : scene.tls->server;
  s->is_client = is_client;
  s->has_transport = tmesh_is_ok(tmesh_transport_open(&s->transport, &scene.loop, fd, config, !is_client,
                                                      is_client ? TLS_NAME : NULL, &transport_events, s));
  if (!s->has_transport) give_up();
}

/* --- the rest ------------------------------------------------------------------------------- */

static void on_accept(void* ctx, int fd, const struct sockaddr* address) {
  (void)ctx;
  (void)address;
  if (scene.is_over) {
    close(fd);
  } else {
    take_over(&scene.server, fd, false);
  }
}

static void on_listener_broken(void* ctx, struct tmesh_status why) {
  (void)ctx;
  (void)why;
  give_up();
}

static void on_listener_closed(void* ctx) {
  (void)ctx;
  scene.is_listener_closed = true;
}

static const struct tmesh_listener_events listener_events = {on_accept, on_listener_broken,
                                                             on_listener_closed};

static void on_dialed(void* ctx, const struct tmesh_dial_result* result) {
  (void)ctx;
  scene.dial = NULL;
  if (tmesh_is_ok(result->status)) {
    take_over(&scene.client, result->fd, true);
  } else {
    give_up();
  }
}

static void work(struct tmesh_job* job) {
  (void)job;
}

static void job_over(struct tmesh_job* job) {
  (void)job;
  scene.is_job_over = true;
  check_end();
}

static bool begin(void) {
  scene.workers = tmesh_workers_new(&scene.loop, 1, 4);
  if (scene.workers == NULL) return false;
  scene.job = (struct tmesh_job){.work = work, .done = job_over, .dropped = job_over};
  if (!tmesh_is_ok(tmesh_workers_submit(scene.workers, &scene.job))) return false;
  scene.has_listener =
      tmesh_is_ok(tmesh_listener_open(&scene.listener, &scene.loop, "127.0.0.1", 0, &listener_events, NULL));
  if (!scene.has_listener) return false;
  scene.resolver = tmesh_resolver_new(&scene.loop, scene.dns.servers);
  if (scene.resolver == NULL) return false;
  const struct tmesh_dial_params params = {.host = "hub.test",
                                           .port = tmesh_listener_port(&scene.listener),
                                           .timeout_ms = 15000,
                                           .done = on_dialed};
  return tmesh_is_ok(tmesh_dial_start(&scene.loop, scene.resolver, &params, &scene.dial));
}

static void end_side(struct side* s) {
  if (s->stream != NULL) tmesh_stream_release(s->stream);
  s->stream = NULL;
  if (s->has_link) {
    tmesh_link_close(&s->link);
  } else if (s->has_transport) {
    tmesh_transport_close(&s->transport, false);
  }
}

static void on_tick(uv_timer_t* timer) {
  (void)timer;
}

static void run_while(const bool* flag, bool value) {
  const uint64_t limit_us = uv_hrtime() / 1000 + 20000000;
  uv_timer_t tick;
  assert_int_equal(uv_timer_init(&scene.loop.uv, &tick), 0);
  assert_int_equal(uv_timer_start(&tick, on_tick, 2, 2), 0);
  while (*flag == value) {
    if (uv_hrtime() / 1000 > limit_us) fail_msg("allocation %u refused: nothing ends", (unsigned)fail_at);
    (void)uv_run(&scene.loop.uv, UV_RUN_ONCE);
  }
  uv_close((uv_handle_t*)&tick, NULL);
  (void)uv_run(&scene.loop.uv, UV_RUN_NOWAIT);
}

/* Returns whether it came to its good end. */
static bool play(struct tls_configs* tls, uint64_t n) {
  memset(&scene, 0, sizeof scene);
  scene.tls = tls;
  scene.client.scene = scene.server.scene = &scene;
  allocation_count = 0;
  has_failed = false;
  fail_at = n;
  struct tmesh_status st = tmesh_loop_init(&scene.loop, 8u << 20);
  if (!tmesh_is_ok(st)) {
    fail_at = 0;
    assert_int_equal(st.code, TMESH_E_NO_MEMORY);
    return false;
  }
  fail_at = 0; /* the name server is the test's */
  fake_dns_open(&scene.dns, &scene.loop, "127.0.0.1", 0);
  fake_dns_rule(&scene.dns, "hub.test", FAKE_DNS_A, FAKE_DNS_ANSWER, "127.0.0.1", 0);
  fake_dns_rule(&scene.dns, "hub.test", FAKE_DNS_AAAA, FAKE_DNS_ANSWER, "", 0);
  fail_at = n;
  if (!begin()) give_up();
  run_while(&scene.is_over, false);
  fail_at = 0;

  if (scene.dial != NULL) tmesh_dial_cancel(scene.dial);
  end_side(&scene.client);
  end_side(&scene.server);
  if (scene.has_listener) tmesh_listener_close(&scene.listener);
  if (scene.resolver != NULL) tmesh_resolver_free(scene.resolver);
  if (scene.workers != NULL) tmesh_workers_free(scene.workers);
  fake_dns_close(&scene.dns);
  run_while(&scene.client.has_transport, true);
  run_while(&scene.server.has_transport, true);
  assert_true(tmesh_loop_close(&scene.loop));
  return scene.is_good;
}

/* A TLS handshake allocates some 16,000 times, nearly all of it inside the big numbers of the
 * library: beyond the first `each` every twentieth part is tried. */
static void every_refused_allocation_ends_cleanly(struct tls_configs* tls, uint64_t each,
                                                  unsigned expected_min) {
  unsigned bad_count = 0;
  assert_true(play(tls, 0));
  for (uint64_t n = 1;; n += n < each ? 1 : n / 20 + 1) {
    const bool is_good = play(tls, n);
    if (!has_failed) {
      assert_true(is_good);
      break;
    }
    if (!is_good) bad_count++;
  }
  assert_true(bad_count >= expected_min);
}

static void plain(void** state) {
  (void)state;
  every_refused_allocation_ends_cleanly(NULL, UINT64_MAX, 10);
}

static void over_tls(void** state) {
  (void)state;
  struct tls_configs tls = tls_fixture_configs(TMESH_TLS_VERSION_1_3);
  every_refused_allocation_ends_cleanly(&tls, 300, 200);
  tls_fixture_free(&tls);
}

static int set_up(void** state) {
  if (ares_library_init_mem(ARES_LIB_INIT_ALL, __wrap_malloc, free, __wrap_realloc) != ARES_SUCCESS)
    return -1;
  return tls_fixture_make(state);
}

static int tear_down(void** state) {
  (void)state;
  ares_library_cleanup();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(plain), cmocka_unit_test(over_tls)};
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
